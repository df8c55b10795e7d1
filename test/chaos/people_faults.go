package chaos

import (
	"context"
	"errors"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// peopleFaults are about a person with all privileges who changes over SQL what the cluster stands on.
func peopleFaults() []Fault {
	return []Fault{
		{"replication filter set by a person, power cut, primary", filteredReplica, short, long},
		{"replica delayed by a person, power cut, primary", delayedReplica, short, long},
		{"replicas' account locked by a person, all reconnect", lockedAccount, moment, short},
		{"operator's database dropped by a person", droppedDatabase, moment, short},
		{"time-out of semi-sync lowered by a person, power cut, primary", timedOut, short, long},
		{"SHUTDOWN by a person, primary", shutDownPrimary, moment, short},
		{"SHUTDOWN by a person, all replicas", shutDownReplicas, moment, short},
	}
}

// byHand runs statements on a member as somebody with all privileges.
func (s *Scene) byHand(ctx context.Context, member v1alpha1.MemberStatus, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, handLimit)
	defer cancel()
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	db, err := owner.openAt(s.at(member))
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return errors.Join(fmt.Errorf("%s: %s: %w", member.Name, statement, err), db.Close())
		}
	}
	return db.Close()
}

// filteredReplica has one replica leave out all that clients write, while it says that it has executed it. Then the primary is gone: what it
// acknowledged is on the other replica alone.
func filteredReplica(ctx context.Context, s *Scene) error {
	if err := s.byHand(ctx, s.Replicas[0], "STOP REPLICA SQL_THREAD", "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('"+s.access.database+".%')", "START REPLICA SQL_THREAD"); err != nil {
		return err
	}
	if err := pause(ctx, between(s.Random, moment/4, short)); err != nil {
		return err
	}
	return cutPrimary(ctx, s)
}

// delayedReplica has one replica apply a day late.
func delayedReplica(ctx context.Context, s *Scene) error {
	if err := s.byHand(ctx, s.Replicas[0], "STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 86400", "START REPLICA SQL_THREAD"); err != nil {
		return err
	}
	if err := pause(ctx, between(s.Random, moment/4, short)); err != nil {
		return err
	}
	return cutPrimary(ctx, s)
}

// lockedAccount locks the account that replicas connect with, and has all of them connect again.
func lockedAccount(ctx context.Context, s *Scene) error {
	if err := s.byHand(ctx, s.Primary, "ALTER USER nairobi_replication ACCOUNT LOCK"); err != nil {
		return err
	}
	for _, replica := range s.Replicas {
		if err := s.byHand(ctx, replica, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD"); err != nil {
			return err
		}
	}
	return nil
}

// droppedDatabase drops what the operator keeps in the database itself: who may acknowledge.
func droppedDatabase(ctx context.Context, s *Scene) error {
	return s.byHand(ctx, s.Primary, "DROP DATABASE nairobi_mysql")
}

// timedOut has commits wait for a second at most, and no replica receive them: they are answered all the same. Then the primary is gone.
func timedOut(ctx context.Context, s *Scene) error {
	if err := s.byHand(ctx, s.Primary, "SET GLOBAL rpl_semi_sync_source_timeout = 1000"); err != nil {
		return err
	}
	for _, replica := range s.Replicas {
		if err := s.byHand(ctx, replica, "STOP REPLICA IO_THREAD"); err != nil {
			return err
		}
	}
	if err := pause(ctx, between(s.Random, moment/4, short)); err != nil {
		return err
	}
	return cutPrimary(ctx, s)
}

// shutDownPrimary ends mysqld of the primary, which answers whoever waits.
func shutDownPrimary(ctx context.Context, s *Scene) error {
	return s.byHand(ctx, s.Primary, "SHUTDOWN")
}

// shutDownReplicas ends mysqld of all others.
func shutDownReplicas(ctx context.Context, s *Scene) error {
	for _, replica := range s.Replicas {
		if err := s.byHand(ctx, replica, "SHUTDOWN"); err != nil {
			return err
		}
	}
	return nil
}
