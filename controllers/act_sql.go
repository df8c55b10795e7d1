package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/steps"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// epochWait is how long a promotion waits for its own membership row to be acknowledged; epochLimit is how long that
	// write is given in all. It holds the primary's one writing session meanwhile.
	epochWait  = 100 * time.Millisecond
	epochLimit = 5 * time.Second
	// drainPatience is how long the clients of a primary may take to finish before it hands over.
	drainPatience = 10 * time.Second
	// purgeEvery is the least time between two attempts to make room on a primary's disk.
	purgeEvery = time.Minute
	// settingPause is how long a setting that mysqld refused is not tried again; each further refusal doubles it, up to
	// settingPauseMost. Another value is tried at once.
	settingPause     = 30 * time.Second
	settingPauseMost = 5 * time.Minute
)

// takeInSQL gives an action on mysqld its effect, and says whether it was one.
func (r *executor) takeInSQL(ctx context.Context, s *pass, action topology.Action) (bool, error) {
	m, err := r.mysqlObserver.member(ctx, s, action.Target())
	if err != nil {
		return true, err
	}
	switch a := action.(type) {
	case topology.SignCertificate:
		err = r.sign(ctx, s, m, a)
	case topology.Recover:
		err = r.restorer.recover(ctx, s, a)
	case topology.Adopt:
		err = r.restorer.adopt(ctx, s, m, a)
	case topology.Bootstrap:
		err = steps.Bootstrap(ctx, m, a)
	case topology.Fence:
		err = m.StopIOThread(ctx)
	case topology.ApplyReceived:
		err = steps.ApplyReceived(ctx, m, a)
	case topology.Promote:
		err = r.promote(ctx, s, m, a)
	case topology.RecordPrimary:
		err = steps.RecordPrimary(ctx, m, a, detach(ctx))
	case topology.Switchover:
		err = r.switchOver(ctx, s, m, a)
	case topology.Demote:
		err = r.demote(ctx, s, m, a)
	case topology.CloneFrom:
		err = m.CloneFrom(ctx, a.DonorAddress)
	case topology.ReplicateFrom:
		err = steps.ReplicateFrom(ctx, m, a)
	case topology.AdmitVoter:
		err = r.admitVoter(ctx, s, m, a)
	case topology.RemoveVoter:
		err = steps.RemoveVoter(ctx, m, a)
	case topology.SettleVoters:
		err = steps.SettleVoters(ctx, m, a)
	case topology.StandAlone:
		err = steps.StandAlone(ctx, m, a)
	case topology.SetAcknowledging:
		err = r.setAcknowledging(ctx, s, m, a)
	case topology.SetSourceWait, topology.LowerSourceWait, topology.DisconnectStrangers, topology.Nudge:
		err = steps.KeepWait(ctx, m, a)
	case topology.PinSettings:
		err = r.pinSettings(ctx, s, m, a)
	case topology.ApplySettings:
		err = r.applySettings(ctx, s, m, a)
	case topology.Restart:
		err = r.restart(ctx, s, m, a)
	case topology.SetMaxConnections:
		err = m.SetMaxConnections(ctx, a.Limit)
	case topology.PurgeBinaryLogs:
		err = r.purgeBinaryLogs(ctx, s, m)
	case topology.EnsureDatabase:
		err = r.ensureDatabase(ctx, s, m)
	default:
		return false, nil
	}
	return true, err
}

// sign answers a member's sealed request. The address that was dialled and the instance id are EC2's word; the key
// that is signed for an instance is recorded first and never exchanged for another.
func (r *executor) sign(ctx context.Context, s *pass, m *mysql.Member, a topology.SignCertificate) error {
	request, err := m.ReadJoinRequest(ctx)
	if err != nil {
		return err
	}
	key, err := pki.Fingerprint(request.CSR)
	if err != nil {
		return untrusted(a.Member, err)
	}
	if rec := s.record(a.Member); rec.SignedInstance == a.InstanceID && rec.SignedKey != key {
		return untrusted(a.Member, fmt.Errorf("instance %s was given a certificate for another key already", a.InstanceID))
	}
	if request.InstanceID != a.InstanceID {
		return untrusted(a.Member, fmt.Errorf("it calls itself instance %q, EC2 calls it %s", request.InstanceID, a.InstanceID))
	}
	cert, serial, err := s.keys.authority.SignMember(pki.MemberRequest{
		CSR: request.CSR, Seal: request.Seal, InstanceID: a.InstanceID, Member: a.Member, Incarnation: a.Incarnation,
		DNSNames: resources.MemberDNSNames(s.cluster, a.Member, r.Config.ClusterDomain), IPs: []net.IP{net.ParseIP(a.Address)},
		OperatorCertPEM: s.keys.identity.CertPEM,
	}, r.Clock.Now())
	if err != nil {
		return untrusted(a.Member, err)
	}
	if err := r.recordKeeper.saveRecords(ctx, s, func(records *topology.Records) {
		rec := records.Members[a.Member]
		rec.SignedInstance, rec.SignedKey = a.InstanceID, key
		records.Members[a.Member] = rec
	}); err != nil {
		return err
	}
	return m.InstallCertificate(ctx, serial, cert)
}

func untrusted(member string, err error) error {
	return &problem{reason: v1alpha1.ReasonMemberUntrusted, after: afterWaiting, cause: err,
		message: fmt.Sprintf("the certificate request of %s is refused: %v", member, err)}
}

func (r *executor) admitVoter(ctx context.Context, s *pass, m *mysql.Member, a topology.AdmitVoter) error {
	primary, err := r.mysqlObserver.member(ctx, s, a.Primary)
	if err != nil {
		return err
	}
	return steps.AdmitVoter(ctx, primary, m, a)
}

// setAcknowledging switches a replica's acknowledgements.
func (r *executor) setAcknowledging(ctx context.Context, s *pass, m *mysql.Member, a topology.SetAcknowledging) error {
	primary, err := r.mysqlObserver.member(ctx, s, a.Primary)
	if err != nil {
		return err
	}
	return steps.SetAcknowledging(ctx, m, primary, a)
}

// detach lets the row of a new primary wait for its acknowledgements by itself: the next pass points the voters there.
func detach(ctx context.Context) steps.Detach {
	return func(write func(context.Context) error) error {
		written := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), epochLimit)
			defer cancel()
			written <- write(ctx)
		}()
		select {
		case err := <-written:
			return err
		case <-time.After(epochWait):
			return nil
		}
	}
}

// demote makes a member read-only, and turns its clients away.
func (r *executor) demote(ctx context.Context, s *pass, m *mysql.Member, a topology.Demote) error {
	if err := m.Demote(ctx); err != nil {
		return err
	}
	r.turnAway(ctx, s, m, a.Member)
	return nil
}

func (r *executor) promote(ctx context.Context, s *pass, m *mysql.Member, a topology.Promote) error {
	s.cache.told.timeline.fence(r.Clock.Now())
	if err := steps.Promote(ctx, m, a, detach(ctx)); err != nil {
		return err
	}
	s.cache.told.timeline.open(r.Clock.Now())
	s.result.promoted = true
	return nil
}

func (r *executor) switchOver(ctx context.Context, s *pass, m *mysql.Member, a topology.Switchover) error {
	target, err := r.mysqlObserver.member(ctx, s, a.To)
	if err != nil {
		return err
	}
	var closed time.Time // clients write while they are given time to finish
	demoted := func() { closed = r.Clock.Now() }
	if err := steps.Switchover(ctx, considerate{m, demoted}, target, a, detach(ctx)); err != nil {
		return err
	}
	s.cache.told.timeline = timeline{kind: promotionPlanned, from: a.Member, lastWrite: closed, noticed: closed, fenced: closed, opened: r.Clock.Now(), unseen: true}
	r.turnAway(ctx, s, m, a.Member)
	return nil
}

// turnAway ends the sessions of clients on a member that takes no writes any more, so that they find the present primary.
// One that cannot be ended only gets errors.
func (r *executor) turnAway(ctx context.Context, s *pass, m *mysql.Member, name string) {
	if _, err := m.DisconnectClients(ctx); err != nil {
		s.log.V(1).Info("clients of a former primary stay connected", "member", name, "problem", err.Error())
	}
}

// restart restarts mysqld, a primary's with its replicas hushed.
func (r *executor) restart(ctx context.Context, s *pass, m *mysql.Member, a topology.Restart) error {
	var replicas []steps.Server
	for name, other := range s.observed.Members {
		if name != a.Member && other.SQL.Access == topology.AccessVerified {
			if replica, err := r.mysqlObserver.member(ctx, s, name); err == nil {
				replicas = append(replicas, replica)
			}
		}
	}
	return steps.Restart(ctx, considerate{m, func() {}}, a.Member == s.plan.Primary, replicas)
}

// considerate is a primary whose clients get time to finish before it is demoted; what still stands in the way after that
// is ended. It calls demoted once it takes no writes any more.
type considerate struct {
	*mysql.Member
	demoted func()
}

// Demote implements steps.Server.
func (c considerate) Demote(ctx context.Context) error {
	if err := c.DemoteBounded(ctx, mysql.DemoteSpec{Patience: drainPatience, Kill: true}); err != nil {
		return err
	}
	c.demoted()
	return nil
}

// purgeBinaryLogs removes what every replica has executed from a primary whose disk fills up. While a
// replica is not reached nothing is removed: nobody knows what it lacks.
func (r *executor) purgeBinaryLogs(ctx context.Context, s *pass, m *mysql.Member) error {
	if r.Clock.Since(s.cache.looks.purgedAt) < purgeEvery {
		return nil
	}
	var executed []string
	for _, v := range s.plan.Members {
		if v.Name == s.plan.Primary {
			continue
		}
		other := s.observed.Members[v.Name]
		if other == nil || other.SQL.Access != topology.AccessVerified {
			return fmt.Errorf("%s does not answer: what it lacks is kept", v.Name)
		}
		executed = append(executed, other.SQL.Executed.String())
	}
	s.cache.looks.purgedAt = r.Clock.Now()
	removed, err := m.PurgeBinaryLogs(ctx, executed)
	if removed > 0 {
		s.log.Info("removed binary logs that no replica needs", "member", s.plan.Primary, "logs", removed)
	}
	return err
}

// pinSettings puts variables back, and remembers to what: one that does not stay so is left at that.
func (r *executor) pinSettings(ctx context.Context, s *pass, m *mysql.Member, a topology.PinSettings) error {
	if err := m.PinSettings(ctx, a.Settings); err != nil {
		return err
	}
	s.cache.settings.putBack(a.Member, a.Settings)
	return nil
}

// applySettings persists the user's settings. That a restart is due is recorded before anything waits for one, so that an
// operator which restarts meanwhile neither forgets it nor restarts a server twice. What mysqld refuses is not tried again
// for a while: it would be set and taken back, or asked for in vain, in every pass.
func (r *executor) applySettings(ctx context.Context, s *pass, m *mysql.Member, a topology.ApplySettings) error {
	note := func(ctx context.Context, at int64, of string) error {
		return r.recordKeeper.saveRecords(ctx, s, func(records *topology.Records) {
			rec := records.Members[a.Member]
			rec.RestartDue, rec.RestartFor = at, of
			records.Members[a.Member] = rec
		})
	}
	before, noted := s.record(a.Member), false
	restart, err := m.ApplySettings(ctx, a.Want, a.Drop, func(ctx context.Context) error {
		noted = true
		return note(ctx, topology.RestartDueAt(r.Clock.Now(), s.observed.Members[a.Member].SQL.StartedAt), topology.RestartAlsoFor(before, a.Want))
	})
	if err == nil {
		s.cache.settings.expect(a.Member, a.Want)
	}
	if !errors.Is(err, mysql.ErrSettingRefused) {
		return err // a restart that was noted stays so: of what was not answered nobody knows whether it counts
	}
	if noted && !restart {
		if err := note(ctx, before.RestartDue, before.RestartFor); err != nil {
			return err
		}
	}
	refused := mysql.RefusedSettings(err)
	var whys []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		whys = append(whys, refused[name].Error())
	}
	s.cache.settings.refuseSettings(a.Member, a.Want, refused, r.Clock.Now())
	return &problem{reason: v1alpha1.ReasonSettingRefused, message: settingsRefused(whys), after: afterPerson,
		pauseFrom: settingPause, pause: settingPauseMost, cause: err}
}

func (r *executor) ensureDatabase(ctx context.Context, s *pass, m *mysql.Member) error {
	d := s.cluster.Spec.Database
	retain := d.PasswordRetention()
	if s.cluster.Recovery() != nil && s.records().Database == "" {
		retain = 0 // the password that came with the data is another cluster's
	}
	outcome, err := m.EnsureDatabase(ctx, mysql.Database{Name: d.Name, Owner: d.OwnerName(), Password: s.keys.password, Retain: retain})
	if errors.Is(err, mysql.ErrPasswordRefused) {
		p := &problem{reason: v1alpha1.ReasonPasswordRefused, after: afterPerson, pauseFrom: settingPause, pause: settingPause, cause: err,
			message: fmt.Sprintf("%v; change the key %s of Secret %s", err, resources.KeyPassword, resources.NamesOf(s.cluster.Name).App)}
		s.cache.settings.refusedPassword = refusedPassword{key: databaseKey(s), problem: p, at: r.Clock.Now()}
		return p
	}
	if err != nil {
		return err
	}
	return r.recordKeeper.saveRecords(ctx, s, func(records *topology.Records) {
		records.Database, records.PasswordUntil = databaseKey(s), 0
		if outcome.Retained > 0 {
			records.PasswordUntil = r.Clock.Now().Add(outcome.Retained).Unix() + 1
		}
	})
}
