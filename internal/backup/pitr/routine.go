package pitr

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// makesRoutine finds the name of a routine in the statement that the server writes to the binary log when one is made.
var makesRoutine = regexp.MustCompile("(?is)^CREATE DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*` (PROCEDURE|FUNCTION) (?:IF NOT EXISTS )?(?:`((?:[^`]|``)*)`\\.)?`((?:[^`]|``)*)`\\(")

// routineGrant is, for a statement that makes a routine, the one that gives who makes it the privileges on it that the server gives them by itself
// (automatic_sp_privileges): the right to run and to alter it, unless the account has both on the database or everywhere. The server takes
// the replaying account for the one that makes it, and gives that nothing.
func routineGrant(q query) (grant string, makes bool) {
	found := makesRoutine.FindStringSubmatch(q.text)
	if found == nil || q.invoker == "" {
		return "", false
	}
	plain := func(name string) string { return literal(strings.ReplaceAll(name, "``", "`")) }
	database := literal(q.database)
	if found[2] != "" {
		database = plain(found[2])
	}
	has := func(column string) string {
		return fmt.Sprintf("(u.%s = 'Y' OR EXISTS (SELECT 1 FROM mysql.db d WHERE d.User = u.User AND d.Host = u.Host AND %s LIKE d.Db ESCAPE X'5C' AND d.%s = 'Y'))", column, database, column)
	}
	return fmt.Sprintf("INSERT IGNORE INTO mysql.procs_priv (Host, Db, User, Routine_name, Routine_type, Grantor, Proc_priv) "+
		"SELECT u.Host, %s, u.User, %s, '%s', CONCAT(u.User, '@', u.Host), 'Execute,Alter Routine' FROM mysql.user u WHERE u.User = %s AND u.Host = %s AND @@automatic_sp_privileges "+
		"AND NOT (%s AND %s) AND NOT EXISTS (SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %[1]s AND ROUTINE_NAME = %[2]s AND ROUTINE_TYPE = '%[3]s')",
		database, plain(found[3]), strings.ToUpper(found[1]), literal(q.user), literal(q.host), has("Execute_priv"), has("Alter_routine_priv")), true
}

// literal is text as SQL in whatever session.
func literal(text string) string { return "_utf8mb4 X'" + hex.EncodeToString([]byte(text)) + "'" }
