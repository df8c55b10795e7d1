package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// admitWait is how long a replica may take to apply what the primary had executed a moment ago. One that needs
	// longer is behind and is tried again in the next pass.
	admitWait = 5 * time.Second
	// epochWait is how long a promotion waits for its own row to be acknowledged.
	epochWait = time.Second
	// epochLimit is how long that write is given in all; it holds the primary's one writing session meanwhile.
	epochLimit = 5 * time.Second
	// promoteWait is how long a candidate may take to apply its relay log within one pass. The next pass goes on waiting.
	promoteWait = 20 * time.Second
)

// takeInSQL gives an action on mysqld its effect, and says whether it was one.
func (r *MySQLClusterReconciler) takeInSQL(ctx context.Context, s *scope, action topology.Action) (bool, error) {
	m, err := r.member(ctx, s, action.Target())
	if err != nil {
		return true, err
	}
	switch a := action.(type) {
	case topology.SignCertificate:
		err = r.sign(ctx, s, m, a)
	case topology.Bootstrap:
		err = bootstrapMember(ctx, m, a)
	case topology.Fence:
		err = m.StopIOThread(ctx)
	case topology.Promote:
		err = promote(ctx, m, a)
	case topology.Demote:
		err = m.Demote(ctx)
	case topology.CloneFrom:
		err = m.CloneFrom(ctx, a.DonorAddress)
	case topology.ReplicateFrom:
		err = m.ReplicateFrom(ctx, a.SourceAddress, v1alpha1.MySQLPort)
	case topology.AdmitVoter:
		err = r.admitVoter(ctx, s, m, a)
	case topology.RemoveVoter:
		err = r.removeVoter(ctx, s, a)
	case topology.SetAcknowledging:
		err = m.SetAcknowledging(ctx, a.On)
	case topology.SetSourceWait:
		err = setSourceWait(ctx, m, a)
	case topology.PinSettings:
		err = m.PinSettings(ctx, a.Settings)
	case topology.ApplySettings:
		err = r.applySettings(ctx, s, m, a)
	case topology.Restart:
		err = r.restart(ctx, s, m, a)
	case topology.EnsureDatabase:
		err = r.ensureDatabase(ctx, s, m)
	default:
		return false, nil
	}
	return true, err
}

// sign answers a member's sealed request. The address that was dialled and the instance id are EC2's word; the key
// that is signed for an instance is recorded first and never exchanged for another.
func (r *MySQLClusterReconciler) sign(ctx context.Context, s *scope, m *mysql.Member, a topology.SignCertificate) error {
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
	cert, serial, err := s.authority.SignMember(pki.MemberRequest{
		CSR: request.CSR, Seal: request.Seal, InstanceID: a.InstanceID, Member: a.Member, Incarnation: a.Incarnation,
		DNSNames: resources.MemberDNSNames(s.cluster, a.Member, r.Config.ClusterDomain), IPs: []net.IP{net.ParseIP(a.Address)},
		OperatorCertPEM: s.identity.CertPEM,
	}, r.Clock.Now())
	if err != nil {
		return untrusted(a.Member, err)
	}
	if err := r.saveRecords(ctx, s, func(records *topology.Records) {
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

// bootstrapMember makes the first primary. Nobody else votes yet, so it waits for nobody.
func bootstrapMember(ctx context.Context, m *mysql.Member, a topology.Bootstrap) error {
	if err := m.Promote(ctx, mysql.PromoteSpec{}); err != nil {
		return err
	}
	return m.WriteMembership(ctx, 0, mysql.Membership{Epoch: 1, Voters: []string{a.Member}, W: topology.WaitFor(1)})
}

// promote makes a member primary once it has applied all that it holds: what the proof counted may lie in its relay
// log, and RESET REPLICA would throw that away.
func promote(ctx context.Context, m *mysql.Member, a topology.Promote) error {
	if err := m.ApplyReceived(ctx, a.MustHold, promoteWait); err != nil {
		return err
	}
	row := a.Membership
	if err := m.Promote(ctx, mysql.PromoteSpec{SemiSync: a.SemiSync, W: row.W}); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), epochLimit)
		defer cancel()
		written <- m.WriteMembership(ctx, row.Epoch, mysql.Membership{Epoch: row.Epoch + 1, Voters: row.Voters, W: row.W})
	}()
	if !a.SemiSync {
		return <-written
	}
	// The voters' IO threads were stopped for the proof, so this commit waits until the next pass has pointed them here.
	// It goes on by itself; waiting for it would only delay that.
	select {
	case err := <-written:
		if errors.Is(err, mysql.ErrCommitsPending) {
			return nil
		}
		return err
	case <-time.After(epochWait):
		return nil
	}
}

// setSourceWait puts the primary's wait count right. A primary that is the only voter stops waiting for good.
func setSourceWait(ctx context.Context, m *mysql.Member, a topology.SetSourceWait) error {
	if a.Alone && !a.Enabled {
		return m.ReleaseWaiting(ctx)
	}
	return m.SetSourceWait(ctx, a.Enabled, a.W)
}

// admitVoter makes a replica a voter, in the order that keeps every acknowledged commit within reach of a promotion:
// it holds what the primary had executed; the wait count is raised; the row is written; only then it acknowledges.
// With a single voter nobody's acknowledgement counts yet, so there the newcomer may, and must, acknowledge the row.
func (r *MySQLClusterReconciler) admitVoter(ctx context.Context, s *scope, m *mysql.Member, a topology.AdmitVoter) error {
	primary, err := r.member(ctx, s, a.Primary)
	if err != nil {
		return err
	}
	next := a.From.With(a.Member)
	alone := len(a.From.Voters) == 1
	if !a.SemiSync {
		return admitWithoutWait(ctx, primary, m, a, next)
	}
	if !alone {
		if err := primary.SetSourceWait(ctx, true, max(next.W, a.From.W)); err != nil {
			return err
		}
	}
	if err := holdsWhatPrimaryHad(ctx, primary, m, a.Primary); err != nil {
		return err
	}
	if alone {
		if err := m.SetAcknowledging(ctx, true); err != nil {
			return err
		}
		if err := primary.SetSourceWait(ctx, true, next.W); err != nil {
			return err
		}
	}
	if err := primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership{Epoch: next.Epoch, Voters: next.Voters, W: next.W}); err != nil {
		return err
	}
	return m.SetAcknowledging(ctx, true)
}

// admitWithoutWait is admitVoter for asynchronous replication, where nobody waits for anybody.
func admitWithoutWait(ctx context.Context, primary, m *mysql.Member, a topology.AdmitVoter, next topology.Membership) error {
	if err := holdsWhatPrimaryHad(ctx, primary, m, a.Primary); err != nil {
		return err
	}
	return primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership{Epoch: next.Epoch, Voters: next.Voters, W: next.W})
}

// holdsWhatPrimaryHad waits until a replica has executed what its primary had executed a moment ago.
func holdsWhatPrimaryHad(ctx context.Context, primary, m *mysql.Member, name string) error {
	o := primary.Observe(ctx)
	if o.Access != mysql.AccessVerified || o.ReadOnly {
		return fmt.Errorf("%s is no longer the primary that it was", name)
	}
	return m.WaitApplied(ctx, o.Executed, admitWait)
}

// removeVoter takes the vote of a member that is known never to acknowledge again. The row is written under the old
// wait count; only when nobody would be left to acknowledge it, the primary stops waiting first.
func (r *MySQLClusterReconciler) removeVoter(ctx context.Context, s *scope, a topology.RemoveVoter) error {
	primary, err := r.member(ctx, s, a.Primary)
	if err != nil {
		return err
	}
	next := a.From.Without(a.Member)
	if a.SemiSync && next.W == 0 {
		if err := primary.ReleaseWaiting(ctx); err != nil {
			return err
		}
	}
	if err := primary.WriteMembership(ctx, a.From.Epoch, mysql.Membership{Epoch: next.Epoch, Voters: next.Voters, W: next.W}); err != nil {
		return err
	}
	if !a.SemiSync || next.W == 0 {
		return nil
	}
	return primary.SetSourceWait(ctx, true, next.W)
}

// applySettings persists the user's settings. That a restart is due is recorded, so that an operator which restarts
// meanwhile neither forgets it nor restarts a server twice.
func (r *MySQLClusterReconciler) applySettings(ctx context.Context, s *scope, m *mysql.Member, a topology.ApplySettings) error {
	due := func(at int64) error {
		return r.saveRecords(ctx, s, func(records *topology.Records) {
			rec := records.Members[a.Member]
			rec.RestartDue = at
			records.Members[a.Member] = rec
		})
	}
	before := s.record(a.Member).RestartDue
	if err := due(r.Clock.Now().Unix()); err != nil {
		return err
	}
	restart, err := m.ApplySettings(ctx, a.Want, a.Drop)
	if err == nil {
		r.memory.expect(s.notes, a.Member, a.Want)
	}
	if !restart {
		if err := due(before); err != nil {
			return err
		}
	}
	if errors.Is(err, mysql.ErrSettingRefused) {
		return &problem{reason: v1alpha1.ReasonSettingRefused, message: err.Error() + "; change it in spec.mysqld", after: afterPerson, cause: err}
	}
	return err
}

// restart restarts mysqld. A primary is made read-only first, which fails while commits wait: a shutdown would answer
// them as done.
func (r *MySQLClusterReconciler) restart(ctx context.Context, s *scope, m *mysql.Member, a topology.Restart) error {
	if a.Member == s.plan.Primary {
		if err := m.Demote(ctx); err != nil {
			return err
		}
		r.hushReplicas(ctx, s, a.Member)
	}
	return m.Restart(ctx)
}

// hushReplicas stops the replicas' IO threads before their source shuts down: a mysqld that still sends to replicas takes
// some ten seconds to end, one that does not takes two. A replica that cannot be told only costs that time.
func (r *MySQLClusterReconciler) hushReplicas(ctx context.Context, s *scope, primary string) {
	for name, other := range s.observed.Members {
		if name == primary || other.SQL.Access != topology.AccessVerified {
			continue
		}
		if replica, err := r.member(ctx, s, name); err == nil {
			if err := replica.StopIOThread(ctx); err != nil {
				s.log.V(1).Info("a replica goes on receiving during the restart of its source", "member", name, "problem", err.Error())
			}
		}
	}
}

func (r *MySQLClusterReconciler) ensureDatabase(ctx context.Context, s *scope, m *mysql.Member) error {
	if _, err := m.EnsureDatabase(ctx, s.cluster.Spec.Database.Name, s.cluster.Spec.Database.OwnerName(), s.password); err != nil {
		return err
	}
	return r.saveRecords(ctx, s, func(records *topology.Records) { records.Database = databaseKey(s) })
}
