package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

const (
	// putBackWithin is how long the operator may take to put a setting back, and to report that it was changed. It reads
	// the settings with its probe, every second; the rest is for a pass on a busy machine.
	putBackWithin = 10 * time.Second
	// putBackPatience bounds the wait for it: how late it was is worth knowing too.
	putBackPatience = time.Minute
	// settingTimeout bounds one statement about a setting.
	settingTimeout = 5 * time.Second
	semiSync       = "rpl_semi_sync_source_enabled"
)

// settingChange is a setting of the primary that a person changes.
type settingChange struct {
	variable, value, proper string
	// named are words of which the operator's report has one.
	named []string
}

var (
	semiSyncOff = settingChange{semiSync, "OFF", "ON", []string{"semi_sync", "semi-sync"}}
	readOnly    = settingChange{"read_only", "ON", "OFF", []string{"read_only", "read-only"}}
	offlineMode = settingChange{"offline_mode", "ON", "OFF", []string{"offline_mode", "offline mode", "offline"}}
)

// settingFaults are about a person who changes what the cluster's promises rest on.
func settingFaults() []Fault {
	return []Fault{
		{"semi-sync switched off by a person", semiSyncOff.fault, moment, short},
		{"semi-sync switched off by a person, power cut, primary alone", semiSyncOffAlone, short, long},
		{"read_only set by a person, primary", readOnly.fault, moment, short},
		{"offline_mode set by a person, primary", offlineMode.fault, moment, short},
	}
}

// fault changes the setting on the primary, and waits until the operator has put it back and reported it.
func (m settingChange) fault(ctx context.Context, s *Scene) error {
	if err := m.set(ctx, s); err != nil {
		return err
	}
	began := time.Now()
	back, reported := time.Duration(0), time.Duration(0)
	for back == 0 || reported == 0 {
		proper, err := m.isProper(ctx, s)
		if back == 0 && err == nil && proper {
			back = time.Since(began)
		}
		if reported == 0 {
			reported = s.reported(began, m.named)
		}
		late := time.Since(began)
		if late > putBackPatience || back > 0 && late > putBackWithin {
			break
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	s.say("     %s was put back after %s s, and reported after %s s", m.variable, seconds(back), seconds(reported))
	if back == 0 || back > putBackWithin {
		s.find("%s of %s was not put back within %s s (%s s)", m.variable, s.Primary.Name, seconds(putBackWithin), seconds(back))
	}
	if reported == 0 || reported > putBackWithin {
		s.find("%s of %s was changed, and no Warning and no condition named it within %s s (%s s)", m.variable, s.Primary.Name, seconds(putBackWithin), seconds(reported))
	}
	return nil
}

// reported returns how long after a time the operator first named one of some words, in a Warning, in a condition or in a
// member's message; 0 if it did not.
func (s *Scene) reported(since time.Time, words []string) time.Duration {
	for _, sight := range s.watch.since(since) {
		if sight.Kind == kindEvent && !sight.Warning {
			continue
		}
		for _, word := range words {
			if strings.Contains(strings.ToLower(sight.Text), word) {
				return sight.At.Sub(since)
			}
		}
	}
	return 0
}

// set changes the setting on the primary. The end of the fault makes sure that it is put back.
func (m settingChange) set(ctx context.Context, s *Scene) error {
	s.later(func(ctx context.Context) error { return m.restore(ctx, s) })
	if err := s.setOn(ctx, s.Primary, m.variable, m.value); err != nil {
		return fmt.Errorf("%s: set %s to %s: %w", s.Primary.Name, m.variable, m.value, err)
	}
	return nil
}

// restore puts the setting back where the operator did not. A member that does not answer has been restarted or is about to
// be, and forgets the setting by that. One that is not the primary any more is set by the operator.
func (m settingChange) restore(ctx context.Context, s *Scene) error {
	proper, err := m.isProper(ctx, s)
	if err != nil || proper {
		return nil //nolint:nilerr // see above
	}
	s.say("     %s of %s is still %s at the end of the fault", m.variable, s.Primary.Name, m.value)
	return s.setOn(ctx, s.Primary, m.variable, m.proper)
}

// isProper says whether the setting is as it should be. Of a member that is not the primary any more only offline_mode has a
// value that is always right.
func (m settingChange) isProper(ctx context.Context, s *Scene) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, settingTimeout)
	defer cancel()
	c, err := s.cluster(ctx)
	if err != nil {
		return false, err
	}
	if c.Status.Primary != "" && c.Status.Primary != s.Primary.Name && m.variable != offlineMode.variable {
		return true, nil
	}
	owner, err := s.owner(ctx)
	if err != nil {
		return false, err
	}
	db, err := owner.openAt(s.at(s.Primary))
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }()
	var on bool
	err = db.QueryRowContext(ctx, "SELECT @@global."+m.variable).Scan(&on)
	return on == (m.proper == "ON"), err
}

// setOn sets a variable of a member, by the operator's account: it gets in whatever the setting is.
func (s *Scene) setOn(ctx context.Context, member v1alpha1.MemberStatus, variable, value string) error {
	ctx, cancel := context.WithTimeout(ctx, settingTimeout)
	defer cancel()
	return s.byHand(ctx, member, "SET GLOBAL "+variable+" = "+value)
}

// semiSyncOffAlone cuts the primary off from all members and switches semi-sync off, so that commits which nobody else has
// are acknowledged. A moment later it loses its power. What was acknowledged meanwhile has to be reported as uncovered.
func semiSyncOffAlone(ctx context.Context, s *Scene) error {
	if err := cutAll(ctx, s, both(s.Primary.InstanceID, cloud.PartyMembers)...); err != nil {
		return err
	}
	if err := semiSyncOff.set(ctx, s); err != nil {
		return err
	}
	if err := pause(ctx, between(s.Random, moment/2, 2*moment)); err != nil {
		return err
	}
	return cutPrimary(ctx, s)
}
