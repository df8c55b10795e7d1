package observe_test

import (
	"os"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestCloneWithoutItsPlugIn: a server whose plug-in of CLONE somebody unloads does not show its last CLONE, and not that there was none. What the
// same run of mysqld showed last is known; an operator that starts meanwhile does not know it. All else is shown. The plug-in is loaded again
// also on a server that takes no writes, which then shows what it showed, and takes none.
func TestCloneWithoutItsPlugIn(t *testing.T) {
	ctx := t.Context()
	farm, err := mysqld.NewFarm(ctx, os.Stderr)
	mysqltest.Must(t, err)
	t.Cleanup(func() { mysqltest.Must(t, farm.Close()) })
	server, err := farm.Start(ctx, mysqld.Options{})
	mysqltest.Must(t, err)
	w := &mysqltest.World{Farm: farm, Servers: []*mysqld.Server{server}}
	m := w.Members(mysqltest.NewPool(t, nil))[0]
	if err := m.CloneFrom(ctx, "127.0.0.9:3306"); err == nil {
		t.Fatal("there is a donor")
	}
	shown := m.Observe(ctx)
	if !shown.SuperReadOnly || shown.Clone == nil || shown.Clone.State != mysql.CloneFailed || shown.Settings[mysql.ClonePlugin] != "ON" {
		t.Fatalf("%s: %s: %+v, plug-in %s", shown.Access, shown.Reason, shown.Clone, shown.Settings[mysql.ClonePlugin])
	}
	mysqltest.Connect(t, server, "SET GLOBAL super_read_only = OFF", "UNINSTALL PLUGIN clone", "SET GLOBAL super_read_only = ON").Leave()
	o := m.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.Clone == nil || *o.Clone != *shown.Clone || o.Settings[mysql.ClonePlugin] != "OFF" {
		t.Errorf("%s: %s: %+v, plug-in %s", o.Access, o.Reason, o.Clone, o.Settings[mysql.ClonePlugin])
	}
	o = w.Members(mysqltest.NewPool(t, nil))[0].Observe(ctx)
	if o.Access != mysql.AccessVerified || o.Clone == nil || o.Clone.State != mysql.CloneUnread || !strings.Contains(o.Clone.Error, "clone_status") {
		t.Errorf("to another operator: %s: %s: %+v", o.Access, o.Reason, o.Clone)
	}
	if o.ServerUUID != shown.ServerUUID || o.Run != shown.Run || !o.MembershipKnown || len(o.Settings) != len(shown.Settings) {
		t.Errorf("what else is shown: %+v", o)
	}
	for range 2 { // the second time it is there
		mysqltest.Must(t, m.PinSettings(ctx, map[string]string{mysql.ClonePlugin: "ON"}))
	}
	o = m.Observe(ctx)
	if !o.SuperReadOnly || o.Clone == nil || *o.Clone != *shown.Clone || o.Settings[mysql.ClonePlugin] != "ON" {
		t.Errorf("takes no writes: %t, %+v, plug-in %s", o.SuperReadOnly, o.Clone, o.Settings[mysql.ClonePlugin])
	}
}
