package mysql

import (
	"strings"
)

// quoteName quotes an identifier.
func quoteName(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// compact removes the white space that MySQL puts into long GTID sets.
func compact(gtids string) string {
	return strings.Join(strings.Fields(gtids), "")
}

// quoteText returns text as an SQL string in a session whose sql_mode has no NO_BACKSLASH_ESCAPES.
func quoteText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\x00", `\0`).Replace(text) + "'"
}
