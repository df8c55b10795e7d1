package conn

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// entry is what the pool keeps for one member's instance.
type entry struct {
	key    string
	reader slot
	writer slot
	// looks is what the next look resumes, where each has a session of its own.
	looks resumption
	// fillsUp says that clients had more than half of the server's places when it was observed last.
	fillsUp atomic.Bool

	mu       sync.Mutex // guards what follows
	endpoint mysql.Endpoint
	identity mysql.Identity
	states   []any // what other packages keep for the instance, see State
	lastUsed time.Time
	shut     bool
	raw      map[net.Conn]struct{} // open TCP connections, so that close can cut off a hanging statement
}

// slot holds one session and lets its users take turns.
type slot struct {
	turn    chan struct{}
	session *Session
	// abandoned is the server's id of a session that was given up on a time-out: the server may still be busy with it.
	abandoned uint64
	// used is when the session was used last.
	used time.Time
}

func newEntry(key string) *entry {
	return &entry{
		key:    key,
		reader: slot{turn: make(chan struct{}, 1)},
		writer: slot{turn: make(chan struct{}, 1)},
		raw:    map[net.Conn]struct{}{},
	}
}

// take waits for the slot's turn, at most as long as ctx allows.
func (s *slot) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

// tryTake takes the slot's turn if it is free.
func (s *slot) tryTake() bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// give ends the turn. A session that broke is closed; the next turn opens another.
func (s *slot) give() {
	if s.session != nil && s.session.broken {
		s.drop()
	}
	<-s.turn
}

// drop closes the session. Call it with the turn taken.
func (s *slot) drop() {
	if s.session == nil {
		return
	}
	if s.session.timedOut {
		s.abandoned = s.session.id
	}
	s.session.Close()
	s.session = nil
}

func (e *entry) update(endpoint mysql.Endpoint, identity mysql.Identity, now time.Time) {
	e.mu.Lock()
	moved := e.endpoint.Address != "" && (e.endpoint.Address != endpoint.Address || e.endpoint.ServerName != endpoint.ServerName)
	e.endpoint = endpoint
	if !e.identity.Equal(identity) {
		e.identity = identity
	}
	e.lastUsed = now
	if moved {
		e.cutLocked()
	}
	e.mu.Unlock()
}

func (e *entry) idleSince(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Sub(e.lastUsed)
}

func (e *entry) target() (mysql.Endpoint, mysql.Identity) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.endpoint, e.identity
}

// name is how errors call the member: the first label of its server name, else its key.
func (e *entry) name() string {
	endpoint, _ := e.target()
	name := endpoint.ServerName
	if net.ParseIP(name) == nil {
		name, _, _ = strings.Cut(name, ".")
	}
	if name == "" {
		return e.key
	}
	return name
}

// close ends every connection of the entry for good, cutting off what runs on them.
func (e *entry) close() {
	e.mu.Lock()
	e.shut = true
	e.cutLocked()
	e.mu.Unlock()
	for _, s := range []*slot{&e.reader, &e.writer} {
		s.turn <- struct{}{}
		s.drop()
		<-s.turn
	}
}

func (e *entry) cutLocked() {
	for connection := range e.raw {
		connection.Close()
	}
	clear(e.raw)
}

func (e *entry) forgotten() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shut
}

// track registers a TCP connection with the entry, so that close can cut it off.
func (e *entry) track(connection net.Conn, most int64) (*trackedConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shut {
		connection.Close()
		return nil, errForgotten
	}
	e.raw[connection] = struct{}{}
	return &trackedConn{Conn: connection, most: most, forget: func() {
		e.mu.Lock()
		delete(e.raw, connection)
		e.mu.Unlock()
	}}, nil
}
