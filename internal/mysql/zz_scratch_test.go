package mysql

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestZZKill(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	_ = m
	ctx := t.Context()
	setup := root(t, w.servers[0])
	exec(t, setup, "DROP DATABASE IF EXISTS zz")
	exec(t, setup, "CREATE DATABASE IF NOT EXISTS zz")
	exec(t, setup, "CREATE TABLE IF NOT EXISTS zz.a (id INT PRIMARY KEY AUTO_INCREMENT, v INT, pad CHAR(200))")
	exec(t, setup, "CREATE TABLE IF NOT EXISTS zz.b (id INT PRIMARY KEY AUTO_INCREMENT, v INT, pad CHAR(200))")
	exec(t, setup, "INSERT INTO zz.b (v) VALUES (1),(2),(3)")
	for range 15 { exec(t, setup, "INSERT INTO zz.b (v, pad) SELECT v, REPEAT('x',200) FROM zz.b") }
	gtid := func() string { return value(t, setup, "SELECT @@gtid_executed") }
	// XA
	c, err := root(t, w.servers[0]).Conn(ctx)
	must(t, err)
	run := func(q string) { _, err := c.ExecContext(ctx, q); fmt.Println("  ", q, err, gtid()) }
	run("XA START 'x1'"); run("INSERT INTO zz.a (v) VALUES (4)"); 
	run("SET GLOBAL super_read_only=ON")
	exec(t, setup, "SET GLOBAL super_read_only=ON")
	run("INSERT INTO zz.a (v) VALUES (5)"); run("XA END 'x1'"); run("XA PREPARE 'x1'"); 
	exec(t, setup, "XA COMMIT 'x1'")
	fmt.Println("committed by another", gtid())
	run("XA START 'x3'"); run("INSERT INTO zz.a (v) VALUES (4)"); run("XA END 'x3'"); run("XA COMMIT 'x3' ONE PHASE"); run("XA ROLLBACK 'x3'")
	exec(t, setup, "SET GLOBAL super_read_only=OFF"); exec(t, setup, "SET GLOBAL read_only=OFF")
	run("XA START 'x4'"); run("INSERT INTO zz.a (v) VALUES (4)"); 
	exec(t, setup, "SET GLOBAL super_read_only=ON")
	run("XA END 'x4'"); run("XA COMMIT 'x4' ONE PHASE"); run("XA ROLLBACK 'x4'")
	exec(t, setup, "SET GLOBAL super_read_only=OFF"); exec(t, setup, "SET GLOBAL read_only=OFF")
	fmt.Println("rows", value(t, setup, "SELECT COUNT(*) FROM zz.a"))

	kill := func(label, q string, after time.Duration) {
		c, err := root(t, w.servers[0]).Conn(ctx)
		must(t, err)
		defer c.Close()
		var id int
		must(t, c.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
		go func() { b := time.Now(); _, err := c.ExecContext(context.Background(), q); fmt.Println("   ended", time.Since(b), err) }()
		time.Sleep(after)
		setter := root(t, w.servers[0])
		done := make(chan error, 1)
		b := time.Now()
		go func() { _, err := setter.ExecContext(ctx, "SET GLOBAL super_read_only = ON"); done <- err }()
		time.Sleep(100*time.Millisecond)
		exec(t, setup, fmt.Sprint("KILL ", id))
		err = <-done
		fmt.Println(label, "killed", time.Since(b), err)
		exec(t, setup, "SET GLOBAL super_read_only=OFF"); exec(t, setup, "SET GLOBAL read_only=OFF")
		time.Sleep(time.Second)
	}
	kill("huge update 0.5s", "UPDATE zz.b SET v = v + 1, pad = REPEAT('y', 200)", 500*time.Millisecond)
	kill("huge update 3s", "UPDATE zz.b SET v = v + 1, pad = REPEAT('z', 200)", 3*time.Second)
	kill("alter copy", "ALTER TABLE zz.b FORCE, ALGORITHM=COPY", time.Second)
	kill("insert select", "INSERT INTO zz.a (v, pad) SELECT v, pad FROM zz.b", 2*time.Second)
	kill("delete", "DELETE FROM zz.b WHERE id % 2 = 0", 2*time.Second)
	kill("sleep", "UPDATE zz.a SET v = SLEEP(5) LIMIT 1", 500*time.Millisecond)
	// KILL QUERY of the SET
	l, err := root(t, w.servers[0]).Conn(ctx)
	must(t, err)
	l.ExecContext(ctx, "LOCK TABLES zz.b WRITE")
	setter, err := root(t, w.servers[0]).Conn(ctx)
	must(t, err)
	var id int
	must(t, setter.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
	done := make(chan error, 1)
	go func() { _, err := setter.ExecContext(ctx, "SET GLOBAL super_read_only = ON"); done <- err }()
	time.Sleep(300*time.Millisecond)
	b := time.Now()
	exec(t, setup, fmt.Sprint("KILL QUERY ", id))
	fmt.Println("kill query of SET:", <-done, time.Since(b), value(t, setup, "SELECT CONCAT(@@read_only, @@super_read_only)"))
	var one int
	fmt.Println("session still alive:", setter.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	l.ExecContext(ctx, "UNLOCK TABLES")
	fmt.Println(value(t, setup, "SELECT GROUP_CONCAT(ENABLED) FROM performance_schema.setup_instruments WHERE NAME='wait/lock/metadata/sql/mdl'"))
}
