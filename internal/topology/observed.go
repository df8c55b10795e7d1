package topology

import (
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Observed is everything that a pass saw, read once, before anything is decided.
type Observed struct {
	// Now is when the last of it was seen.
	Now time.Time
	// CloudReachable is false when EC2's API gave no answer: then what it said last is used, and nothing is created.
	CloudReachable bool
	// CloudTaken is when EC2's side was read last as a whole; an instance may have been looked at since, see Instance.AnsweredAt.
	CloudTaken time.Time
	// WatchedSince is when this operator began to look at the cluster; zero when it has from the beginning on. What another
	// one made shortly before may not be shown yet.
	WatchedSince time.Time
	// UncoveredReported are the members of whose uncovered times status reports one, with its Since.
	UncoveredReported map[string]int64
	// DoubtAt is when this operator last asked EC2 to make something and was not told what came of it; zero when it always
	// was.
	DoubtAt time.Time
	// ShownAt is when clients were last shown other members than before; zero while that is not known. Shown is the primary that
	// they are shown; empty while that is not known.
	ShownAt time.Time
	Shown   string
	// Records is the content of the cluster's members ConfigMap.
	Records ClusterRecord
	// WriterID names the operator's process that decides, unlike any other that ever did; empty when there can be no other.
	WriterID string
	// SecurityGroup is the id of the operator's own security group for this cluster, empty while there is none.
	SecurityGroup string
	// Strangers counts the instances and volumes that carry the cluster's UID but no member's name.
	Strangers int
	// Snapshots are the EBS snapshots that carry the cluster's UID.
	Snapshots SnapshotList
	// Source is what a cluster is to begin with that is yet to be given it.
	Source Source
	// Members are the members that the spec wants or of which EC2 shows something, by name.
	Members map[string]*Member
	Permitted
	// DatabaseReady is true once the application database and its owner are as the spec wants them.
	DatabaseReady bool
	// InService names the replicas that are published as ready at the moment.
	InService map[string]bool
	// Exposure says whether commits may be answered without the acknowledgements of voters; CommitHistory sets it.
	Exposure Exposure
}

// Permitted says what may be done in EC2.
type Permitted struct {
	// Launchable is false while the preflight has not passed: then no volume is made and no instance launched.
	Launchable bool
	// LaunchProblem is what the preflight found, and SubnetsProblem why Desired.Subnets are not known, for people; empty while nothing
	// is known.
	LaunchProblem, SubnetsProblem string
	Rehearsal                     Rehearsal
}

// SnapshotList is what is known of a cluster's snapshots. EC2 may not answer their list for long: one that is missing here counts as
// gone only when Taken is late enough.
type SnapshotList struct {
	// Known are those that EC2 listed last, and those that the operator has made or looked at since.
	Known []Snapshot
	// Taken is when EC2 answered the list last; zero while it has not.
	Taken time.Time
	// Unanswered says why EC2 does not answer it at the moment; empty while it does.
	Unanswered string
}

// Member is what was seen of one member.
type Member struct {
	Name    string
	Ordinal int
	// Instances are all instances that carry this member's tag, the terminated ones that EC2 still shows included.
	Instances []Instance
	Delays
	// RecordedVolume is the volume that carries the member's data according to the records; empty while none does.
	RecordedVolume string
	// Volumes are all volumes that carry this member's tag and are not retired.
	Volumes []Volume
	// SQL is what mysqld answered.
	SQL SQL
	Claims
	// SilentSince is when the member was first seen unreachable in a row of such observations; zero when it answers.
	SilentSince time.Time
	// DownSince is when a member was first seen not to answer over verified TLS, in a row of such observations, whether its
	// instance runs or not; zero when it answers.
	DownSince time.Time
	// StalledSince is when commits were first seen to wait of which none was answered since; zero when none waits.
	StalledSince time.Time
	// BrokenSince is when replication was first seen stopped by an error in a row of such observations, while there is a primary; zero
	// when it is not.
	BrokenSince time.Time
	// Unstable is since when it has crashed repeatedly; zero while it is stable. See CrashHistory.
	Unstable Instability
	// CrashError is the last error that mysqld logged before it crashed; empty while that is not known.
	CrashError string
	// StartError is what mysqld said when it did not start last, while the operator ran; empty when that was not seen.
	StartError string
	// Boot is how far the instance came by its console; zero while mysqld answers.
	Boot Boot
	Refusals
}

// Claims are what a member counts as executed although it never got it. CommitHistory sets them.
type Claims struct {
	// Claimed are the GTIDs of these transactions.
	Claimed gtid.Set
	// SeenClone identifies the member's last CLONE when it was reached last.
	SeenClone string
}

// Refusals are what EC2 refuses of a member.
type Refusals struct {
	// ModificationRefused is what EC2 said while it does not take the change of the member's volume that the spec asks for; empty
	// when it did not refuse it.
	ModificationRefused string
	// CapacityRefused is the zone in which EC2 has had no room for the member since CapacityRefusedAt: no capacity, or no free address
	// in any subnet; empty when it refused nothing.
	CapacityRefused   string
	CapacityRefusedAt time.Time
}

// Delays are what of a member EC2 does not show, or does not bring to an end.
type Delays struct {
	// VolumeMissingSince is when EC2 was first seen not to know the recorded volume, in a row of such answers; zero when it
	// does, or was not asked.
	VolumeMissingSince time.Time
	// PendingVolumeMissingSince is when EC2 was first seen not to know the volume that it was making according to the records, in a row of such
	// answers; zero when it does, or was not asked.
	PendingVolumeMissingSince time.Time
	// Asked is when its mysqld was asked that answered last: what it said may be as old.
	Asked time.Time
	// Transition says what EC2 has been doing since TransitionSince that usually takes seconds; empty for nothing.
	Transition      string
	TransitionSince time.Time
}

// Volume is one EBS volume of a member.
type Volume struct {
	ID          string
	Incarnation int
	State       string
	Zone        string
	AttachedTo  string
	AttachState string
	SizeGiB     int32
	// Opened is the newest version of MySQL that may have opened it, as its tag says; empty while that is not noted.
	Opened string
	// Type, IOPS and Throughput are as EC2 shows them; empty or 0 while it does not.
	Type             string
	IOPS, Throughput int32
	// Foreign is true while the volume, made from a snapshot, holds another cluster's identity: what it says of voters is
	// said of that one's.
	Foreign bool
}

// Source is what a recovery is made from, as far as it can be found.
type Source struct {
	// Copied is true when the cluster begins with a copy of a volume, and false for a dump.
	Copied bool
	// SnapshotID is the snapshot that the copy is made from, whole and allowed; empty while there is none.
	SnapshotID string
	// VolumeID is a volume of which a snapshot has to be taken before; empty for none.
	VolumeID string
	// Archive is where the binary logs are that lead on from the copy to the point in time that is asked for; nil for none.
	Archive *v1alpha1.ArchiveSource
	// Why says what stands in the way; its reason is empty when nothing does. Final says that only a person can change it.
	Why   Finding
	Final bool
}

// Snapshot is one EBS snapshot of this cluster.
type Snapshot struct {
	ID, Member, VolumeID, State, Progress string
	// Purpose tells the snapshots that the operator took from those of others, and one deletion's from another's.
	Purpose string
	// StartedAt is when it was begun.
	StartedAt time.Time
}

// EC2's names for the states that decisions depend on.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateStopping     = "stopping"
	stateStopped      = "stopped"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"

	volumeCreating  = "creating"
	volumeAvailable = "available"
	volumeInUse     = "in-use"
	volumeDeleting  = "deleting"
	volumeDeleted   = "deleted"
	volumeError     = "error"

	attachAttached = "attached"

	snapshotCompleted = "completed"
	snapshotError     = "error"
)

func (v Volume) gone() bool {
	return v.State == volumeDeleting || v.State == volumeDeleted
}

type (
	// Access is how far the operator gets into a member.
	Access = mysql.Access
	// Start is a start of mysqld.
	Start = mysql.Start
	// SemiSync is what a member's semi-synchronous replication does.
	SemiSync = mysql.SemiSync
	// Stranger is a replica that is no member.
	Stranger = mysql.Stranger
)

const (
	// AccessNone: nobody tried, there is no address yet.
	AccessNone       Access = ""
	AccessSilent            = mysql.AccessSilent
	AccessRefused           = mysql.AccessRefused
	AccessUnverified        = mysql.AccessUnverified
	AccessDenied            = mysql.AccessDenied
	AccessVerified          = mysql.AccessVerified

	ioOn         = mysql.IOOn
	ioConnecting = mysql.IOConnecting
	ioOff        = mysql.IOOff

	cloneInProgress  = mysql.CloneInProgress
	cloneCompleted   = mysql.CloneCompleted
	cloneFailed      = mysql.CloneFailed
	cloneInterrupted = mysql.CloneInterrupted
	cloneUnread      = mysql.CloneUnread
)

// SQL is what a member's mysqld said of itself.
type SQL struct {
	Access Access
	// Reason says why Access is not Verified.
	Reason     string
	Version    string
	ServerUUID string
	Start
	Writable bool
	Executed gtid.Set
	Purged   gtid.Set
	// Replication is nil when no source is configured.
	Replication *Replication
	SemiSync    SemiSync
	// Membership is the row of nairobi_mysql.membership, nil when there is none. Its absence means something only
	// when MembershipKnown is true.
	Membership      *Membership
	MembershipKnown bool
	Variables
	// Clone is the last CLONE operation of this server, nil when it never was a recipient.
	Clone *Clone
	// Disk is how full the data volume's file system is, nil while unknown.
	Disk *Disk
	// ClockSkew is how far the member's clock is ahead of the operator's, negative when behind; 0 while unknown.
	ClockSkew time.Duration
	// PendingCommits counts the sessions that wait for a replica's acknowledgement.
	PendingCommits int
	// Waiting are the transactions that wait for acknowledgements: in the binary log, and not in Executed.
	Waiting gtid.Set
	// Connections counts the clients of the server, MaxConnections is how many it takes; 0 while unknown.
	Connections, MaxConnections int
	// Answered counts the commits that got their acknowledgements since mysqld started.
	Answered int
	// CertificateRenewalDue is true when the member's certificate has less than a third of its life left.
	CertificateRenewalDue bool
	// CertificateIssuedAt is when it was signed, to the second.
	CertificateIssuedAt time.Time
}

// Variables is how the variables of a mysqld differ from what they should be.
type Variables struct {
	// Drifted are the variables, pinned or of the spec, that were changed on the running server, with the value that they
	// should have.
	Drifted map[string]string
	// Misconfigured are the variables that a vote rests on and that only a start of mysqld sets, where they are not as they
	// must be, with the value that they have; also those of semi-sync, as empty, where its plug-in is gone.
	Misconfigured map[string]string
	// Persisted are the variables that were set by SET PERSIST or SET PERSIST_ONLY.
	Persisted map[string]string
	// RelaySync is sync_relay_log: after how many events the relay log is synced, 1 or 10000 (relayUnsynced); empty while unknown.
	RelaySync string
	// PartialRevokes is true where privileges name databases literally.
	PartialRevokes bool
	// PersistedIgnored is true when mysqld was started without what is persisted, as the instance does after two starts that
	// failed.
	PersistedIgnored bool
	// RestartPending is true when a persisted value waits for a restart to take effect.
	RestartPending bool
	// Refused are the settings of the spec that this mysqld did not take a short while ago, by name. They are not tried again yet.
	Refused map[string]RefusedSetting
}

// RefusedSetting is a value that mysqld did not take, and what it said.
type RefusedSetting struct {
	Value, Why string
	// Awaited: the member's next instance has room for the value, so nobody has to do anything.
	Awaited bool
}

// Disk is a file system as its instance reports it.
type Disk struct {
	SizeBytes, FreeBytes uint64
}

// Applier is how fast a replica applies what it receives.
type Applier struct {
	// Backlog is how many transactions it has received and not applied.
	Backlog uint64
	// Receives and Applies are transactions a second since the observation before; 0 while unknown.
	Receives, Applies float64
	// GrowsSince is since when the backlog has grown without a break; zero when it does not.
	GrowsSince time.Time
}

// Replication is the state of a member's channel to its source.
type Replication struct {
	SourceHost string
	IOState    string // ON, CONNECTING or OFF
	mysql.SourceRefusal
	SQLRunning bool
	Retrieved  gtid.Set
	// ReceiverError is the error that stopped the receiver (IO) thread, ApplierError the one that stopped the applier (SQL)
	// thread; empty for a thread that runs or that STOP REPLICA stopped. A lost connection stops no receiver, see StopErrors.
	ReceiverError, ApplierError string
	mysql.Tampering
	Omissions
	// RelayLogMissing is true when the applier did not start because the relay log that its metadata name is missing, as after a loss of
	// power right after a rotation. Starting it again is of no use, nor is another source.
	RelayLogMissing bool
	// SourceSilence is how long ago the last heartbeat or transaction came from the source, by the replica's own clock;
	// negative while none ever came.
	SourceSilence time.Duration
	// UpToDate is true for a replica that holds, received at least, what the primary had executed a moment before. CommitHistory sets
	// it and what follows.
	UpToDate bool
	// LateSince is since when a replica has not been prompt; zero while it is, and while that is not known.
	LateSince time.Time
	Backlog
	// Own is what its binary log shows of its errant transactions.
	Own OwnTransactions
}

// Backlog is what a replica has still to receive, and to apply.
type Backlog struct {
	// Lag is how far the applier is behind; meaningless unless LagKnown.
	Lag      time.Duration
	LagKnown bool
	// Missing is how many transactions it lacks, CatchUp how long receiving them takes at the present rate; 0 while unknown.
	Missing uint64
	CatchUp time.Duration
	// Applier is how fast it applies what it has received.
	Applier Applier
}

// Clone is the progress of a CLONE.
type Clone struct {
	State   string // Not Started, In Progress, Completed, Failed, Interrupted
	Message string
	// Source is the donor's address, host:port.
	Source string
	// Began is when it began, as the server says: it tells one CLONE from another.
	Began string
}

// verified says whether mysqld answers over verified TLS.
func (m *Member) verified() bool { return m.SQL.Access == AccessVerified }

// position is everything that a member holds: what it executed and what lies in its relay log.
func (m *Member) position() gtid.Set {
	if m.SQL.Replication == nil {
		return m.SQL.Executed
	}
	return m.SQL.Executed.Union(m.SQL.Replication.Retrieved)
}

// following says whether both threads of a replica run.
func (m *Member) following() bool {
	r := m.SQL.Replication
	return m.verified() && r != nil && r.IOState == ioOn && r.SQLRunning && !m.cloning()
}

// broken reports whether an error stopped a thread of a replica that answers.
func (m *Member) broken() bool { return m.verified() && m.SQL.Replication.Broken() }

// downFor is for how long a member has not been reached; 0 while it is.
func (m *Member) downFor(now time.Time) time.Duration {
	if m.DownSince.IsZero() {
		return 0
	}
	return now.Sub(m.DownSince)
}

// running says whether EC2 calls an instance of the member running.
func (m *Member) running() bool {
	return slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.State == stateRunning })
}

// volume returns the member's volume: the recorded one, and only that, once it carries data; until then the newest one
// that is not on its way out. A copy that carries the member's tags is not the member's volume: of those that the tags call the
// same, the one that an instance of the member has is the original.
func (m *Member) volume() *Volume {
	var best *Volume
	for i := range m.Volumes {
		v := &m.Volumes[i]
		if m.RecordedVolume != "" && v.ID != m.RecordedVolume {
			continue
		}
		if !v.gone() && (best == nil || v.Incarnation > best.Incarnation || v.Incarnation == best.Incarnation && m.holds(v) && !m.holds(best)) {
			best = v
		}
	}
	return best
}

// VolumeIncarnation is that of the member's volume, from 1 on; 0 when EC2 shows none, or its tag is lost.
func (m *Member) VolumeIncarnation() int {
	if v := m.volume(); v != nil {
		return v.Incarnation
	}
	return 0
}

// holds says whether a volume is attached to an instance of the member that is not on its way out.
func (m *Member) holds(v *Volume) bool {
	return v.AttachedTo != "" && slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.ID == v.AttachedTo && !in.gone() })
}

// CurrentInstance returns the member's instance: the one that its volume is attached to, else the newest that is not
// on its way out. A single attachment is what keeps two instances from being the same member.
func (m *Member) CurrentInstance() *Instance {
	v := m.volume()
	var best *Instance
	for i := range m.Instances {
		in := &m.Instances[i]
		if in.gone() {
			continue
		}
		if v != nil && v.AttachedTo == in.ID {
			return in
		}
		if best == nil || in.Incarnation > best.Incarnation {
			best = in
		}
	}
	return best
}

// ordered returns the members by ordinal.
func (o Observed) ordered() []*Member {
	all := make([]*Member, 0, len(o.Members))
	for _, m := range o.Members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Member) int { return a.Ordinal - b.Ordinal })
	return all
}
