package mysql

import (
	"database/sql"
	"testing"
)

// TestFullSourceIsToldFromOneThatIsAway: clients that wait take every connection of a source, so that its replicas, which come
// back, are refused. They say so, and a higher limit lets them in; the operator's own connection goes on.
func TestFullSourceIsToldFromOneThatIsAway(t *testing.T) {
	w, m := settle(t, newPool(t, nil))
	ctx := t.Context()
	db := root(t, w.servers[0])
	exec(t, db, "CREATE USER IF NOT EXISTS crowd@localhost IDENTIFIED BY 'crowd'")
	before := m[0].Observe(ctx)
	if before.Connections < 1 || before.MaxConnections <= before.Connections {
		t.Fatalf("%d of %d connections", before.Connections, before.MaxConnections)
	}
	must(t, m[1].StopIOThread(ctx))
	must(t, m[0].SetMaxConnections(ctx, before.Connections+8))
	var crowd []*sql.Conn
	for {
		conn, err := local(t, w.servers[0], "crowd", "crowd").Conn(ctx)
		if err != nil {
			break
		}
		crowd = append(crowd, conn)
	}
	if len(crowd) == 0 || len(crowd) > 40 {
		t.Fatalf("%d clients found room", len(crowd))
	}
	exec(t, root(t, w.servers[1]), "START REPLICA IO_THREAD")
	waitFor(t, "the replica to be refused", func() bool {
		r := m[1].Observe(ctx).Replication
		return r.SourceIsFull && r.IOState == IOConnecting
	})
	o := m[0].Observe(ctx)
	if o.Access != AccessVerified || o.Connections < o.MaxConnections {
		t.Errorf("the full server shows %d of %d connections (%s)", o.Connections, o.MaxConnections, o.Access)
	}
	must(t, m[0].SetMaxConnections(ctx, o.MaxConnections+100))
	waitFor(t, "the replica to be let in", func() bool {
		r := m[1].Observe(ctx).Replication
		return !r.SourceIsFull && r.IOState == IOOn
	})
	for _, conn := range crowd {
		_ = conn.Close()
	}
	must(t, m[0].SetMaxConnections(ctx, before.MaxConnections))
}
