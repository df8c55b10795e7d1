package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// administrator is a person's account that may lock everything. The operator's own sessions are spared by it.
const administrator = "chaos_admin"

// hugeTransaction writes many rows in one transaction, which is still open, or still under way, when a switchover is asked
// for. Whether it is committed is its client's to know; the rows are not the ledger's.
func hugeTransaction(ctx context.Context, s *Scene) error {
	return s.duringSwitchover(ctx, s.access, s.load.theService(), func(ctx context.Context, db *sql.DB) error {
		for _, statement := range []string{
			"CREATE TABLE IF NOT EXISTS huge (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, text VARCHAR(255) NOT NULL)",
			"BEGIN",
			"INSERT INTO huge (text) SELECT REPEAT('x', 200) FROM (SELECT 1 FROM information_schema.columns a, information_schema.columns b LIMIT 200000) t",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		if err := pause(ctx, between(s.Random, 0, short)); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "COMMIT")
		return err
	})
}

// tableLock holds table locks while a switchover is asked for. The application's user may lock its own tables only, which
// holds up read-only mode as the global lock does.
func tableLock(ctx context.Context, s *Scene) error {
	return s.duringSwitchover(ctx, s.access, s.load.theService(), func(ctx context.Context, db *sql.DB) error {
		for _, statement := range []string{
			"CREATE TABLE IF NOT EXISTS huge (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, text VARCHAR(255) NOT NULL)",
			"LOCK TABLES huge WRITE",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return pause(ctx, between(s.Random, moment, short))
	})
}

// readLock lets an administrator lock all tables of a member, as some backups do, while a switchover is asked for.
func readLock(ctx context.Context, s *Scene, of v1alpha1.MemberStatus) error {
	admin, err := s.admin(ctx)
	if err != nil {
		return err
	}
	return s.duringSwitchover(ctx, admin, s.at(of), func(ctx context.Context, db *sql.DB) error {
		if _, err := db.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
			return err
		}
		return pause(ctx, between(s.Random, 2*moment, 2*short))
	})
}

// at is where a member is written to directly.
func (s *Scene) at(m v1alpha1.MemberStatus) target {
	return target{address: hostPort(m.Address), name: fmt.Sprintf("%s.%s.%s.svc", m.Name, s.key.Name, s.key.Namespace)}
}

// admin makes the administrator's account, and waits until every member has it.
func (s *Scene) admin(ctx context.Context) (access, error) {
	owner, err := s.owner(ctx)
	if err != nil {
		return access{}, err
	}
	db, err := owner.openAt(s.at(s.Primary))
	if err != nil {
		return access{}, err
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"CREATE USER IF NOT EXISTS " + administrator + " IDENTIFIED BY '" + s.access.password + "'", // letters and digits
		"GRANT RELOAD, PROCESS ON *.* TO " + administrator,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return access{}, fmt.Errorf("make an administrator: %w", err)
		}
	}
	admin := access{network: s.access.network, authority: s.access.authority, user: administrator, password: s.access.password}
	return admin, pause(ctx, time.Second)
}

// duringSwitchover lets a client do something at a member, and asks for a switchover in the middle of it. The operator may
// end the client's connection.
func (s *Scene) duringSwitchover(ctx context.Context, as access, where target, client func(context.Context, *sql.DB) error) error {
	db, err := as.openAt(where)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- errors.Join(client(ctx, db), db.Close()) }() // what it locked is free again, whatever the switchover does
	if err := pause(ctx, moment); err != nil {
		return err
	}
	err = s.switchover(ctx, s.Replicas[0].Name)
	cancel()
	if ended := <-done; ended != nil && !errors.Is(ended, context.Canceled) {
		s.say("     the client in the way was told: %v", ended)
	}
	return err
}
