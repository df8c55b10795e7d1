package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// ErrNotEmpty: the server holds something that a recovery would overwrite.
var ErrNotEmpty = errors.New("the server is not empty; a recovery never overwrites anything")

// ErrServes: the server takes writes from clients already.
var ErrServes = errors.New("the server takes writes already; a recovery only goes into a new cluster")

// The mark on a server that is being recovered. It is never in the binary log and never in a backup.
const (
	recoveryTable  = "nairobi_mysql.recovery"
	createRecovery = `CREATE TABLE IF NOT EXISTS ` + recoveryTable + ` (
		id TINYINT UNSIGNED NOT NULL PRIMARY KEY, recovery VARCHAR(512) NOT NULL, done BOOL NOT NULL, CONSTRAINT one_recovery CHECK (id = 1)) ENGINE=InnoDB`
	// widenRecovery changes a table of an earlier release, whose names were shorter.
	widenRecovery = `ALTER TABLE ` + recoveryTable + ` MODIFY recovery VARCHAR(512) NOT NULL`
)

// Recovery is one by name, on the server of a visit. What it has begun and completed is marked on the server: under the same name it can
// be begun again after it was cut off.
type Recovery struct {
	v    *Visit
	name string
}

// Recovery names one.
func (v *Visit) Recovery(name string) *Recovery { return &Recovery{v, name} }

// Begin makes a server ready to be recovered: empty, without any GTID, and open for statements of the operator
// alone. A server that holds anything is refused with ErrNotEmpty, unless what it holds is what a recovery of the same
// name left behind that was cut off: that is thrown away. done says that it was completed before; then nothing is changed.
func (r *Recovery) Begin(ctx context.Context) (done bool, err error) {
	v := r.v
	if err := r.claim(ctx); err != nil {
		return false, err
	}
	marked, done, err := r.marked(ctx)
	if err != nil || done {
		return done, err
	}
	state, err := r.unserving(ctx)
	if err != nil {
		return false, err
	}
	databases, err := v.Databases(ctx)
	if err != nil {
		return false, fmt.Errorf("list the databases: %w", err)
	}
	if !marked && (state.Executed != "" || len(databases) > 0) {
		return false, fmt.Errorf("%w: it has executed %q and has the databases %s", ErrNotEmpty, state.Executed, strings.Join(databases, ", "))
	}
	if err := r.open(ctx); err != nil {
		return false, err
	}
	if err := r.mark(ctx, r.name, false); err != nil {
		return false, err
	}
	if err := r.endBuilding(ctx); err != nil {
		return false, err
	}
	return false, r.empty(ctx, databases)
}

// The locks of a server that a recovery holds: the one that went on last has them, and what it fills the server with besides.
const (
	recoveryLock = "nairobi_mysql.recovery"
	replayLock   = "nairobi_mysql.replay"
	// lockPatience is how long the session that is ended may take to give a lock back, in seconds.
	lockPatience = 10
)

// claim makes the visit the only one that recovers the server. The sessions of a pod that went before, on a node that was lost or that
// stands still, are ended: when it wakes it must not close a server that serves by then.
func (r *Recovery) claim(ctx context.Context) error {
	for _, lock := range []string{recoveryLock, replayLock} {
		if err := r.v.take(ctx, lock); err != nil {
			return fmt.Errorf("end the recovery that went before: %w", err)
		}
	}
	// The session of the replay takes it; see OpenReplay.
	if err := r.v.exec(ctx, "DO RELEASE_LOCK(?)", replayLock); err != nil {
		return fmt.Errorf("end the recovery that went before: %w", err)
	}
	return nil
}

// take takes a lock, and ends the session that holds it.
func (v *Visit) take(ctx context.Context, lock string) error {
	var holder uint64
	if err := v.s.Row(ctx, "SELECT IFNULL(IS_USED_LOCK(?), 0)", []any{lock}, &holder); err != nil {
		return err
	}
	if holder != 0 && holder != v.s.ID() {
		if err := v.s.Kill(ctx, holder); err != nil {
			return err
		}
	}
	var taken bool
	if err := v.s.Row(ctx, "SELECT IFNULL(GET_LOCK(?, ?), 0)", []any{lock, lockPatience}, &taken); err != nil {
		return err
	}
	if !taken {
		return fmt.Errorf("%s is held by another session", lock)
	}
	return nil
}

// unserving reads the state of a server that takes no writes from clients; ErrServes of another.
func (r *Recovery) unserving(ctx context.Context) (ServerState, error) {
	state, err := r.v.State(ctx)
	if err == nil && state.Writable {
		err = ErrServes
	}
	return state, err
}

// endBuilding ends what a recovery that was cut off still runs for long: the server goes on with a statement whose client is gone, and
// nobody drops the table meanwhile.
func (r *Recovery) endBuilding(ctx context.Context) error {
	v := r.v
	ids, err := v.lines(ctx, "SELECT ID FROM performance_schema.processlist WHERE ID <> CONNECTION_ID() AND USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1) AND INFO LIKE 'ALTER TABLE % ADD KEY %'")
	if err != nil {
		return fmt.Errorf("look for statements of a recovery that was cut off: %w", err)
	}
	for _, text := range ids {
		id, err := strconv.ParseUint(text, 10, 64)
		if err == nil {
			err = v.s.Kill(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("end a statement of a recovery that was cut off: %w", err)
		}
	}
	return nil
}

// said reads the mark, empty when there is none.
func (r *Recovery) said(ctx context.Context) (name string, done bool, err error) {
	err = r.v.s.Row(ctx, "SELECT recovery, done FROM "+recoveryTable, nil, &name, &done)
	switch {
	case conn.IsServerError(err, mysql.ErNoSuchTable, mysql.ErBadDB), errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read the mark of a recovery: %w", err)
	}
	return name, done, nil
}

// marked says whether the mark is that of this recovery; one of another is no mark, because a volume
// may come from a cluster that was recovered itself.
func (r *Recovery) marked(ctx context.Context) (ours, done bool, err error) {
	name, done, err := r.said(ctx)
	return name == r.name, done && name == r.name, err
}

// open lets this account write, nobody else, and nothing into the binary log. read_only stays on. The session compares what was restored
// as well, and reads definitions of any length.
func (r *Recovery) open(ctx context.Context) error {
	for _, statement := range []string{"SET GLOBAL super_read_only = OFF", "SET SESSION sql_log_bin = OFF, SESSION lock_wait_timeout = 60" + permissive} {
		if err := r.v.exec(ctx, statement); err != nil {
			return fmt.Errorf("open the server for the recovery: %w", err)
		}
	}
	return nil
}

func (r *Recovery) mark(ctx context.Context, name string, done bool) error {
	for _, s := range []struct {
		query string
		args  []any
	}{
		{conn.CreateDatabase, nil}, {createRecovery, nil}, {widenRecovery, nil},
		{"REPLACE INTO " + recoveryTable + " VALUES (1, ?, ?)", []any{name, done}},
	} {
		if err := r.v.exec(ctx, s.query, s.args...); err != nil {
			return fmt.Errorf("mark the server: %w", err)
		}
	}
	return nil
}

// empty drops what a recovery that was cut off left behind, but for its mark, and every trace of GTIDs.
func (r *Recovery) empty(ctx context.Context, databases []string) error {
	v := r.v
	if err := v.exec(ctx, "SET SESSION foreign_key_checks = OFF"); err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	for _, name := range databases {
		if name == "nairobi_mysql" {
			continue // its tables are dropped by the dump itself
		}
		// A database that is read-only cannot be dropped.
		for _, statement := range []string{"ALTER DATABASE " + conn.QuoteName(name) + " READ ONLY = 0", "DROP DATABASE IF EXISTS " + conn.QuoteName(name)} {
			if err := v.exec(ctx, statement); err != nil {
				return fmt.Errorf("empty the server: %w", err)
			}
		}
	}
	tablespaces, err := v.lines(ctx, "SELECT NAME FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General' AND NAME <> 'mysql'")
	if err != nil {
		return fmt.Errorf("list the tablespaces: %w", err)
	}
	for _, name := range tablespaces {
		if err := v.exec(ctx, "DROP TABLESPACE "+conn.QuoteName(name)); err != nil {
			return fmt.Errorf("empty the server: %w", err)
		}
	}
	accounts, err := v.accounts(ctx, "SELECT User, Host FROM mysql.user WHERE "+reservedAccounts)
	if err != nil {
		return fmt.Errorf("list the accounts: %w", err)
	}
	if len(accounts) > 0 { // a mandatory role cannot be dropped
		if _, err := v.PrepareGround(ctx); err != nil {
			return err
		}
	}
	for _, a := range accounts {
		if err := v.exec(ctx, "DROP USER IF EXISTS "+a.Quoted()); err != nil {
			return fmt.Errorf("empty the server: %w", err)
		}
	}
	if err := v.exec(ctx, "RESET BINARY LOGS AND GTIDS"); err != nil {
		return fmt.Errorf("forget the server's GTIDs: %w", err)
	}
	return nil
}

// Finish takes the membership of the old cluster out, marks the recovery as done, and closes the server again.
func (r *Recovery) Finish(ctx context.Context) error {
	if _, err := r.unserving(ctx); err != nil {
		return err
	}
	if err := r.v.exec(ctx, "DELETE FROM nairobi_mysql.membership"); err != nil && !conn.IsServerError(err, mysql.ErNoSuchTable) {
		return fmt.Errorf("forget the old cluster's membership: %w", err)
	}
	if err := r.mark(ctx, r.name, true); err != nil {
		return err
	}
	if err := r.v.exec(ctx, "SET GLOBAL super_read_only = ON"); err != nil {
		return fmt.Errorf("close the server: %w", err)
	}
	return nil
}

// loadedSuffix marks a recovery whose backup is loaded while what follows it is not. The backup comes after it; earlier releases did not
// name it.
const loadedSuffix = "#loaded"

// MarkLoaded records on the server that a backup is loaded, so that a recovery that is cut off later goes on from there, with the same one.
func (r *Recovery) MarkLoaded(ctx context.Context, backup string) error {
	return r.mark(ctx, r.name+loadedSuffix+"#"+backup, false)
}

// Loaded says whether the recovery has loaded a backup into the server and was cut off after that, and which; empty where the mark does
// not name it.
func (r *Recovery) Loaded(ctx context.Context) (backup string, loaded bool, err error) {
	said, _, err := r.said(ctx)
	backup, loaded = strings.CutPrefix(said, r.name+loadedSuffix)
	return strings.TrimPrefix(backup, "#"), loaded, err
}

// ResumeLoaded opens a server again on which the recovery has loaded the backup; false when it has not.
func (r *Recovery) ResumeLoaded(ctx context.Context) (bool, error) {
	if err := r.claim(ctx); err != nil {
		return false, err
	}
	_, loaded, err := r.Loaded(ctx)
	if err != nil || !loaded {
		return false, err
	}
	if _, err := r.unserving(ctx); err != nil {
		return false, err
	}
	return true, r.open(ctx)
}

// BeginReplay opens a server that holds a copy of another cluster's data, so that what was archived after it can be replayed. done says
// that the recovery was completed there; then nothing is changed. A server that holds nothing is refused with
// mysql.ErrNothingThere.
func (r *Recovery) BeginReplay(ctx context.Context) (done bool, err error) {
	if err := r.claim(ctx); err != nil {
		return false, err
	}
	ours, done, err := r.marked(ctx)
	if err != nil || done {
		return done, err
	}
	state, err := r.unserving(ctx)
	if err != nil {
		return false, err
	}
	if state.Executed == "" {
		return false, mysql.ErrNothingThere
	}
	ground, err := r.v.ground(ctx)
	if err != nil {
		return false, err
	}
	if err := ground.stopEvents(ctx); err != nil { // while nothing can be written yet
		return false, err
	}
	if err := r.open(ctx); err != nil {
		return false, err
	}
	if !ours {
		if err := r.clear(ctx); err != nil {
			return false, err
		}
	}
	return false, r.mark(ctx, r.name, false)
}

// clear makes a copy ready for the history of its old cluster. The mark of a recovery there says how that found its server. The accounts
// of that cluster's pods were taken out when the copy was first started, and what is archived may go on with them: they are there, and
// nobody can log in, until the data are made the new cluster's own.
func (r *Recovery) clear(ctx context.Context) error {
	statements := []string{conn.CreateDatabase, "DROP TABLE IF EXISTS " + recoveryTable}
	for _, user := range []string{mysql.BackupUser, mysql.MetricsUser} {
		statements = append(statements, "CREATE USER IF NOT EXISTS '"+user+"'@'%' IDENTIFIED WITH caching_sha2_password AS '' ACCOUNT LOCK")
	}
	for _, statement := range statements {
		if err := r.v.exec(ctx, statement); err != nil {
			return fmt.Errorf("make the copy ready for what is archived: %w", err)
		}
	}
	return nil
}
