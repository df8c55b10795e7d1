package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

const (
	// cloneStartWait bounds the wait for CLONE to connect to its donor and begin, or to refuse.
	cloneStartWait = 10 * time.Second
	cloneStartPoll = 100 * time.Millisecond
	// cloneLimit bounds the connection that CLONE was started on; CLONE itself does not need it (fact 19).
	cloneLimit = 24 * time.Hour
)

// errCloneRuns ends an attempt early: there is nothing to do.
var errCloneRuns = errors.New("a CLONE is running")

// CloneFrom replaces everything on the member by a copy of the donor's data, over mutual TLS, and returns when the copy
// has begun. It goes on without us, and the member restarts into it (fact 19); Observe shows how far it is. While one runs
// it does nothing. It fails with ErrWritable on a member that takes writes from clients.
// donorAddress is host:port of the donor.
func (m *Member) CloneFrom(ctx context.Context, donorAddress string) (err error) {
	defer m.h.Annotate(&err, "clone from "+donorAddress)
	host, port, err := splitAddress(donorAddress)
	if err != nil {
		return err
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		before, err := prepareClone(ctx, s, net.JoinHostPort(host, strconv.Itoa(port)))
		if errors.Is(err, errCloneRuns) {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := m.startClone(ctx, s, host, port)
		if err != nil {
			return errors.Join(err, setReadOnly(ctx, s, true))
		}
		return awaitClone(ctx, s, before, result)
	})
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %q is no host:port", mysql.ErrInvalidArgument, address)
	}
	if err := checkHost(host); err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil {
		port = 0
	}
	return host, port, checkPort(port)
}

// prepareClone brings the member into the state in which CLONE works and returns when the last CLONE began.
func prepareClone(ctx context.Context, s *conn.Session, donor string) (before string, err error) {
	var readOnly, runs bool
	var began sql.Null[string]
	if err := s.Row(ctx, "SELECT @@GLOBAL.read_only, "+observe.CloneRuns+", (SELECT MAX(BEGIN_TIME) FROM performance_schema.clone_status)", nil,
		&readOnly, &runs, &began); err != nil {
		return "", err
	}
	if runs {
		return "", errCloneRuns
	}
	if !readOnly {
		return "", mysql.ErrWritable
	}
	if err := stopReplica(ctx, s); err != nil {
		return "", err
	}
	for _, setting := range []struct{ name, value string }{
		{"clone_valid_donor_list", donor},
		{"clone_ssl_ca", mysql.TLSDir + "ca.pem"},
		{"clone_ssl_cert", mysql.TLSDir + "current.pem"},
		{"clone_ssl_key", mysql.TLSDir + "member.key"},
		// Off only during CLONE, never persisted; read_only stays, so clients still cannot write.
		{"super_read_only", "OFF"},
	} {
		if err := s.Change(ctx, "clone/"+setting.name, "SET GLOBAL "+setting.name+" = ?", setting.value); err != nil {
			return "", err
		}
	}
	return began.V, nil
}

// installClone loads the plug-in of CLONE again, which my.cnf loads when mysqld starts. MySQL writes its name into a table, so it refuses under
// super_read_only: that is off meanwhile. read_only stays, so clients still cannot write, unless they have SUPER. The server is closed again
// whatever becomes of ctx.
func installClone(ctx context.Context, s *conn.Session) error {
	var loaded, closed bool
	if err := s.Row(ctx, "SELECT EXISTS (SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'), @@GLOBAL.super_read_only", nil,
		&loaded, &closed); err != nil || loaded {
		return err
	}
	whole := context.WithoutCancel(ctx)
	install := func() error {
		err := s.Change(whole, "pin/"+mysql.ClonePlugin, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
		if conn.IsServerError(err, mysql.ErUDFExists) {
			return nil
		}
		return err
	}
	if !closed {
		return install()
	}
	if err := conn.RefuseWhilePending(ctx, s); err != nil {
		return err
	}
	err := s.Change(whole, "clone/super_read_only", "SET GLOBAL super_read_only = OFF")
	if err == nil {
		err = install()
	}
	return errors.Join(err, setReadOnly(whole, s, true))
}

// startClone sends CLONE on a connection of its own: the caller's pass ends long before CLONE does.
func (m *Member) startClone(ctx context.Context, control *conn.Session, host string, port int) (<-chan error, error) {
	return m.h.Detached(ctx, control, func(ctx context.Context, s *conn.Session) error {
		err := s.ChangeWithin(ctx, cloneLimit, "clone/clone",
			"CLONE INSTANCE FROM '"+mysql.ReplicationUser+"'@?:"+strconv.Itoa(port)+" IDENTIFIED BY '' REQUIRE SSL", host)
		if number := conn.ServerErrorNumber(err); number != 0 && number != mysql.ErRestartServerFailed {
			// The server is up and refused, or gave up. It must not stay open to a hand of ours that errs.
			err = errors.Join(err, setReadOnly(ctx, s, true))
		}
		return err
	})
}

// awaitClone waits until clone_status shows a CLONE that began after before, or until CLONE ended.
func awaitClone(ctx context.Context, s *conn.Session, before string, result <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, cloneStartWait)
	defer cancel()
	for {
		select {
		case err := <-result:
			if conn.IsHangUp(err) || conn.IsServerError(err, mysql.ErRestartServerFailed) {
				return nil // the connection ended because the server restarts into the copy
			}
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait for CLONE to begin: %w", conn.ContextError(ctx))
		case <-time.After(cloneStartPoll):
		}
		var began sql.Null[string]
		var runs bool
		err := s.Row(ctx, "SELECT (SELECT MAX(BEGIN_TIME) FROM performance_schema.clone_status WHERE STATE = 'In Progress'), "+observe.CloneRuns, nil, &began, &runs)
		if err == nil && runs && began.Valid && began.V != before {
			return nil
		}
		if err != nil && conn.ServerErrorNumber(err) == 0 {
			continue // the server may be restarting already; result tells
		}
	}
}

// Restart restarts mysqld. It refuses with ErrWritable on a writable primary and with ErrCommitsPending while commits
// wait: a shutdown answers them as done although nobody else has them (fact 3). It returns when the server has taken the
// order, not when it is back.
func (m *Member) Restart(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "restart")
	return m.h.Control(ctx, func(s *conn.Session) error {
		if err := refuseWritable(ctx, s); err != nil {
			return err
		}
		if err := conn.RefuseWhilePending(ctx, s); err != nil {
			return err
		}
		err := s.Change(ctx, "restart/restart", "RESTART")
		s.Break()
		if err != nil && conn.IsHangUp(err) {
			return nil
		}
		return err
	})
}
