package admin_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestDemoteBounded: what holds up a demotion, for how long, and what becomes of it.
func TestDemoteBounded(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS held")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS held.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, pad CHAR(200))")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS held.others (id INT PRIMARY KEY AUTO_INCREMENT)")
	mysqltest.Exec(t, db, "TRUNCATE held.t")
	mysqltest.Exec(t, db, "INSERT INTO held.t (v) VALUES (1), (2), (3)")
	for range 12 {
		mysqltest.Exec(t, db, "INSERT INTO held.t (v, pad) SELECT v, REPEAT('x', 200) FROM held.t")
	}
	kill := admin.DemoteSpec{Kill: true}
	rows := []struct {
		name       string
		statements []string
		spec       admin.DemoteSpec
		want       error
		survives   bool
		// meanwhile is run in the session while the demotion waits.
		meanwhile string
	}{
		{name: "a reader's transaction", statements: []string{"BEGIN", "SELECT COUNT(*) FROM held.t"}, survives: true},
		{name: "a long SELECT", statements: []string{"&SELECT SLEEP(3)"}, survives: true},
		{name: "GET_LOCK", statements: []string{"DO GET_LOCK('x', 1)"}, survives: true},
		{name: "LOCK TABLES READ", statements: []string{"LOCK TABLES held.t READ"}, survives: true},
		{name: "FLUSH TABLES WITH READ LOCK", statements: []string{"FLUSH TABLES WITH READ LOCK"}, survives: true},
		{name: "LOCK INSTANCE FOR BACKUP", statements: []string{"LOCK INSTANCE FOR BACKUP"}, survives: true},
		{name: "an open transaction", statements: []string{"BEGIN", "INSERT INTO held.t (v) VALUES (4)"}},
		{name: "row locks of a reader", statements: []string{"BEGIN", "SELECT * FROM held.t WHERE id = 1 FOR UPDATE"}},
		{name: "an XA transaction", statements: []string{"XA START 'x'", "INSERT INTO held.t (v) VALUES (5)"}},
		{name: "an open transaction that ends in time", statements: []string{"BEGIN", "INSERT INTO held.t (v) VALUES (6)"},
			spec: admin.DemoteSpec{Patience: mysqltest.Patience}, survives: true, meanwhile: "COMMIT"},
		{name: "an open transaction that does not end in time", statements: []string{"BEGIN", "INSERT INTO held.t (v) VALUES (7)"},
			spec: admin.DemoteSpec{Patience: 300 * time.Millisecond}},
		{name: "LOCK TABLES WRITE", statements: []string{"LOCK TABLES held.t WRITE"}, want: mysql.ErrBlocked, survives: true},
		{name: "LOCK TABLES WRITE that ends in time", statements: []string{"LOCK TABLES held.t WRITE"}, spec: admin.DemoteSpec{Patience: mysqltest.Patience},
			survives: true, meanwhile: "UNLOCK TABLES"},
		{name: "LOCK TABLES WRITE, ended", statements: []string{"LOCK TABLES held.t WRITE"}, spec: kill},
		{name: "a long write", statements: []string{"&UPDATE held.t SET v = SLEEP(4) WHERE id < 3"}, want: mysql.ErrBlocked, survives: true},
		{name: "a long write that ends in time", statements: []string{"&UPDATE held.t SET v = SLEEP(0.5) WHERE id < 3"},
			spec: admin.DemoteSpec{Patience: mysqltest.Patience}, survives: true},
		{name: "a long write, ended", statements: []string{"&UPDATE held.t SET v = SLEEP(10) WHERE id < 10"}, spec: kill},
		{name: "a huge write, ended and undone", statements: []string{"&UPDATE held.t AS a JOIN held.t AS b ON a.v = b.v SET a.pad = REPEAT('y', 200), a.v = a.v + 10"}, spec: kill},
		{name: "DDL", statements: []string{"&ALTER TABLE held.t ADD COLUMN w INT AS (SLEEP(1)) STORED"}, spec: kill},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if strings.Contains(row.name, "DDL") {
				// An ALTER TABLE that waits for a reader's transaction, and would do so for a year.
				mysqltest.Connect(t, w.Servers[0], "BEGIN", "SELECT COUNT(*) FROM held.t")
				row.statements = []string{"&ALTER TABLE held.t ADD COLUMN w INT"}
			}
			t.Cleanup(func() {
				if err := m[0].Reopen(context.WithoutCancel(ctx), mysql.PromoteSpec{SemiSync: true, W: 1}); err != nil {
					t.Error(err)
				}
			})
			h := mysqltest.Connect(t, w.Servers[0], row.statements...)
			gtids := mysqltest.Value(t, db, "SELECT @@gtid_executed")
			began := time.Now()
			outcome := make(chan error, 1)
			go func() { outcome <- m[0].DemoteBounded(ctx, row.spec) }()
			if row.meanwhile != "" {
				time.Sleep(300 * time.Millisecond)
				mysqltest.Exec(t, db, "INSERT INTO held.others VALUES ()") // while it waits, others write on
				if _, err := h.Conn.ExecContext(ctx, row.meanwhile); err != nil {
					t.Errorf("%s: %v", row.meanwhile, err)
				}
			}
			err := <-outcome
			t.Logf("took %s: %v", time.Since(began).Round(time.Millisecond), err)
			if !errors.Is(err, row.want) {
				t.Errorf("got error %v, want %v", err, row.want)
			}
			if row.want != nil && !strings.Contains(err.Error(), ": connection "+h.ID+" (root@localhost)") {
				t.Errorf("the error does not name the session: %v", err)
			}
			o := m[0].Observe(ctx)
			if demoted := row.want == nil; o.ReadOnly != demoted || o.SuperReadOnly != demoted || !o.SemiSync.SourceEnabled {
				t.Errorf("read_only %t, super_read_only %t, semi-sync source %t", o.ReadOnly, o.SuperReadOnly, o.SemiSync.SourceEnabled)
			}
			if !row.survives {
				mysqltest.WaitFor(t, "the end of the session", func() bool { return !h.Alive(db) })
			} else if !h.Alive(db) {
				t.Error("the session was ended")
			}
			if row.meanwhile == "" && row.want == nil && !strings.Contains(row.name, "in time") {
				if now := mysqltest.Value(t, db, "SELECT @@gtid_executed"); now != gtids {
					t.Errorf("something was written: %s, before %s", now, gtids)
				}
			}
			mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
			if row.survives && len(row.statements) == 1 && strings.HasPrefix(row.statements[0], "&") {
				mysqltest.Must(t, <-h.Ended)
			}
			h.Leave()
			mysqltest.Exec(t, db, "INSERT INTO held.t (v) VALUES (9)")
		})
	}
}

// TestDemoteNeverEndsACommit: what waits for an acknowledgement is neither ended nor waited for, and neither is what
// waits for its row locks, whatever the spec allows.
func TestDemoteNeverEndsACommit(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS shop.c (id INT PRIMARY KEY, v INT)")
	mysqltest.Exec(t, db, "REPLACE INTO shop.c VALUES (1, 0)")
	mysqltest.Must(t, m[1].StopIOThread(ctx))
	mysqltest.Must(t, m[2].StopIOThread(ctx))
	waiting := mysqltest.Connect(t, w.Servers[0], "&UPDATE shop.c SET v = v + 1")
	mysqltest.WaitFor(t, "the commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	behind := mysqltest.Connect(t, w.Servers[0], "SET innodb_lock_wait_timeout = 60", "&UPDATE shop.c SET v = v + 1")
	for _, spec := range []admin.DemoteSpec{{}, {Patience: 300 * time.Millisecond}, {Kill: true}} {
		mysqltest.WantError(t, m[0].DemoteBounded(ctx, spec), mysql.ErrCommitsPending)
	}
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly {
		t.Errorf("after demotions that failed: %+v", o)
	}
	if !waiting.Alive(db) || !behind.Alive(db) {
		t.Error("a session was ended")
	}
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, m[2].StartReplica(ctx))
	mysqltest.Must(t, <-waiting.Ended)
	mysqltest.Must(t, <-behind.Ended)
	mysqltest.Must(t, m[0].DemoteBounded(ctx, admin.DemoteSpec{}))
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
}

// TestDemoteIsBeatenToIt: what begins to stand in the way after the last look makes the attempt fail without a trace, or
// be made again.
func TestDemoteIsBeatenToIt(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS shop.d (id INT PRIMARY KEY AUTO_INCREMENT)")
	var before func() error
	beaten := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, phase string) error {
			if op != "role/super-read-only" || phase != "before" || before == nil {
				return nil
			}
			now := before
			before = nil
			return now()
		}
	}))[0]
	var locking *mysqltest.Client
	lock := func() error { locking = mysqltest.Connect(t, w.Servers[0], "LOCK TABLES shop.d WRITE"); return nil }

	before = lock
	mysqltest.WantError(t, beaten.Demote(ctx), mysql.ErrBlocked)
	locking.Leave()
	before = lock
	mysqltest.Must(t, beaten.DemoteBounded(ctx, admin.DemoteSpec{Kill: true}))
	mysqltest.Must(t, beaten.Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))

	before = func() error {
		mysqltest.Must(t, m[1].StopIOThread(ctx))
		mysqltest.Must(t, m[2].StopIOThread(ctx))
		mysqltest.Connect(t, w.Servers[0], "&INSERT INTO shop.d VALUES ()")
		// A statement that has only been received is refused by what comes next, and nothing would wait.
		mysqltest.WaitFor(t, "the commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
		return nil
	}
	mysqltest.WantError(t, beaten.DemoteBounded(ctx, admin.DemoteSpec{Kill: true}), mysql.ErrCommitsPending)
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly || o.PendingCommits == 0 {
		t.Errorf("read_only %t, %d commits wait", o.ReadOnly, o.PendingCommits)
	}
	mysqltest.Must(t, m[1].StartReplica(ctx))
	mysqltest.Must(t, m[2].StartReplica(ctx))
	mysqltest.WaitFor(t, "the commit is acknowledged", func() bool { return m[0].Observe(ctx).PendingCommits == 0 })

	// The caller gives up while the server still waits: it must not become read-only afterwards.
	for range 2 {
		short, cancel := context.WithCancel(ctx)
		before = func() error {
			time.AfterFunc(100*time.Millisecond, cancel)
			return lock()
		}
		if err := beaten.Demote(short); !errors.Is(err, context.Canceled) || before != nil {
			t.Errorf("a demotion that was given up: %v", err)
		}
		cancel()
		locking.Leave()
		time.Sleep(50 * time.Millisecond)
		if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly {
			t.Error("read-only after its caller gave up")
		}
	}
	crash := errors.New("crash")
	before = func() error { return crash }
	mysqltest.WantError(t, beaten.Demote(ctx), crash)
}

// TestXAOnAReadOnlyServer holds what MySQL does, because DemoteBounded relies on it and guards against it: a prepared
// transaction can be committed on a read-only server, and leaves a transaction there that nobody else has.
func TestXAOnAReadOnlyServer(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS shop.x (id INT PRIMARY KEY AUTO_INCREMENT)")
	mysqltest.Connect(t, w.Servers[0], "XA START 'prepared'", "INSERT INTO shop.x VALUES ()", "XA END 'prepared'", "XA PREPARE 'prepared'")
	mysqltest.Connect(t, w.Servers[0], "XA START 'idle'", "INSERT INTO shop.x VALUES ()", "XA END 'idle'")
	mysqltest.Must(t, m[0].Demote(ctx))
	executed := m[0].Observe(ctx).Executed
	mysqltest.Exec(t, db, "XA COMMIT 'prepared'")
	if now := m[0].Observe(ctx).Executed; now == executed {
		t.Error("MySQL refuses XA COMMIT on a read-only server now: simplify DemoteBounded's promise")
	}
	if _, err := db.ExecContext(ctx, "XA PREPARE 'idle'"); err == nil {
		t.Error("a transaction that was open when the server became read-only can still be prepared")
	}
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
}

// TestNobodyIsAnsweredWhileTooManyAreWaitedFor holds what the hand-over relies on: with a wait count that cannot be met, a
// read-only server answers no XA COMMIT, counts it as executed nowhere, and lets it go once the count is lowered.
func TestNobodyIsAnsweredWhileTooManyAreWaitedFor(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS shop")
	mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS shop.x (id INT PRIMARY KEY AUTO_INCREMENT)")
	mysqltest.Connect(t, w.Servers[0], "XA START 'late'", "INSERT INTO shop.x VALUES ()", "XA END 'late'", "XA PREPARE 'late'")
	mysqltest.Must(t, m[0].Demote(ctx))
	mysqltest.Must(t, m[0].SetSourceWait(ctx, true, 1000))
	executed := m[0].Observe(ctx).Executed
	late := mysqltest.Connect(t, w.Servers[0], "&XA COMMIT 'late'")
	mysqltest.WaitFor(t, "the commit waits", func() bool { return m[0].Observe(ctx).PendingCommits == 1 })
	time.Sleep(500 * time.Millisecond) // both replicas have received and acknowledged it by now
	select {
	case err := <-late.Ended:
		t.Errorf("the client was answered: %v", err)
	default:
	}
	if now := m[0].Observe(ctx).Executed; now != executed {
		t.Errorf("executed %s, before %s", now, executed)
	}
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	if o := m[0].Observe(ctx); o.SemiSync.WaitCount != 1000 {
		t.Errorf("opened again it waits for %d acknowledgements; only one action lowers that", o.SemiSync.WaitCount)
	}
	mysqltest.Must(t, m[0].LowerSourceWait(ctx, 1, 0))
	mysqltest.Must(t, <-late.Ended)
	if o := m[0].Observe(ctx); o.AnsweredCommits == 0 {
		t.Error("no commit is counted as answered")
	}
}

// TestReopen: only what was demoted a moment ago is opened again, and never without its wait.
func TestReopen(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	mysqltest.WantError(t, m[1].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}), mysql.ErrReplicates)
	mysqltest.WantError(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true}), mysql.ErrInvalidArgument)
	mysqltest.Must(t, m[0].Demote(ctx))
	// The server restarts in between: it has forgotten whom to wait for (fact 6).
	w.Servers[0].Kill()
	mysqltest.Must(t, w.Servers[0].Boot(ctx))
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
	if o := m[0].Observe(ctx); o.ReadOnly || o.SuperReadOnly || !o.SemiSync.SourceEnabled || o.SemiSync.WaitCount != 1 {
		t.Errorf("reopened: %+v", o)
	}
	mysqltest.Must(t, m[0].Reopen(ctx, mysql.PromoteSpec{SemiSync: true, W: 1}))
}

// TestDisconnectClients: clients go, replicas and the operator stay.
func TestDisconnectClients(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	const receiving = "SELECT GROUP_CONCAT(ID ORDER BY ID) FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'"
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.WaitFor(t, "both replicas", func() bool { return strings.Count(mysqltest.Value(t, db, receiving), ",") == 1 })
	replicas := mysqltest.Value(t, db, receiving)
	clients := []*mysqltest.Client{mysqltest.Connect(t, w.Servers[0]), mysqltest.Connect(t, w.Servers[0], "&SELECT SLEEP(60)")}
	mysqltest.Exec(t, mysqltest.Root(t, w.Servers[0]), "DO 1")
	ended, err := m[0].DisconnectClients(ctx)
	mysqltest.Must(t, err)
	if ended < len(clients) {
		t.Errorf("%d clients ended", ended)
	}
	db = mysqltest.Root(t, w.Servers[0]) // the other one was a client, too
	for _, c := range clients {
		mysqltest.WaitFor(t, "the end of a client", func() bool { return !c.Alive(db) })
	}
	if left := mysqltest.Value(t, db, receiving); left != replicas {
		t.Errorf("replicas %s, before %s", left, replicas)
	}
	if o := m[0].Observe(ctx); o.Access != mysql.AccessVerified {
		t.Errorf("%s %s", o.Access, o.Reason)
	}
	mysqltest.Must(t, m[0].SetSourceWait(ctx, true, 1)) // the operator's session held its lock all the time
}

// TestSessionsWithoutStages: with no room for stages the Performance Schema does not say what a session does, such as that its commit waits
// for an acknowledgement, by which such a session is left alone. So that room is no user's to take.
func TestSessionsWithoutStages(t *testing.T) {
	const size = "performance_schema_max_stage_classes"
	if settings.Check(size, "0") == nil {
		t.Error("spec.mysqld takes it")
	}
	w := mysqltest.TheWorld(t)
	for value, state := range map[string]string{"0": "", "175": "User sleep"} {
		s, err := w.Farm.Start(t.Context(), mysqld.Options{Settings: map[string]string{size: value}})
		mysqltest.Must(t, err)
		db := mysqltest.Root(t, s)
		sleeper, err := mysqltest.Root(t, s).Conn(t.Context())
		mysqltest.Must(t, err)
		var id string
		mysqltest.Must(t, sleeper.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		var slept sync.WaitGroup
		slept.Go(func() { _, _ = sleeper.ExecContext(t.Context(), "SELECT SLEEP(60)") })
		of := func(column string) string {
			return mysqltest.Value(t, db, "SELECT "+column+" FROM performance_schema.threads WHERE PROCESSLIST_ID = "+id)
		}
		mysqltest.WaitFor(t, "the statement", func() bool {
			return of("PROCESSLIST_COMMAND") == "Query" && (value == "0" || of("PROCESSLIST_STATE") != "executing")
		})
		if got := of("PROCESSLIST_STATE"); got != state {
			t.Errorf("with %s stages its state is %q, want %q", value, got, state)
		}
		mysqltest.Exec(t, db, "KILL "+id)
		slept.Wait()
		mysqltest.Must(t, w.Farm.Discard(s))
	}
}

// TestDemotionNamesNobodyThatOnlyWaits: behind a FLUSH TABLES WITH READ LOCK that waits for a session, others wait to write.
func TestDemotionNamesNobodyThatOnlyWaits(t *testing.T) {
	w, m := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	db := mysqltest.Root(t, w.Servers[0])
	mysqltest.Exec(t, db, "CREATE DATABASE IF NOT EXISTS held")
	for _, name := range []string{"locked", "other"} {
		mysqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS held."+name+" (id INT PRIMARY KEY AUTO_INCREMENT)")
	}
	holder := mysqltest.Connect(t, w.Servers[0], "LOCK TABLES held.locked WRITE")
	var waiting []string
	for _, statement := range []string{"FLUSH TABLES WITH READ LOCK", "INSERT INTO held.other VALUES ()"} {
		c := mysqltest.Connect(t, w.Servers[0])
		go func() { _, _ = c.Conn.ExecContext(t.Context(), statement) }()
		mysqltest.WaitFor(t, statement, func() bool {
			return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.processlist WHERE STATE LIKE 'Waiting for global read lock%' AND ID = "+c.ID) == "1"
		})
		waiting = append(waiting, c.ID)
	}
	err := m[0].Demote(t.Context())
	mysqltest.WantError(t, err, mysql.ErrBlocked)
	t.Log(err)
	if want := ": connection " + holder.ID + " (root@localhost) holds a lock for writing; KILL " + holder.ID + " ends it"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error does not end with %s", want)
	}
	for _, id := range waiting {
		mysqltest.Exec(t, db, "KILL "+id)
	}
}
