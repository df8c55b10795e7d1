package observe_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// TestAwaitOpen: a port that begins to take connections is noticed, one that always did is no news.
func TestAwaitOpen(t *testing.T) {
	const pause = 20 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	pool := conn.NewPool(conn.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			refused.Add(1)
		}
		return conn, err
	}})
	t.Cleanup(pool.Close)
	member := admin.Open(pool, mysql.Endpoint{Key: "x", Address: listener.Addr().String()}, mysql.Identity{})
	// The pause bounds the try, too: one that was given up on a busy machine would be taken for a port that was closed.
	if member.AwaitOpen(t.Context(), time.Minute) {
		t.Error("a port that was open at the first try is said to have opened")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), 3*pause)
	defer cancel()
	if member.AwaitOpen(short, pause) {
		t.Error("a closed port is said to have opened")
	}

	opened := make(chan bool, 1)
	before := refused.Load()
	go func() { opened <- member.AwaitOpen(t.Context(), pause) }()
	for deadline := time.Now().Add(mysqltest.Patience); refused.Load() == before; time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatal("nobody tried the port while it was closed")
		}
	}
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	select {
	case is := <-opened:
		if !is {
			t.Error("a port that opened is not said to have")
		}
	case <-time.After(mysqltest.Patience):
		t.Fatalf("nobody noticed within %s that the port is open", mysqltest.Patience)
	}
}
