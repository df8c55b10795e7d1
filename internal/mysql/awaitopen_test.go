package mysql

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestAwaitOpen: a port that begins to take connections is noticed, one that always did is no news.
func TestAwaitOpen(t *testing.T) {
	const pause = 20 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pool := NewPool(Options{})
	t.Cleanup(pool.Close)
	member := pool.Member(t.Context(), Endpoint{Key: "x", Address: listener.Addr().String()}, Identity{})
	if member.AwaitOpen(t.Context(), pause) {
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
	go func() { opened <- member.AwaitOpen(t.Context(), pause) }()
	time.Sleep(3 * pause)
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
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed within 10 s that the port is open")
	}
}
