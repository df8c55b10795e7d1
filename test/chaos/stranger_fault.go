package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// strangerMoment is how long after a cut a primary may still answer: the operator needs a probe and a pass to notice whose
// acknowledgements it counts. What is answered in this time is lost with the primary, and has to be reported as uncovered.
const strangerMoment = 2 * time.Second

// forgetWithin bounds the wait for a primary on which the stranger's account can be dropped.
const forgetWithin = 30 * time.Second

// strangerFaults are about a replica that is no member and acknowledges what it receives.
func strangerFaults() []Fault {
	return []Fault{
		{"a stranger acknowledges, power cut, primary", strangerAcknowledges, moment, short},
		{"a stranger acknowledges, semi-sync off, power cut, primary", func(ctx context.Context, s *Scene) error {
			if err := s.inviteStranger(ctx); err != nil {
				return err
			}
			s.begins()
			return semiSyncOffAlone(ctx, s)
		}, short, long},
	}
}

// strangerAcknowledges cuts the primary off from all members while a stranger receives and acknowledges what it commits.
// Nobody else gets those commits, so they must wait. Then the primary loses its power.
func strangerAcknowledges(ctx context.Context, s *Scene) error {
	if err := s.inviteStranger(ctx); err != nil {
		return err
	}
	primary := s.ledger.lastServer()
	s.begins()
	if err := cutAll(ctx, s, both(s.Primary.InstanceID, cloud.PartyMembers)...); err != nil {
		return err
	}
	cut := s.ledger.now()
	if err := pause(ctx, s.length(short, long)); err != nil {
		return err
	}
	until := s.ledger.now()
	if err := cutPrimary(ctx, s); err != nil {
		return err
	}
	entries := s.ledger.round(s.round)
	at, late := answeredBy(entries, primary, cut, cut+strangerMoment), answeredBy(entries, primary, cut+strangerMoment, until)
	s.say("     alone for %s s, the primary answered %d writes in the first %s s, and %d later", seconds(until-cut), at, seconds(strangerMoment), late)
	if late > 0 {
		s.find("%s acknowledged %d writes later than %s s after it was cut off from all voters", s.Primary.Name, late, seconds(strangerMoment))
	}
	// Time for a failover: a primary that is back at once has everything.
	return pause(ctx, s.length(short, long))
}

// answeredBy counts the writes that a server acknowledged in a time.
func answeredBy(entries []Entry, server uint32, from, until time.Duration) int {
	count := 0
	for _, e := range entries {
		if e.Outcome.answered() && e.Server == server && e.Answered > from && e.Answered <= until {
			count++
		}
	}
	return count
}

// inviteStranger lets a stranger replicate from the primary. An operator may refuse what it acknowledges, or the stranger
// altogether: the fault goes on without it.
func (s *Scene) inviteStranger(ctx context.Context) error {
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	s.tidy(func(ctx context.Context) error { return s.forgetStranger(ctx, owner) })
	db, err := owner.openAt(s.at(s.Primary))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"CREATE USER IF NOT EXISTS " + strangerAccount + " IDENTIFIED BY '" + s.access.password + "'", // without quotes
		"GRANT REPLICATION SLAVE ON *.* TO " + strangerAccount,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the stranger's account: %w", err)
		}
	}
	stranger, err := startStranger(ctx)
	if err != nil {
		return err
	}
	s.later(func(context.Context) error { return stranger.remove() })
	executed := ""
	if err := db.QueryRowContext(ctx, "SELECT @@global.gtid_executed").Scan(&executed); err != nil {
		return err
	}
	if err := stranger.replicate(ctx, s.at(s.Primary).address, s.access.password, executed); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.say("     %v", err)
	}
	return nil
}

// forgetStranger drops the stranger's account. A cluster without a primary keeps it until the next stranger, which is no
// error of the fault.
func (s *Scene) forgetStranger(ctx context.Context, owner access) error {
	ctx, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	drop := func() error {
		db, err := owner.openAt(s.load.theService())
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "DROP USER IF EXISTS "+strangerAccount)
		return errors.Join(err, db.Close())
	}
	for err := drop(); err != nil; err = drop() {
		if pause(ctx, lookEvery) != nil {
			s.say("     the stranger's account stays: %v", err)
			return nil
		}
	}
	return nil
}
