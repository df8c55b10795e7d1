package probe_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// secret is a value of the application's. No text of the operator's may show it.
const secret = "hunter2"

// since is a time as it is named.
const since = ` since \d\d:\d\d UTC on \d+ \w+`

// TestWhoHoldsWritesUp: the error of a write that stands says who holds it up and how to end that, whatever it is.
func TestWhoHoldsWritesUp(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	server := w.Servers[0]
	db := mysqltest.Root(t, server)
	for _, statement := range []string{"CREATE DATABASE IF NOT EXISTS held", "CREATE TABLE IF NOT EXISTS held.t (id INT PRIMARY KEY, v VARCHAR(99))", "REPLACE INTO held.t VALUES (1, '')"} {
		mysqltest.Exec(t, db, statement)
	}
	p := probe.NewProber(probe.ProberOptions{Interval: 500 * time.Millisecond, Timeout: mysqltest.Patience})
	defer p.Close()
	p.Set("uid", probe.Target{Address: server.Address(), ServerName: server.DNSName(), Identity: w.Identity()})
	// behind begins statements that wait for others, and returns their sessions.
	behind := func(t *testing.T, statement, state string) *mysqltest.Client {
		c := mysqltest.Connect(t, server)
		go func() { _, _ = c.Conn.ExecContext(t.Context(), statement) }()
		mysqltest.WaitFor(t, statement, func() bool {
			return mysqltest.Value(t, db, "SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = "+c.ID+" AND STATE LIKE '"+state+"'") == "1"
		})
		return c
	}
	// prepare prepares an XA transaction that has changed the heartbeat.
	prepare := func(t *testing.T, name string) *mysqltest.Client {
		id := "'" + name + "', 'b', 7"
		return mysqltest.Connect(t, server, "XA START "+id, "UPDATE nairobi_mysql.heartbeat SET at = NOW(6)", "XA END "+id, "XA PREPARE "+id)
	}
	// as is a session of another account.
	as := func(t *testing.T, user string, statements ...string) (string, func()) {
		mysqltest.Exec(t, db, "CREATE USER IF NOT EXISTS '"+user+"'@'localhost' IDENTIFIED BY 'x'")
		mysqltest.Exec(t, db, "GRANT SELECT, LOCK TABLES, FLUSH_TABLES ON *.* TO '"+user+"'@'localhost'")
		pool := mysqltest.Local(t, server, user, "x")
		c, err := pool.Conn(t.Context())
		mysqltest.Must(t, err)
		var id string
		mysqltest.Must(t, c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		for _, statement := range statements {
			_, err := c.ExecContext(t.Context(), statement)
			mysqltest.Must(t, err)
		}
		return id, func() {
			c.Close()
			pool.Close()
			mysqltest.Exec(t, db, "DROP USER '"+user+"'@'localhost'")
		}
	}
	const begun = `, in a transaction` + since + `,` // after a minute
	const table = `a lock on the table nairobi_mysql.heartbeat`
	const row = `row locks and uses the table nairobi_mysql.heartbeat`
	const readLock = `the global read lock \(FLUSH TABLES WITH READ LOCK\)`
	// Each takes the lock, and returns what the error says, as a regular expression, and how the lock is given back.
	for name, hold := range map[string]func(*testing.T) (says string, end func()){
		"FLUSH TABLES WITH READ LOCK": func(t *testing.T) (string, func()) {
			c := mysqltest.Connect(t, server, "FLUSH TABLES WITH READ LOCK")
			return fmt.Sprintf(`: connection %s \(root@localhost\) holds %s; KILL %s ends it: Error 1205`, c.ID, readLock, c.ID), c.Leave
		},
		"FLUSH TABLES WITH READ LOCK of an idle session": func(t *testing.T) (string, func()) {
			c := mysqltest.Connect(t, server, "FLUSH TABLES WITH READ LOCK", "SET timestamp = UNIX_TIMESTAMP() - 3600", "DO 1")
			return fmt.Sprintf(`: connection %s \(root@localhost\), idle%s, holds %s; KILL %s ends it: Error 1205`, c.ID, since, readLock, c.ID), c.Leave
		},
		"FLUSH TABLES WITH READ LOCK of a backup": func(t *testing.T) (string, func()) {
			id, leave := as(t, "nairobi_backup", "FLUSH TABLES WITH READ LOCK")
			return fmt.Sprintf(`: connection %s \(nairobi_backup@localhost\), a backup of the operator, holds %s; it ends with the backup, which kubectl get mysqlbackups shows: Error 1205`, id, readLock), leave
		},
		"FLUSH TABLES WITH READ LOCK behind a SELECT": func(t *testing.T) (string, func()) {
			first := behind(t, "SELECT SLEEP(1000), '"+secret+"' FROM held.t", "User sleep")
			c := behind(t, "FLUSH TABLES WITH READ LOCK", "Waiting for table flush")
			return fmt.Sprintf(`: connection %s \(root@localhost\) holds %s; KILL %s ends it: Error`, c.ID, readLock, c.ID), func() {
				mysqltest.Exec(t, db, "KILL "+c.ID)
				mysqltest.Exec(t, db, "KILL "+first.ID)
			}
		},
		"FLUSH TABLES WITH READ LOCK behind an UPDATE": func(t *testing.T) (string, func()) {
			first := behind(t, "UPDATE held.t SET v = '"+secret+"' WHERE SLEEP(1000) = 0", "User sleep")
			c := behind(t, "FLUSH TABLES WITH READ LOCK", "Waiting for global read lock")
			return fmt.Sprintf(`: connection %s \(root@localhost\) holds a lock for writing; KILL %s ends it; connection %s \(root@localhost\) waits for %s, and this statement waits behind it; KILL %s ends it: Error`,
					first.ID, first.ID, c.ID, readLock, c.ID), func() {
					mysqltest.Exec(t, db, "KILL "+c.ID)
					mysqltest.Exec(t, db, "KILL "+first.ID)
				}
		},
		"LOCK TABLES": func(t *testing.T) (string, func()) {
			c := mysqltest.Connect(t, server, "LOCK TABLES nairobi_mysql.heartbeat WRITE")
			return fmt.Sprintf(`: connection %s \(root@localhost\) holds %s; KILL %s ends it: Error 1205`, c.ID, table, c.ID), c.Leave
		},
		"ALTER TABLE behind an open transaction": func(t *testing.T) (string, func()) {
			first := mysqltest.Connect(t, server, "BEGIN", "SELECT * FROM nairobi_mysql.heartbeat")
			c := behind(t, "ALTER TABLE nairobi_mysql.heartbeat COMMENT = '"+secret+"'", "Waiting for table metadata lock")
			return fmt.Sprintf(`: connection %s \(root@localhost\) holds %s; KILL %s ends it; connection %s \(root@localhost\) waits for %s, and this statement waits behind it; KILL %s ends it: Error`,
					first.ID, table, first.ID, c.ID, table, c.ID), func() {
					mysqltest.Exec(t, db, "KILL "+c.ID)
					first.Leave()
				}
		},
		"ALTER TABLE behind a backup": func(t *testing.T) (string, func()) {
			id, leave := as(t, "nairobi_backup", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "DO (SELECT COUNT(*) FROM nairobi_mysql.heartbeat)")
			c := behind(t, "ALTER TABLE nairobi_mysql.heartbeat COMMENT = '"+secret+"'", "Waiting for table metadata lock")
			return fmt.Sprintf(`: connection %s \(nairobi_backup@localhost\), a backup of the operator, holds %s; it ends with the backup, which kubectl get mysqlbackups shows; connection %s `, id, table, c.ID), func() {
				mysqltest.Exec(t, db, "KILL "+c.ID)
				leave()
			}
		},
		"SELECT FOR UPDATE": func(t *testing.T) (string, func()) {
			reader := mysqltest.Connect(t, server, "BEGIN", "SELECT * FROM nairobi_mysql.heartbeat")
			c := mysqltest.Connect(t, server, "BEGIN", "SELECT * FROM nairobi_mysql.heartbeat FOR UPDATE", "SELECT '"+secret+"'")
			return fmt.Sprintf(`: connection %s \(root@localhost\)%s holds %s; KILL %s ends it: Error 1205`, c.ID, begun, row, c.ID), func() { c.Leave(); reader.Leave() }
		},
		"a prepared XA transaction": func(t *testing.T) (string, func()) {
			prepare(t, "gone").Leave()
			return `: a prepared XA transaction X'676F6E65',X'62',7 holds ` + row + `; XA COMMIT or XA ROLLBACK ends it: Error 1205`, func() {
				mysqltest.Exec(t, db, "XA ROLLBACK X'676F6E65',X'62',7")
			}
		},
		"a prepared XA transaction whose client is there": func(t *testing.T) (string, func()) {
			c := prepare(t, "here")
			return `: a prepared XA transaction X'68657265',X'62',7 holds ` + row + `; XA COMMIT or XA ROLLBACK ends it: Error 1205`, func() {
				c.Leave()
				mysqltest.Exec(t, db, "XA ROLLBACK 'here', 'b', 7")
			}
		},
		"one of two prepared XA transactions": func(t *testing.T) (string, func()) {
			mysqltest.Connect(t, server, "XA START 'other'", "UPDATE held.t SET v = ''", "XA END 'other'", "XA PREPARE 'other'").Leave()
			prepare(t, "gone").Leave()
			return `: a prepared XA transaction holds ` + row + `; XA RECOVER CONVERT XID lists those there are, and XA COMMIT or XA ROLLBACK ends one: Error 1205`, func() {
				mysqltest.Exec(t, db, "XA ROLLBACK 'gone', 'b', 7")
				mysqltest.Exec(t, db, "XA ROLLBACK 'other'")
			}
		},
		"what the Performance Schema does not show": func(t *testing.T) (string, func()) {
			const set = "UPDATE performance_schema.setup_instruments SET ENABLED = '%s' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
			mysqltest.Exec(t, db, fmt.Sprintf(set, "NO"))
			c := mysqltest.Connect(t, server, "LOCK TABLES nairobi_mysql.heartbeat WRITE")
			return "the holder is not known, because the Performance Schema does not show locks: the instrument wait/lock/metadata/sql/mdl or", func() {
				c.Leave()
				mysqltest.Exec(t, db, fmt.Sprintf(set, "YES"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mysqltest.WaitFor(t, "writes succeed", func() bool { s := p.Status("uid"); return s.Err == "" && !s.LastSuccess.IsZero() })
			says, end := hold(t)
			defer end()
			want := regexp.MustCompile(says)
			var last string
			mysqltest.WaitFor(t, says, func() bool {
				if err := p.Status("uid").Err; err != last {
					t.Log(err)
					last = err
				}
				return want.MatchString(last)
			})
			if strings.Contains(last, secret) {
				t.Error("the error shows the application's data")
			}
		})
	}
	t.Run("a busy session", func(t *testing.T) {
		mysqltest.WaitFor(t, "writes succeed", func() bool { return p.Status("uid").Err == "" })
		c := mysqltest.Connect(t, server, "FLUSH TABLES WITH READ LOCK")
		defer c.Leave()
		mysqltest.WaitFor(t, "the holder", func() bool { return strings.Contains(p.Status("uid").Err, "connection "+c.ID) })
		first := p.Status("uid").Err
		for range 3 { // the session works for two seconds, and is idle for two
			if _, err := c.Conn.ExecContext(t.Context(), "DO (SELECT SLEEP(2) FROM held.t)"); err != nil {
				t.Fatal(err)
			}
			if now := p.Status("uid").Err; now != first {
				t.Errorf("the error was %s\nand is %s", first, now)
			}
			time.Sleep(2 * time.Second)
			if now := p.Status("uid").Err; now != first {
				t.Errorf("the error was %s\nand is %s", first, now)
			}
		}
	})
	t.Run("LOCK INSTANCE FOR BACKUP does not", func(t *testing.T) {
		mysqltest.WaitFor(t, "writes succeed", func() bool { return p.Status("uid").Err == "" })
		c := mysqltest.Connect(t, server, "LOCK INSTANCE FOR BACKUP")
		defer c.Leave()
		locked := time.Now()
		mysqltest.WaitFor(t, "writes succeed under it", func() bool { s := p.Status("uid"); return s.Err == "" && s.LastSuccess.After(locked) })
	})
}
