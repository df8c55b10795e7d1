package admin

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// backupPrivileges are what mysqldump (reference manual, "mysqldump", "Invocation"), the checks beside it and the archive
// of binary logs need. FLUSH_TABLES is enough for the global read lock, of mysqldump's too (tried on 9.7.4); RELOAD would
// let a pod do RESET BINARY LOGS AND GTIDS, and so break replication. Without RESOURCE_GROUP_USER the server shows no resource groups.
// EXECUTE is not among them: it would let a pod write through procedures of others, and no view is read.
const backupPrivileges = "SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, FLUSH_TABLES, PROCESS, REPLICATION CLIENT, REPLICATION SLAVE, SHOW_ROUTINE, XA_RECOVER_ADMIN, RESOURCE_GROUP_USER"

// EnsureBackupAccount makes the account of the backup pods on the primary, from where it comes to the others, bound to
// the cluster's authority and to the subject of their certificate. Its limit of connections, which it never reaches, keeps the
// global max_user_connections from it. It writes only what is not as it should be.
func (m *Member) EnsureBackupAccount(ctx context.Context, issuerDN, subjectDN string) (changed bool, err error) {
	defer m.h.Annotate(&err, "set up the account of the backup pods")
	if issuerDN == "" || subjectDN == "" {
		return false, fmt.Errorf("%w: the authority or the subject is empty", mysql.ErrInvalidArgument)
	}
	var present bool
	if err := m.h.Control(ctx, func(s *conn.Session) error {
		return s.Row(ctx, `SELECT EXISTS(SELECT 1 FROM mysql.user WHERE User = ? AND Host = '%' AND ssl_type = 'SPECIFIED' AND x509_issuer = ? AND x509_subject = ?
			AND account_locked = 'N' AND password_expired = 'N' AND max_user_connections = 1000 AND Select_priv = 'Y' AND Show_view_priv = 'Y' AND Trigger_priv = 'Y' AND Event_priv = 'Y'
			AND Lock_tables_priv = 'Y' AND Reload_priv = 'N' AND Process_priv = 'Y' AND Repl_client_priv = 'Y' AND Repl_slave_priv = 'Y')
			AND (SELECT COUNT(*) FROM mysql.global_grants WHERE USER = ? AND HOST = '%' AND PRIV IN ('FLUSH_TABLES', 'SHOW_ROUTINE', 'XA_RECOVER_ADMIN', 'RESOURCE_GROUP_USER')) = 4`,
			[]any{mysql.BackupUser, []byte(issuerDN), []byte(subjectDN), mysql.BackupUser}, &present)
	}); err != nil || present {
		return false, err
	}
	const name = "'" + mysql.BackupUser + "'@'%'"
	err = m.h.Transact(ctx, func(s *conn.Session) error {
		for _, statement := range []struct {
			op, query string
			args      []any
		}{
			{"backup/create-user", "CREATE USER IF NOT EXISTS " + name + " IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER ? AND SUBJECT ?", []any{issuerDN, subjectDN}},
			{"backup/alter-user", "ALTER USER " + name + " IDENTIFIED WITH caching_sha2_password AS '' REQUIRE ISSUER ? AND SUBJECT ? WITH MAX_USER_CONNECTIONS 1000 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK", []any{issuerDN, subjectDN}},
			{"backup/grant", "GRANT " + backupPrivileges + " ON *.* TO " + name, nil},
			{"backup/revoke", "REVOKE RELOAD ON *.* FROM " + name, nil},
		} {
			if err := s.Change(ctx, statement.op, statement.query, statement.args...); err != nil {
				return err
			}
		}
		return nil
	})
	return true, err
}
