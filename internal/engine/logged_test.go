package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// loggingServer is a mysqld whose binary log is read.
type loggingServer struct {
	LookedAt
	asked []string
	found []mysql.LoggedTransaction
	err   error
}

func (s *loggingServer) LoggedTransactions(_ context.Context, gtids string) ([]mysql.LoggedTransaction, error) {
	s.asked = append(s.asked, gtids)
	return s.found, s.err
}

const (
	primaryUUID = "00000000-0000-0000-0000-000000000000"
	replicaUUID = "00000000-0000-0000-0000-000000000001"
)

// errantOn is an observation in which a replica holds a GTID set that the primary does not.
func errantOn(own string, run int64) *topology.Observed {
	running := func(id string) []topology.Instance { return []topology.Instance{{ID: id, State: "running"}} }
	replica := topology.SQL{Access: topology.AccessVerified, ServerUUID: replicaUUID, Executed: gtid.MustParse(own), Replication: &topology.Replication{}}
	replica.Run = run
	return &topology.Observed{Members: map[string]*topology.Member{
		"orders-0": {Name: "orders-0", Instances: running("i-0"), SQL: topology.SQL{Access: topology.AccessVerified, ServerUUID: primaryUUID, Writable: true}},
		"orders-1": {Name: "orders-1", Instances: running("i-1"), SQL: replica},
	}}
}

// TestBinaryLogIsReadOnce: what a binary log says of a transaction is remembered as long as mysqld runs, and only what is new is read.
func TestBinaryLogIsReadOnce(t *testing.T) {
	server := &loggingServer{found: []mysql.LoggedTransaction{{GTID: replicaUUID + ":1", Statements: []string{"FLUSH STATUS"}}}}
	k, stage := NewLooks(), &stage{}
	look := func(own string, run int64) topology.OwnTransactions {
		o := errantOn(own, run)
		k.readLogs(t.Context(), o, LookPorts{Threads: threads{stage}, Server: func(context.Context, *topology.Member) LookedAt { return server }})
		return o.Members["orders-1"].SQL.Replication.Own
	}
	for _, step := range []struct {
		name     string
		own      string
		run      int64
		asked    string // what is read, empty for nothing
		harmless int
	}{
		{"first", replicaUUID + ":1", 1, replicaUUID + ":1", 1},
		{"again", replicaUUID + ":1", 1, "", 1},
		{"one more, which is not found", replicaUUID + ":1-2", 1, replicaUUID + ":2", 1},
		{"that again", replicaUUID + ":1-2", 1, "", 1},
		{"after a start of mysqld", replicaUUID + ":1-2", 2, replicaUUID + ":1-2", 1},
		{"nothing is errant any more", "", 2, "", 0},
		{"the same again, as after RESET BINARY LOGS AND GTIDS", replicaUUID + ":1", 2, replicaUUID + ":1", 1},
	} {
		server.asked, server.found = nil, []mysql.LoggedTransaction{{GTID: replicaUUID + ":1", Statements: []string{"FLUSH STATUS"}}}
		if step.asked == replicaUUID+":2" {
			server.found = nil
		}
		own := look(step.own, step.run)
		if asked := append(server.asked, "")[0]; asked != step.asked || own.Reading || len(own.Harmless) != step.harmless {
			t.Errorf("%s: asked for %q, want %q; %+v", step.name, asked, step.asked, own)
		}
	}
}

// TestBinaryLogIsReadOnceMore as long as there is something errant: what was purged since is not harmless any more, because nobody can be
// certain of it, and what cannot be read once more is as it was.
func TestBinaryLogIsReadOnceMore(t *testing.T) {
	server := &loggingServer{}
	k, stage := NewLooks(), &stage{}
	now := time.Unix(1000000, 0)
	for _, step := range []struct {
		name     string
		after    time.Duration
		held     []mysql.LoggedTransaction
		err      error
		read     bool
		harmless int
	}{
		{"first", 0, []mysql.LoggedTransaction{{GTID: replicaUUID + ":1", Statements: []string{"FLUSH STATUS"}}}, nil, true, 1},
		{"soon", logAgain / 2, nil, nil, false, 1},
		{"it cannot be read", logAgain, nil, errors.New("the connection is lost"), true, 1},
		{"nor soon after that", logAgain / 2, nil, nil, false, 1},
		{"it is purged", logAgain, nil, nil, true, 0},
		{"and it stays so", logAgain / 2, nil, nil, false, 0},
	} {
		now = now.Add(step.after)
		server.asked, server.found, server.err = nil, step.held, step.err
		o := errantOn(replicaUUID+":1", 1)
		o.Now = now
		k.readLogs(t.Context(), o, LookPorts{Threads: threads{stage}, Server: func(context.Context, *topology.Member) LookedAt { return server }})
		if own := o.Members["orders-1"].SQL.Replication.Own; own.Reading || len(own.Harmless) != step.harmless || len(server.asked) > 0 != step.read {
			t.Errorf("%s: asked for %v; %+v", step.name, server.asked, own)
		}
	}
}

// TestBinaryLogThatCannotBeRead: it is tried a few times, and then nothing in it counts as harmless.
func TestBinaryLogThatCannotBeRead(t *testing.T) {
	server := &loggingServer{err: errors.New("the connection is lost")}
	k, stage := NewLooks(), &stage{}
	for try := 1; try <= logTries+2; try++ {
		o := errantOn(replicaUUID+":1", 1)
		k.readLogs(t.Context(), o, LookPorts{Threads: threads{stage}, Server: func(context.Context, *topology.Member) LookedAt { return server }})
		own := o.Members["orders-1"].SQL.Replication.Own
		if own.Reading != (try < logTries) || len(own.Harmless) > 0 || len(server.asked) != min(try, logTries) {
			t.Errorf("try %d: %+v, read %d times", try, own, len(server.asked))
		}
	}
}

// TestBinaryLogThatTakesLong: no pass waits for the end of the search, and a later one takes what it found.
func TestBinaryLogThatTakesLong(t *testing.T) {
	server := &loggingServer{found: []mysql.LoggedTransaction{{GTID: replicaUUID + ":1", Statements: []string{"FLUSH STATUS"}}}}
	k, stage := NewLooks(), &stage{hangs: true}
	look := func() topology.OwnTransactions {
		o := errantOn(replicaUUID+":1", 1)
		k.readLogs(t.Context(), o, LookPorts{Threads: threads{stage}, Server: func(context.Context, *topology.Member) LookedAt { return server }})
		return o.Members["orders-1"].SQL.Replication.Own
	}
	for range 2 {
		if own := look(); !own.Reading || len(own.Harmless) > 0 {
			t.Errorf("before the search is over: %+v", own)
		}
	}
	for _, end := range stage.hung {
		end()
	}
	if own := look(); own.Reading || len(own.Harmless) != 1 || len(stage.hung) != 1 {
		t.Errorf("after it: %+v, of %d searches", own, len(stage.hung))
	}
}
