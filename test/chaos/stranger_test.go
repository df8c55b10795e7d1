package chaos

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestAStrangerAcknowledges to a real source that waits for one acknowledgement: without it every commit waits, and what a
// person does to semi-sync ends the wait. The faults rest on both.
func TestAStrangerAcknowledges(t *testing.T) {
	farm, err := mysqld.NewFarm(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := farm.Close(); err != nil {
			t.Error(err)
		}
	}()
	source, err := farm.Start(t.Context(), mysqld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(statements string) string {
		t.Helper()
		out, err := source.SQL(t.Context(), statements)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const password = "Example-1"
	run("SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF; CREATE DATABASE app; CREATE TABLE app.t (id INT PRIMARY KEY);" +
		"CREATE USER " + strangerAccount + " IDENTIFIED BY '" + password + "'; GRANT REPLICATION SLAVE ON *.* TO " + strangerAccount + ";" +
		"SET GLOBAL " + semiSync + " = ON")
	stranger, err := startStranger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.replicate(t.Context(), source.Address(), password, run("SELECT @@global.gtid_executed")); err != nil {
		t.Fatalf("%v: %s", err, stranger.said())
	}
	run("INSERT INTO app.t VALUES (1)")
	if clients := run("SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients'"); clients != "1" {
		t.Errorf("the source has %s semi-synchronous replicas", clients)
	}
	if err := stranger.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stranger.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stranger's directory is still there: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := source.SQL(context.WithoutCancel(t.Context()), "INSERT INTO app.t VALUES (2)")
		waiting <- err
	}()
	select {
	case err := <-waiting:
		t.Fatalf("a commit that nobody acknowledges was answered: %v", err)
	case <-time.After(moment):
	}
	run("SET GLOBAL " + semiSync + " = OFF")
	select {
	case err := <-waiting:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(settingTimeout):
		t.Error("the commit waits although semi-sync is off")
	}
	if rows := run("SELECT COUNT(*) FROM app.t"); strings.TrimSpace(rows) != "2" {
		t.Errorf("the source has %s rows", rows)
	}
}
