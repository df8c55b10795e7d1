package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// podAccount is what an account of pods may do.
type podAccount struct {
	// global are privileges on *.* that MySQL keeps as columns of mysql.user, dynamic those that it keeps in mysql.global_grants.
	global, dynamic []string
	// database is one that the account may read; empty for none.
	database string
	// function is one of the operator's database that the account may call; nil for none.
	function *function
	// revoked is a privilege that the account had in an earlier release.
	revoked string
	// connections is the most that the account may have. Unless it has a limit, the global max_user_connections is its limit.
	connections int
}

var podAccounts = map[string]podAccount{
	// What mysqldump (reference manual, "mysqldump", "Invocation"), the checks beside it and the archive of binary logs need.
	// FLUSH_TABLES is enough for the global read lock, of mysqldump's too (tried on 9.7.4); RELOAD would let a pod do
	// RESET BINARY LOGS AND GTIDS, and so break replication. Without RESOURCE_GROUP_USER the server shows no resource groups.
	// EXECUTE is not among them: it would let a pod write through procedures of others, and no view is read.
	mysql.BackupUser: {
		global:  []string{"SELECT", "SHOW VIEW", "TRIGGER", "EVENT", "LOCK TABLES", "PROCESS", "REPLICATION CLIENT", "REPLICATION SLAVE"},
		dynamic: []string{"FLUSH_TABLES", "SHOW_ROUTINE", "XA_RECOVER_ADMIN", "RESOURCE_GROUP_USER"},
		revoked: "RELOAD", connections: 1000,
	},
	// PROCESS is for the metrics of InnoDB, REPLICATION CLIENT for the list of binary logs. Of its connections it needs two; the others
	// are for a pod that is replaced, and for sessions of a pod that was lost. The privilege FILE, with which it could read the logs by
	// itself, would let it write files too.
	mysql.MetricsUser: {global: []string{"PROCESS", "REPLICATION CLIENT"}, database: "performance_schema", function: &readLog, connections: 5},
}

// function is a stored function that runs with the operator's privileges.
type function struct{ name, signature, body string }

// readLog serves nobody but the account of the pod: who may call every function could read everybody's statements with it. 1301 is what a
// file that is longer than max_allowed_packet raises.
var readLog = function{
	name:      mysql.ReadLogFunction,
	signature: "(file VARCHAR(20) CHARACTER SET ascii, start BIGINT UNSIGNED) RETURNS LONGBLOB READS SQL DATA SQL SECURITY DEFINER",
	body: fmt.Sprintf(`BEGIN
  DECLARE content LONGBLOB;
  DECLARE head LONGBLOB;
  DECLARE CONTINUE HANDLER FOR 1301 SET content = NULL;
  IF SUBSTRING_INDEX(USER(), '@', 1) = '%s' AND file IN ('slow.log', 'slow.log.1', 'general.log', 'general.log.1') THEN
    SET content = LOAD_FILE(CONCAT('%slogs/', file));
  END IF;
  SET head = LEFT(content, %d);
  RETURN CONCAT(OCTET_LENGTH(content), ' ', OCTET_LENGTH(head), CHAR(10), head, SUBSTRING(content, start + 1, %d));
END`, mysql.MetricsUser, observe.ExchangeDir, mysql.LogHeadSize, mysql.LogPartSize),
}

// definer is the account with whose privileges a function runs.
const definer = "'" + mysql.OperatorUser + "'@'%'"

// create makes the function in place of any of its name.
func (f *function) create() []string {
	name := conn.QuoteName(mysql.Database) + "." + conn.QuoteName(f.name)
	return []string{conn.CreateDatabase, "DROP FUNCTION IF EXISTS " + name, "CREATE DEFINER=" + definer + " FUNCTION " + name + f.signature + "\n" + f.body}
}

// EnsurePodAccount makes an account of pods on the primary, from where it comes to the others, bound to the cluster's authority and to
// the subject of their certificate. It writes only what is not as it should be.
func (m *Member) EnsurePodAccount(ctx context.Context, user, issuerDN, subjectDN string) (changed bool, err error) {
	defer m.h.Annotate(&err, "set up the account "+user)
	account, known := podAccounts[user]
	if !known || issuerDN == "" || subjectDN == "" {
		return false, fmt.Errorf("%w: the account is not known, or the authority or the subject is empty", mysql.ErrInvalidArgument)
	}
	var present bool
	query, args := account.check(user, issuerDN, subjectDN)
	if err := m.h.Control(ctx, func(s *conn.Session) error { return s.Row(ctx, query, args, &present) }); err != nil || present {
		return false, err
	}
	err = m.h.Transact(ctx, func(s *conn.Session) error {
		for _, statement := range account.statements("'" + user + "'@'%'") {
			var args []any
			if strings.Contains(statement, " ISSUER ? ") {
				args = []any{issuerDN, subjectDN}
			}
			if err := s.Change(ctx, "pod-account/"+strings.ToLower(strings.Fields(statement)[0]), statement, args...); err != nil {
				return err
			}
		}
		return nil
	})
	return true, err
}

// check is the query that says whether the account is as it should be.
func (a podAccount) check(user, issuerDN, subjectDN string) (query string, args []any) {
	has := fmt.Sprintf("u.ssl_type = 'SPECIFIED' AND u.x509_issuer = ? AND u.x509_subject = ? AND u.account_locked = 'N' AND u.password_expired = 'N' AND u.max_user_connections = %d", a.connections)
	for _, privilege := range a.global {
		has += " AND u." + column(privilege) + " = 'Y'"
	}
	if a.revoked != "" {
		has += " AND u." + column(a.revoked) + " = 'N'"
	}
	query = "SELECT EXISTS(SELECT 1 FROM mysql.user u WHERE u.User = ? AND u.Host = '%' AND " + has + ")"
	args = []any{user, []byte(issuerDN), []byte(subjectDN)}
	if len(a.dynamic) > 0 {
		query += fmt.Sprintf(" AND (SELECT COUNT(*) FROM mysql.global_grants WHERE USER = ? AND HOST = '%%' AND PRIV IN ('%s')) = %d", strings.Join(a.dynamic, "', '"), len(a.dynamic))
		args = append(args, user)
	}
	if f := a.function; f != nil {
		query += " AND EXISTS(SELECT 1 FROM mysql.procs_priv WHERE User = ? AND Host = '%' AND Db = '" + mysql.Database + "' AND Routine_name = '" + f.name + "' AND FIND_IN_SET('Execute', Proc_priv))" +
			" AND EXISTS(SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '" + mysql.Database + "' AND ROUTINE_NAME = '" + f.name + "' AND SECURITY_TYPE = 'DEFINER' AND DEFINER = '" + mysql.OperatorUser + "@%' AND ROUTINE_DEFINITION = ?)"
		args = append(args, user, f.body)
	}
	if a.database != "" {
		query += " AND EXISTS(SELECT 1 FROM mysql.db WHERE User = ? AND Host = '%' AND Db = '" + a.database + "' AND Select_priv = 'Y')"
		args = append(args, user)
	}
	return query, args
}

// column is that of mysql.user with a privilege.
func column(privilege string) string {
	names := map[string]string{"REPLICATION CLIENT": "Repl_client_priv", "REPLICATION SLAVE": "Repl_slave_priv"}
	if name, is := names[privilege]; is {
		return name
	}
	name := strings.ToLower(strings.ReplaceAll(privilege, " ", "_"))
	return strings.ToUpper(name[:1]) + name[1:] + "_priv"
}

// statements make the account what it should be. A question mark each stands for the authority and the subject.
func (a podAccount) statements(name string) []string {
	const login = " IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER ? AND SUBJECT ?"
	statements := []string{
		"CREATE USER IF NOT EXISTS " + name + login,
		"ALTER USER " + name + login + fmt.Sprintf(" WITH MAX_USER_CONNECTIONS %d PASSWORD EXPIRE NEVER ACCOUNT UNLOCK", a.connections),
		"GRANT " + strings.Join(append(a.global[:len(a.global):len(a.global)], a.dynamic...), ", ") + " ON *.* TO " + name,
	}
	if a.database != "" {
		statements = append(statements, "GRANT SELECT ON "+conn.QuoteName(a.database)+".* TO "+name)
	}
	if f := a.function; f != nil {
		statements = append(statements, f.create()...)
		statements = append(statements, "GRANT EXECUTE ON FUNCTION "+conn.QuoteName(mysql.Database)+"."+conn.QuoteName(f.name)+" TO "+name)
	}
	if a.revoked != "" {
		statements = append(statements, "REVOKE "+a.revoked+" ON *.* FROM "+name)
	}
	return statements
}
