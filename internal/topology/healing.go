package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// healing brings members back: it powers silent instances off and on, and rebuilds what is broken.
type healing struct {
	*pass
	acks      *acks
	soundness *soundness
}

// quarantinePrefix begins the purpose of the snapshots that are taken of a member before it is rebuilt.
const quarantinePrefix = "quarantine-"

// snapshotFor returns the snapshot that was taken of a volume for a purpose, nil for none. One that failed is none.
func (o Observed) snapshotFor(volumeID, purpose string) *Snapshot {
	i := slices.IndexFunc(o.Snapshots.Known, func(s Snapshot) bool {
		return s.VolumeID == volumeID && s.Purpose == purpose && s.State != snapshotError
	})
	if i < 0 {
		return nil
	}
	return &o.Snapshots.Known[i]
}

// afterFailed returns what is waited for when EC2 could not complete a snapshot of a volume for a purpose, or "". The next one is
// taken after a pause; the one that failed holds nothing, and is deleted then.
func (p *healing) afterFailed(m *Member, volumeID, purpose string) Step {
	for _, s := range p.Snapshots.Known {
		switch {
		case s.VolumeID != volumeID || s.Purpose != purpose || s.State != snapshotError:
		case p.Now.Sub(s.StartedAt) < snapshotPause:
			p.waitAtMost(waitEC2)
			p.degraded(v1alpha1.ReasonSnapshotFailed, fmt.Sprintf("%s: EC2 could not complete snapshot %s of volume %s; retrying in a few minutes", m.Name, s.ID, volumeID))
			return waits(fmt.Sprintf("snapshot %s failed; retrying in a few minutes", s.ID))
		default:
			p.retry(waitEC2, DeleteSnapshot{m.Name, s.ID})
		}
	}
	return Step{}
}

// expireQuarantine deletes the snapshots of members that were rebuilt or upgraded, once they were kept long enough.
func (p *healing) expireQuarantine() {
	for _, s := range p.Snapshots.Known {
		switch {
		case strings.HasPrefix(s.Purpose, quarantinePrefix):
			p.plan.Quarantined++
		case !strings.HasPrefix(s.Purpose, upgradePrefix):
			continue
		}
		if p.CloudReachable && !s.StartedAt.IsZero() && p.Now.Sub(s.StartedAt) > quarantine {
			p.retry(waitReady, DeleteSnapshot{s.Member, s.ID})
		}
	}
}

// cycle stops an instance that EC2 calls running but that does not answer; what is stopped is started again. None soon after its start,
// and one of a cluster at a time unless writes stand still without it.
func (p *healing) cycle(m *Member) {
	if m == nil || !p.CloudReachable || m.DownSince.IsZero() {
		return
	}
	in := m.CurrentInstance()
	if in == nil || in.State != stateRunning {
		return
	}
	missed := p.missed(m)
	patience, hangs := p.hangsAfter(m, in, missed)
	if !hangs || p.othersForbidCycle(m, missed) || p.Now.Sub(m.DownSince) < patience || in.sincePowerUp(p.Now) < cyclePause {
		return
	}
	p.degraded(v1alpha1.ReasonMemberUnreachable, fmt.Sprintf("%s: instance %s runs but does not answer; stopping and starting it", m.Name, in.ID))
	p.stop(m, in)
}

// hangsAfter returns how long a member may give no answer until its instance is taken for one that hangs, and whether it is at all. A mysqld
// that turns the operator away answers: it may serve its clients, who took every connection that it has. One that is down, or never was up,
// people should see, unless writes stand still without it. Its port refuses also during a crash recovery, which a power cut makes begin again:
// that is worth it only to show a primary that the member acknowledges nothing.
func (p *healing) hangsAfter(m *Member, in *Instance, missed bool) (patience time.Duration, hangs bool) {
	joined := p.Records.Members[m.Name].SignedInstance == in.ID
	switch {
	case m.SQL.Access == AccessDenied:
		return 0, false
	case joined && m.SQL.Access != AccessRefused:
		return cyclePatience, true
	case !joined && in.sincePowerUp(p.Now) < bootAllowed:
		return 0, false
	case m.SQL.Access == AccessRefused && p.plan.Primary == "":
		return 0, false
	}
	return silenceAllowed, missed && p.deafTo(m) // if somebody receives from it, it is the operator that is turned away
}

// missed says whether writes stand still for want of a voter: nobody takes them, or they have waited for its acknowledgement.
func (p *healing) missed(m *Member) bool {
	primary, row := p.Members[p.plan.Primary], p.newestMembership()
	switch {
	case row == nil || !row.Has(m.Name):
		return false
	case primary == nil:
		return true
	}
	return p.Lossless && primary.SQL.SemiSync.Waits() && p.stalledFor(primary, waitingPatience)
}

// othersForbidCycle says whether an instance is not stopped because others of the cluster are off. One that changes its state is waited
// for, unless it has not answered for long. One that stays off forbids it, unless writes stand still without this one: while another takes them or may, what this one holds
// in memory alone is not needed.
func (p *healing) othersForbidCycle(m *Member, missed bool) bool {
	for _, other := range p.Members {
		o := other.CurrentInstance()
		if other == m || o == nil {
			continue
		}
		moving := o.State == stateStopping || o.State == statePending
		if moving && other.downFor(p.Now) < transitionPatience || (moving || o.State == stateStopped) && (!missed || !p.dispensable(m)) {
			return true
		}
	}
	return false
}

// dispensable says whether a voter may lose its memory: somebody takes writes, it led last and wrote all of it to its disk, or it
// acknowledges from disk. That it led last is known by the row and by the records: those who show the row may not have received a newer one.
func (p *healing) dispensable(m *Member) bool {
	row := p.newestMembership()
	return p.plan.Primary != "" || m.Name == row.Primary && p.plan.Records.ledLast(m.Name) || row.Memory[m.Name] == ""
}

// heal stops instances that hang or that EC2 calls impaired, so that they are started again, perhaps on other hardware.
// Without EC2's word for it only while a primary answers: an operator that reaches nobody must not power off what may
// well serve.
func (p *healing) heal() {
	for _, m := range p.ordered() {
		in := m.CurrentInstance()
		if in == nil || m.verified() || p.busy(m.Name) {
			continue
		}
		if in.Impaired && in.State == stateRunning && !m.DownSince.IsZero() && p.Now.Sub(m.DownSince) > impairedPatience && in.sincePowerUp(p.Now) > cyclePause && p.CloudReachable {
			p.stop(m, in)
			continue
		}
		if p.plan.Primary != "" {
			p.cycle(m)
		}
	}
}

// reportGaps says which members have a gap.
func (p *healing) reportGaps() {
	for _, m := range p.ordered() {
		switch gap := p.plan.Records.gap(m); {
		case !gap.found() && p.plan.Primary == "" && p.plan.Records.mayLack(m):
			p.degraded(v1alpha1.ReasonMemberUntrusted, m.Name+" is not promoted yet: its binary log is read for whether it applied a transaction at which its applier had stopped")
		case !gap.found():
		case m.Name == p.plan.Primary:
			p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s, the primary, left out or changed what it received when it was a replica: %s. Compare its data with a backup; members that were rebuilt since then have the same data", m.Name, gap.Why))
		default:
			p.degraded(v1alpha1.ReasonMemberUntrusted, fmt.Sprintf("%s left out or changed what it received: %s. Its volume is kept as a snapshot for 7 days and the member is rebuilt; until then it is not promoted, and no backup is taken of it", m.Name, gap.Why))
		}
	}
}

// watch reports what is not broken yet: settings that do not last, disks that fill up, clocks that differ, disruptions that
// EC2 announced.
func (p *healing) watch() {
	p.soundness.reportUnsound()
	p.reportGaps()
	p.reportCrashing()
	p.reportAway()
	if primary := p.Members[p.plan.Primary]; primary != nil && p.Lossless && primary.SQL.SemiSync.SourceEnabled && primary.SQL.PendingCommits > 0 {
		p.waitAtMost(waitMySQL)
		if p.stalledFor(primary, waitingPatience) {
			p.degraded(v1alpha1.ReasonAcknowledgementsMissing, p.acks.whyWritesWait(primary))
		}
	}
	for _, m := range p.ordered() {
		p.watchMember(m)
	}
}

// watchMember reports what is not broken yet of one member.
func (p *healing) watchMember(m *Member) {
	if d := m.SQL.Disk; d != nil && d.SizeBytes > 0 && d.FreeBytes < d.SizeBytes/100*15 {
		p.degraded(v1alpha1.ReasonDiskNearlyFull, fmt.Sprintf("%s: less than %d%% of its data volume is left; raise spec.storage.size, or delete data", m.Name, leftBelow(*d)))
		if m.Name == p.plan.Primary && !p.busy(m.Name) {
			p.retry(purgePause, PurgeBinaryLogs{m.Name})
		}
	}
	if skew := m.SQL.ClockSkew.Abs(); skew > 5*time.Second {
		p.degraded(v1alpha1.ReasonClockSkew, fmt.Sprintf("%s: its clock differs from the operator's by more than 5 seconds; time-outs, certificates and NOW() are wrong. Check that the instance reaches its time server", m.Name))
	}
	if in := m.CurrentInstance(); in != nil && in.Event != "" {
		p.degraded(v1alpha1.ReasonMaintenance, fmt.Sprintf("%s: EC2 announced %s of instance %s%s", m.Name, in.Event, in.ID, announcedFor(in.EventAt)))
	}
}

// leftBelow is what of a disk is free in percent, rounded up to the next multiple of five: how much it is to the byte, which
// changes with every look, is for metrics.
func leftBelow(d Disk) uint64 { return d.FreeBytes*100/d.SizeBytes/5*5 + 5 }

// announcedFor says for when something was announced, if EC2 said that.
func announcedFor(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " for " + at.UTC().Format(time.RFC3339)
}

// reportAway reports who stays away although its instance was stopped and started meanwhile: each start gives mysqld the time to answer,
// and starts the silence that is reported otherwise once more.
func (p *healing) reportAway() {
	for _, m := range p.ordered() {
		in := m.CurrentInstance()
		if in == nil || m.DownSince.IsZero() || p.Now.Sub(m.DownSince) < 2*silenceAllowed || p.Records.Members[m.Name].SignedInstance != in.ID || in.State == stateRunning && p.overdue(m) {
			continue
		}
		p.degraded(v1alpha1.ReasonMemberUnreachable, fmt.Sprintf("%s: mysqld has not answered since %s, whatever became of its instance %s, which EC2 calls %s", m.Name, m.DownSince.UTC().Format(time.TimeOnly), in.ID, in.State))
	}
}

// reportCrashing reports the unstable members, with what a person can do.
func (p *healing) reportCrashing() {
	for _, m := range p.ordered() {
		if !m.unstable() || m.Ordinal >= p.Replicas {
			continue
		}
		if m.Unstable.MySQLD {
			p.reportMySQLDCrashing(m)
			continue
		}
		advice := "Check its console output; stop and start it to move it to another host"
		if m.Name == p.plan.Primary && p.Replicas > 1 {
			advice = "Switch over to another member, then stop and start the instance to move it to another host"
		}
		p.degraded(v1alpha1.ReasonInstanceRestarting, fmt.Sprintf("the instance of %s has restarted repeatedly since %s. %s", m.Name, m.Unstable.Since.UTC().Format(time.TimeOnly), advice))
	}
}

// reportMySQLDCrashing reports a member whose mysqld crashes, with the error that it logged.
func (p *healing) reportMySQLDCrashing(m *Member) {
	what, why := "has crashed", ""
	if m.Unstable.Instance {
		what = "has crashed, and its instance has restarted,"
	}
	if m.CrashError != "" {
		why = ": " + m.CrashError
	}
	advice := fmt.Sprintf("Rebuild it with the annotation %s: %s, or replace its instance", v1alpha1.AnnotationRebuild, m.Name)
	switch {
	case p.Replicas == 1:
		advice = "Check its error log; if its data is damaged, restore the cluster from a backup"
	case m.Name == p.plan.Primary:
		advice = "Switch over to another member, then rebuild this one"
	}
	p.degraded(v1alpha1.ReasonMemberCrashing, fmt.Sprintf("mysqld of %s %s repeatedly since %s%s. %s", m.Name, what, m.Unstable.Since.UTC().Format(time.TimeOnly), why, advice))
}
