package chaos

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

// What clients do that alerts are about.

// takeConnections connects to the primary again and again, so that it is full whatever the operator lets it take. The replicas, which
// were disconnected, find no place.
func takeConnections(ctx context.Context, s *Scene) error {
	connector, err := s.access.connector(s.load.theService().address, s.load.theService().name, answerTimeout)
	if err != nil {
		return err
	}
	come, leave := context.WithCancel(context.WithoutCancel(ctx))
	var crowd sync.WaitGroup
	full := make(chan struct{})
	crowd.Go(func() {
		var open []driver.Conn
		for come.Err() == nil && len(open) < crowdMost {
			conn, err := connector.Connect(come)
			if err == nil {
				open = append(open, conn)
				continue
			}
			select {
			case full <- struct{}{}:
			case <-come.Done():
			case <-time.After(lookEvery / 5):
			}
		}
		<-come.Done()
		for _, conn := range open {
			_ = conn.Close() // the server may have ended it
		}
	})
	s.later(func(context.Context) error {
		leave()
		crowd.Wait()
		return nil
	})
	select {
	case <-full:
	case <-time.After(long):
		return errors.New("the crowd found room: the primary was never full")
	}
	for _, r := range s.Replicas {
		if err := s.ownerDoes(ctx, r, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD"); err != nil {
			return err
		}
	}
	return nil
}

// crowdMost is more than the operator lets any server of the lab take.
const crowdMost = 2000

const (
	historyClients = 64
	// historyCommits are as many as the threshold of the alert, and a few.
	historyCommits = 1_050_000
)

// longHistory keeps a snapshot of the rows open while clients change them a million times.
func longHistory(ctx context.Context, s *Scene) error {
	db, err := s.open(s.load.theService())
	if err != nil {
		return err
	}
	s.later(func(context.Context) error { return db.Close() })
	s.tidy(func(ctx context.Context) error {
		return s.ownerDoes(ctx, s.Primary, "DROP TABLE IF EXISTS app.history")
	})
	db.SetMaxOpenConns(historyClients + 1)
	db.SetMaxIdleConns(historyClients + 1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE history (id INT PRIMARY KEY, n INT NOT NULL)"); err != nil {
		return err
	}
	reader, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	s.later(func(context.Context) error { return reader.Close() })
	for i := range historyClients {
		if _, err := db.ExecContext(ctx, "INSERT INTO history VALUES (?, 0)", i); err != nil {
			return err
		}
	}
	if _, err := reader.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return err
	}
	var all sync.WaitGroup
	failed := make(chan error, historyClients)
	for i := range historyClients {
		all.Go(func() {
			for range historyCommits / historyClients {
				if _, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE history SET n = n + 1 WHERE id = %d", i)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}
