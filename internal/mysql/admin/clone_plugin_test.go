package admin_test

import (
	"context"
	"os"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestPlugInOfCloneIsLoadedOnAClosedServer: a read-only server is open to SUPER for that alone. It is not opened while a commit waits on it, nor when
// the plug-in is there, and it is closed again when the caller gives up meanwhile.
func TestPlugInOfCloneIsLoadedOnAClosedServer(t *testing.T) {
	farm, err := mysqld.NewFarm(t.Context(), os.Stderr)
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, farm.Close()) })
	server, err := farm.Start(t.Context(), mysqld.Options{})
	mysqltest.Must(t, err)
	opened, opens := func() {}, 0
	w := &mysqltest.World{Farm: farm, Servers: []*mysqld.Server{server}}
	m := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Hook = func(op, moment string) error {
			if op == "clone/super_read_only" && moment == "after" {
				opens++
				opened()
			}
			return nil
		}
	}))[0]
	db := mysqltest.Root(t, server)
	pins := map[string]string{mysql.ClonePlugin: "ON"}
	expect := func(when, state string, times int) {
		t.Helper()
		const query = "SELECT CONCAT(COUNT(*), ' loaded, super_read_only ', @@GLOBAL.super_read_only) FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'"
		if got := mysqltest.Value(t, db, query); got != state || opens != times {
			t.Errorf("%s: %s, opened %d times; want %s, %d", when, got, opens, state, times)
		}
	}
	for _, statement := range []string{"SET GLOBAL super_read_only = OFF", "UNINSTALL PLUGIN clone", "CREATE DATABASE shop", "CREATE TABLE shop.x (id INT PRIMARY KEY AUTO_INCREMENT)"} {
		mysqltest.Exec(t, db, statement)
	}
	mysqltest.Connect(t, server, "XA START 'late'", "INSERT INTO shop.x VALUES ()", "XA END 'late'", "XA PREPARE 'late'").Leave()
	mysqltest.Exec(t, db, "SET GLOBAL super_read_only = ON")
	mysqltest.Must(t, m.SetSourceWait(t.Context(), true, 1))
	late := mysqltest.Connect(t, server, "&XA COMMIT 'late'")
	t.Cleanup(func() { _ = m.ReleaseWaiting(context.WithoutCancel(t.Context())) }) // or the server does not end
	mysqltest.WaitFor(t, "the commit waits", func() bool { return m.Observe(t.Context()).PendingCommits == 1 })
	mysqltest.WantError(t, m.PinSettings(t.Context(), pins), mysql.ErrCommitsPending)
	expect("while a commit waits", "0 loaded, super_read_only 1", 0)
	mysqltest.Must(t, m.ReleaseWaiting(t.Context()))
	mysqltest.Must(t, <-late.Ended)

	short, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened = cancel
	_ = m.PinSettings(short, pins)
	expect("when its caller gave up", "1 loaded, super_read_only 1", 1)
	opened = func() {}
	mysqltest.Must(t, m.PinSettings(t.Context(), pins))
	expect("when it is there", "1 loaded, super_read_only 1", 1)
	mysqltest.Exec(t, db, "SET GLOBAL super_read_only = OFF")
	mysqltest.Exec(t, db, "UNINSTALL PLUGIN clone")
	mysqltest.Must(t, m.PinSettings(t.Context(), pins))
	expect("on a server that is open", "1 loaded, super_read_only 0", 1)
}
