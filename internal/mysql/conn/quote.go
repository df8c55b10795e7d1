package conn

import "strings"

// QuoteName quotes an identifier.
func QuoteName(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// Compact removes the white space that MySQL puts into long GTID sets.
func Compact(gtids string) string {
	return strings.Join(strings.Fields(gtids), "")
}

// QuoteText returns text as an SQL string in a session whose sql_mode has no NO_BACKSLASH_ESCAPES.
func QuoteText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\x00", `\0`).Replace(text) + "'"
}

// Account is a user or a role.
type Account struct{ User, Host string }

// Quoted is the account as SQL names it.
func (a Account) Quoted() string { return QuoteName(a.User) + "@" + QuoteName(a.Host) }
