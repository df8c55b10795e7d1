package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/steps"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// epochWait is how long a promotion waits for its own membership row to be acknowledged; epochLimit is how long that
	// write is given in all. It holds the primary's one writing session meanwhile.
	epochWait  = 100 * time.Millisecond
	epochLimit = 5 * time.Second
)

// takeInSQL gives an action on mysqld its effect, and says whether it was one.
func (x *Execution) takeInSQL(ctx context.Context, action topology.Action) (bool, error) {
	m, err := x.Database.Member(ctx, action.Target())
	if err != nil {
		return true, err
	}
	for _, take := range []func(context.Context, Member, topology.Action) (bool, error){x.lead, x.follow, x.equip} {
		if handled, err := take(ctx, m, action); handled {
			return true, err
		}
	}
	return false, nil
}

// lead gives an action its effect that settles who takes writes, and who votes.
func (x *Execution) lead(ctx context.Context, m Member, action topology.Action) (bool, error) {
	switch a := action.(type) {
	case topology.Bootstrap:
		return true, steps.Bootstrap(ctx, m, a)
	case topology.Fence:
		return true, m.StopIOThread(ctx)
	case topology.ApplyReceived:
		return true, steps.ApplyReceived(ctx, m, a)
	case topology.Promote:
		return true, x.promote(ctx, m, a)
	case topology.RecordPrimary:
		return true, steps.RecordPrimary(ctx, m, a, x.detachedWrite(ctx))
	case topology.Switchover:
		return true, x.switchOver(ctx, m, a)
	case topology.Demote:
		return true, demote(ctx, m)
	case topology.AdmitVoter:
		return true, x.withPrimary(ctx, a.Primary, func(primary Member) error { return steps.AdmitVoter(ctx, primary, m, a) })
	case topology.RemoveVoter:
		return true, steps.RemoveVoter(ctx, m, a)
	case topology.Certify:
		return true, x.certify(ctx, m, a)
	case topology.SettleVoters:
		return true, steps.SettleVoters(ctx, m, a)
	case topology.RemoveAllVoters:
		return true, steps.RemoveAllVoters(ctx, m, a)
	}
	return false, nil
}

// follow gives an action its effect that settles who replicates, and who acknowledges.
func (x *Execution) follow(ctx context.Context, m Member, action topology.Action) (bool, error) {
	switch a := action.(type) {
	case topology.CloneFrom:
		return true, m.CloneFrom(ctx, a.DonorAddress)
	case topology.ReplicateFrom:
		return true, steps.ReplicateFrom(ctx, m, a)
	case topology.ResetRelayLog:
		return true, m.ResetRelayLog(ctx)
	case topology.SetAcknowledging:
		return true, x.withPrimary(ctx, a.Primary, func(primary Member) error { return steps.SetAcknowledging(ctx, m, primary, a) })
	case topology.AdoptHarmless:
		replica, err := x.Database.Member(ctx, a.Replica)
		if err != nil {
			return true, err
		}
		return true, steps.AdoptHarmless(ctx, m, replica, a)
	case topology.RetireGTIDs:
		return true, steps.RetireGTIDs(ctx, m, a)
	case topology.SetSourceWait, topology.LowerSourceWait, topology.DisconnectStrangers, topology.RestoreReplicationAccount, topology.CommitEmptyTransaction:
		return true, steps.KeepWait(ctx, m, a)
	}
	return false, nil
}

// equip gives an action its effect that makes a member what the spec asks for.
func (x *Execution) equip(ctx context.Context, m Member, action topology.Action) (bool, error) {
	switch a := action.(type) {
	case topology.SignCertificate:
		return true, x.sign(ctx, m, a)
	case topology.Recover:
		return true, x.Database.Recover(ctx, a)
	case topology.Adopt:
		return true, m.Adopt(ctx, a)
	case topology.SetRelaySync:
		return true, m.SetRelaySync(ctx, a.Value)
	case topology.PinSettings:
		return true, m.PinSettings(ctx, a)
	case topology.ApplySettings:
		return true, x.applySettings(ctx, m, a)
	case topology.Restart:
		return true, x.restart(ctx, m, a)
	case topology.SetMaxConnections:
		return true, m.SetMaxConnections(ctx, a.Limit)
	case topology.PurgeBinaryLogs:
		return true, m.PurgeBinaryLogs(ctx)
	case topology.EnsureDatabase:
		return true, m.EnsureDatabase(ctx)
	}
	return false, nil
}

// withPrimary does something that needs the primary as well.
func (x *Execution) withPrimary(ctx context.Context, name string, do func(primary Member) error) error {
	primary, err := x.Database.Member(ctx, name)
	if err != nil {
		return err
	}
	return do(primary)
}

// detachedWrite lets the row of a new primary wait for its acknowledgements by itself: the next pass points the voters there.
func (x *Execution) detachedWrite(ctx context.Context) steps.Detach {
	return func(write func(context.Context) error) error {
		var outcome error
		if x.Threads.Start(ctx, epochLimit, func(ctx context.Context) { outcome = write(ctx) }).Await(ctx, epochWait) {
			return outcome
		}
		return nil
	}
}

func (x *Execution) certify(ctx context.Context, primary Member, a topology.Certify) error {
	if a.Voter == "" {
		return steps.Certify(ctx, primary, nil, a)
	}
	voter, err := x.Database.Member(ctx, a.Voter)
	if err != nil {
		return err
	}
	return steps.Certify(ctx, primary, voter, a)
}

func (x *Execution) promote(ctx context.Context, m Member, a topology.Promote) error {
	x.Reporter.PromotionBegins()
	if err := steps.Promote(ctx, m, a, x.detachedWrite(ctx)); err != nil {
		return err
	}
	x.Reporter.Promoted()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Promoted = true
	return nil
}

func (x *Execution) switchOver(ctx context.Context, m Member, a topology.Switchover) error {
	target, err := x.Database.Member(ctx, a.To)
	if err != nil {
		return err
	}
	var closed time.Time // clients write while they are given time to finish
	demoted := func() { closed = x.Clock.Now() }
	if err := steps.Switchover(ctx, patient{m, demoted}, target, a, x.detachedWrite(ctx)); err != nil {
		return err
	}
	x.Reporter.SwitchedOver(a, closed)
	m.DisconnectClients(ctx)
	return nil
}

// patient is a primary whose clients get time to finish before it is demoted. It calls demoted once it takes no writes any more.
type patient struct {
	Member
	demoted func()
}

func (p patient) Demote(ctx context.Context) error {
	if err := p.DemotePatiently(ctx); err != nil {
		return err
	}
	p.demoted()
	return nil
}

// demote makes a member read-only, and turns its clients away.
func demote(ctx context.Context, m Member) error {
	if err := m.Demote(ctx); err != nil {
		return err
	}
	m.DisconnectClients(ctx)
	return nil
}

// restart restarts mysqld, a primary's with its replicas hushed.
func (x *Execution) restart(ctx context.Context, m Member, a topology.Restart) error {
	var replicas []steps.Server
	for _, name := range slices.Sorted(maps.Keys(x.Observed.Members)) {
		if name != a.Member && x.Observed.Members[name].SQL.Access == topology.AccessVerified {
			if replica, err := x.Database.Member(ctx, name); err == nil {
				replicas = append(replicas, replica)
			}
		}
	}
	return steps.Restart(ctx, patient{m, func() {}}, a.Member == x.Plan.Primary, replicas)
}

// sign gives a member's instance its certificate. The key that is signed for an instance is recorded first and never exchanged for
// another.
func (x *Execution) sign(ctx context.Context, m Member, a topology.SignCertificate) error {
	key, install, err := m.PrepareCertificate(ctx, a)
	if err != nil {
		return err
	}
	if rec := x.Records.Now().Members[a.Member]; rec.SignedInstance == a.InstanceID && rec.SignedKey != key {
		return Untrusted(a.Member, fmt.Errorf("instance %s was given a certificate for another key already", a.InstanceID))
	}
	if err := x.saveRecord(ctx, a.Member, func(rec *topology.MemberRecord) { rec.SignedInstance, rec.SignedKey = a.InstanceID, key }); err != nil {
		return err
	}
	return install(ctx)
}

// Untrusted is the problem of a certificate request that is refused.
func Untrusted(member string, err error) error {
	return &Problem{Reason: v1alpha1.ReasonMemberUntrusted, After: AfterWaiting, Cause: err, Message: fmt.Sprintf("the certificate request of %s is refused: %v", member, err)}
}

// applySettings persists the user's settings. That a restart is due is recorded before anything waits for one, so that an
// operator which restarts meanwhile neither forgets it nor restarts a server twice.
func (x *Execution) applySettings(ctx context.Context, m Member, a topology.ApplySettings) error {
	record := func(ctx context.Context, due int64, of string) error {
		return x.saveRecord(ctx, a.Member, func(rec *topology.MemberRecord) { rec.RestartDue, rec.RestartFor = due, of })
	}
	before, recorded := x.Records.Now().Members[a.Member], false
	restart, err := m.ApplySettings(ctx, a, func(ctx context.Context) error {
		recorded = true
		return record(ctx, topology.RestartDueAt(x.Clock.Now(), x.Observed.Members[a.Member].SQL.StartedAt), topology.RestartAlsoFor(before, a.Want))
	})
	if !errors.Is(err, mysql.ErrSettingRefused) {
		return err // a restart that was recorded stays so: of what was not answered nobody knows whether it counts
	}
	if recorded && !restart {
		if err := record(ctx, before.RestartDue, before.RestartFor); err != nil {
			return err
		}
	}
	return err
}
