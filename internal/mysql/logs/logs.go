// Package logs reads the logs of a cluster's MySQL servers over SQL and writes each entry as a line of JSON.
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
)

const (
	// DefaultInterval is how often each member is read. A log of 16 MiB that grows by half a MiB a second costs its server half a percent of
	// a core then.
	DefaultInterval = 5 * time.Second
	// timeout bounds a statement on a member, and the connection to it.
	timeout = 10 * time.Second
	// idleTimeout keeps connections for longer than the interval.
	idleTimeout = time.Minute
	// since is how far before its start a shipper begins: what was logged while its pod was replaced is not left out.
	since = 5 * time.Minute
	// partsAtOnce is how many parts of a log are read, at most, before the next member's turn in the other log.
	partsAtOnce = 16
)

// Names of the logs, as in spec.monitoring.logs.
const (
	Error   = "Error"
	Slow    = "Slow"
	General = "General"
)

// Options say what is read, and of whom.
type Options struct {
	Namespace, Cluster string
	Members            []exporter.Member
	// Logs are names of spec.monitoring.logs.
	Logs []string
	// Identity returns what the shipper logs in with. It is asked at each reading, because certificates are renewed.
	Identity func() (mysql.Identity, error)
	// Interval is DefaultInterval unless set.
	Interval time.Duration
	Clock    clock.Clock
	// Output takes the entries, a line each; Logger what the shipper itself has to say.
	Output io.Writer
	Logger logr.Logger
	// Dial makes the TCP connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Shipper reads the logs of a cluster's members.
type Shipper struct {
	o        Options
	pool     *conn.Pool
	failures exporter.Failures

	// parsing is held by who takes a part of a file apart: one at a time, so that the memory grows little with the members. Nobody holds it
	// while a member is asked, which may not answer.
	parsing sync.Mutex
	output  sync.Mutex
}

// source is one log of one member.
type source interface {
	// read writes what is new. more says that there is more to read at once.
	read(ctx context.Context, s *conn.Session, write func(Entry)) (more bool, err error)
}

// New returns a shipper that has no connection yet. It fails on a log that does not exist.
func New(o Options) (*Shipper, error) {
	for _, log := range o.Logs {
		if log != Error && log != Slow && log != General {
			return nil, fmt.Errorf("there is no log %q", log)
		}
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	pool := conn.NewPool(conn.Options{
		User: mysql.MetricsUser, DialTimeout: timeout, StatementTimeout: timeout, IdleTimeout: idleTimeout, Clock: o.Clock, Dial: o.Dial,
	})
	return &Shipper{o: o, pool: pool, failures: exporter.Failures{Logger: o.Logger, Begun: "cannot read a log", Over: "the log can be read again"}}, nil
}

// Run reads until ctx ends, the members side by side.
func (s *Shipper) Run(ctx context.Context) {
	defer s.pool.Close()
	if len(s.o.Logs) == 0 {
		return
	}
	var group sync.WaitGroup
	for _, m := range s.o.Members {
		group.Go(func() { s.follow(ctx, m) })
	}
	group.Wait()
}

// follow reads the logs of one member until ctx ends.
func (s *Shipper) follow(ctx context.Context, m exporter.Member) {
	began := s.o.Clock.Now().Add(-since)
	sources := map[string]source{}
	for _, log := range s.o.Logs {
		switch log {
		case Error:
			sources[log] = &errorLog{since: fmt.Sprintf("%d.000000", began.Unix())}
		case Slow:
			sources[log] = &file{name: "slow.log", event: "wait/io/file/sql/slow_log", format: slowFormat, since: began, parsing: &s.parsing}
		case General:
			sources[log] = &file{name: "general.log", event: "wait/io/file/sql/query_log", format: generalFormat, since: began, parsing: &s.parsing}
		}
	}
	for ctx.Err() == nil {
		for log, source := range sources {
			err := s.read(ctx, m, log, source)
			s.failures.Report(log+" log of "+m.Name, err)
		}
		select {
		case <-ctx.Done():
		case <-s.o.Clock.After(s.o.Interval):
		}
	}
}

// read writes what is new in one log.
func (s *Shipper) read(ctx context.Context, m exporter.Member, log string, from source) error {
	identity, err := s.o.Identity()
	if err != nil {
		return err
	}
	write := func(e Entry) {
		e.Origin = Origin{Namespace: s.o.Namespace, Cluster: s.o.Cluster, Member: m.Name, Log: log}
		s.write(e)
	}
	for range partsAtOnce {
		more := false
		var problem error
		err := s.pool.Handle(m.Endpoint, identity).Read(ctx, func(session *conn.Session) (err error) {
			own := int64(session.ID()) //nolint:gosec // MySQL counts connections from 1 on
			others := func(e Entry) {
				if e.Connection != own { // the general log has this reading itself
					write(e)
				}
			}
			if more, err = from.read(ctx, session, others); errors.Is(err, errLost) {
				problem, err = err, nil // a session that can go on
			}
			return err
		})
		if err = errors.Join(err, problem); err != nil || !more {
			return err
		}
	}
	return nil
}

// write writes one line. Where nobody takes the output, the pod is about to end.
func (s *Shipper) write(e Entry) {
	s.output.Lock()
	defer s.output.Unlock()
	encoder := json.NewEncoder(s.o.Output)
	encoder.SetEscapeHTML(false) // people search for statements
	_ = encoder.Encode(e)        // nothing in it can fail but the output
}
