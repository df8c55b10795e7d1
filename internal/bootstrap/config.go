package bootstrap

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

//go:embed my.cnf
var config string

// RenderConfig returns the member's my.cnf. It includes ConfigDir/launch.cnf, which RenderLaunchSettings gives, between
// the settings that a user may change and the pinned ones: of two values, mysqld takes the last. Before that it includes ConfigDir/redo.cnf,
// in which the script keeps the redo log to what the volume has room for.
func RenderConfig(in Input) string {
	var b strings.Builder
	for line := range strings.Lines(config) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "server_id=%d\nreport_host=%s\n", ServerID(in.Ordinal, in.VolumeIncarnation), in.Member)
	fixed := settings.AtCreation(in.Settings)
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		fmt.Fprintf(&b, "%s=%s\n", name, fixed[name])
	}
	return b.String()
}

// RenderLaunchSettings returns the option file of the user's settings that a member starts with until they are persisted. Those that
// MySQL takes over SQL alone, and names that it may not know, are left to the operator: see settings.ForLaunch.
func RenderLaunchSettings(in Input) string {
	return RenderOptions(settings.ForLaunch(settings.SeriesOf(in.Version), in.Settings))
}

// RenderOptions returns an option file of mysqld, sorted by name, that mysqld starts with although it may not know a name.
func RenderOptions(options map[string]string) string {
	var b strings.Builder
	b.WriteString("[mysqld]\n")
	for _, name := range slices.Sorted(maps.Keys(options)) {
		// Quoted, the value keeps its spaces, and a # begins no comment.
		fmt.Fprintf(&b, "loose_%s=\"%s\"\n", name, options[name])
	}
	return b.String()
}

// RenderInitSQL returns the statements that mysqld runs at every start: the accounts as they have to be under this
// cluster's authority, whatever the data volume held before. A statement that failed would keep the rest from running
// (MYSQL-FACTS 26), so each of them succeeds whether or not its account is there. Without sql_log_bin=0 every start
// would make a transaction that no other member has.
//
// Neither account has a password: the certificate is the proof. The empty password is given as a hash, which no password
// policy is applied to.
func RenderInitSQL(in Input) string {
	const account = "IDENTIFIED WITH caching_sha2_password AS '' "
	operator := account + "REQUIRE ISSUER " + sqlQuote(in.IssuerDN) + " AND SUBJECT " + sqlQuote(in.OperatorDN)
	// A limit of their own keeps max_user_connections from them: a server takes it for those who have none.
	const usable = " WITH MAX_USER_CONNECTIONS 1000 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK"
	statements := slices.Concat([]string{
		"SET sql_log_bin=0",
		"CREATE USER IF NOT EXISTS " + OperatorAccount + " " + operator,
		"ALTER USER " + OperatorAccount + " " + operator + usable,
		"GRANT ALL ON *.* TO " + OperatorAccount + " WITH GRANT OPTION",
	}, mysql.ReplicationAccount(sqlQuote(in.IssuerDN)), []string{"ALTER USER IF EXISTS root@localhost ACCOUNT LOCK"})
	return strings.Join(statements, ";\n") + ";\n"
}

// OperatorAccount is that of the operator, as SQL writes it.
const OperatorAccount = "'" + mysql.OperatorUser + "'@'%'"

// sqlQuote returns text as an SQL string, under any sql_mode that an init file can run in.
func sqlQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}
