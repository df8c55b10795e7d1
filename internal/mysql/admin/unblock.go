package admin

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// appliers are the threads that apply what a replica receives.
const appliers = `(SELECT THREAD_ID FROM performance_schema.replication_applier_status_by_worker WHERE CHANNEL_NAME = ''
	UNION SELECT THREAD_ID FROM performance_schema.replication_applier_status_by_coordinator WHERE CHANNEL_NAME = '')`

// obstacles are the clients' sessions that an applier of this server waits for: for a lock on a table, a schema or the server
// (LOCK TABLES, FLUSH TABLES WITH READ LOCK, a transaction that has read a table which is to be altered), or for locks on rows (SELECT ...
// FOR SHARE; 9.7.4 refuses FOR UPDATE). super_read_only forbids none of them, and the applier waits for a year.
const obstacles = `SELECT DISTINCT PROCESSLIST_ID FROM performance_schema.threads JOIN (
	SELECT held.OWNER_THREAD_ID AS HOLDER FROM performance_schema.metadata_locks waits JOIN performance_schema.metadata_locks held
		ON held.OBJECT_TYPE = waits.OBJECT_TYPE AND held.OBJECT_SCHEMA <=> waits.OBJECT_SCHEMA AND held.OBJECT_NAME <=> waits.OBJECT_NAME
		WHERE waits.LOCK_STATUS = 'PENDING' AND held.LOCK_STATUS = 'GRANTED' AND waits.OWNER_THREAD_ID IN ` + appliers + `
	UNION SELECT BLOCKING_THREAD_ID FROM performance_schema.data_lock_waits WHERE REQUESTING_THREAD_ID IN ` + appliers + `
	) blocking ON THREAD_ID = HOLDER WHERE ` + conn.OfClients

// serverLocks are the clients' sessions that lock the whole server: with LOCK INSTANCE FOR BACKUP, under which STOP REPLICA is refused
// (fact 13), or with FLUSH TABLES WITH READ LOCK, under which nobody could write to a new primary.
const serverLocks = `SELECT DISTINCT PROCESSLIST_ID FROM performance_schema.threads JOIN performance_schema.metadata_locks ON OWNER_THREAD_ID = THREAD_ID
	WHERE OBJECT_TYPE IN ('BACKUP LOCK', 'GLOBAL', 'COMMIT') AND LOCK_TYPE = 'SHARED' AND LOCK_STATUS = 'GRANTED' AND ` + conn.OfClients

// clearTheWay ends the clients' sessions on a replica that keep its applier from what it has received. Only what cannot wait calls it:
// a member that is to be promoted, or pointed at another primary, whose clients' writes wait for it, or that is to be seeded anew. What
// they read, they read again.
func clearTheWay(ctx context.Context, s *conn.Session) error {
	_, err := conn.EndSessions(ctx, s, obstacles)
	return err
}
