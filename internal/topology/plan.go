package topology

import (
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// How long to wait for what, when no watch tells.
const (
	// waitNext is the pause after something was done: long enough to be no busy loop, short enough not to be felt.
	waitNext = 50 * time.Millisecond
	// waitMySQL is the pause while mysqld comes up on a member, clones or catches up.
	waitMySQL = time.Second
	// waitEC2 is the pause while EC2 works.
	waitEC2 = 5 * time.Second
	// waitReady is the pause when nothing is left to do.
	waitReady = 30 * time.Second

	// eagerEC2 is how long after a launch EC2 is asked every second: most instances are running by then, and
	// fifteen describes cost nothing of a bucket that refills by twenty a second.
	eagerEC2 = 15 * time.Second
	// eagerStop is how long an instance that stops is looked at every second, so that it is started again without delay.
	eagerStop = time.Minute
	// silenceAllowed is how long a member that EC2 calls healthy may say nothing on its port before it is reported.
	silenceAllowed = 3 * time.Minute
	// bootAllowed is how long an instance may take for its first boot while its console shows progress: the download of MySQL, packages and
	// a new data directory take a small instance several minutes.
	bootAllowed = 15 * time.Minute
	// waitSuspect is the pause while a primary is suspected to be gone: short, because writes wait.
	waitSuspect = 250 * time.Millisecond
	// restartPatience is how long a member that has joined may be away and still count as Replicating: a restart after a
	// CLONE or a crash, not an instance that has to boot.
	restartPatience = 30 * time.Second
	// returnPatience is how long a primary whose instance answers and whose mysqld does not is waited for before somebody is
	// promoted without it: the start of a mysqld and its crash recovery on a small log.
	returnPatience = 10 * time.Second
	// silencePatience is the same for a primary whose instance does not answer at all.
	silencePatience = 1250 * time.Millisecond
	// sourceFresh is how old the last sign of life of a source may be at a replica that still counts as a witness for it:
	// sources send a heartbeat every second.
	sourceFresh = 2 * time.Second
	// stallPatience is how long commits may wait although enough voters acknowledge, before something newer is given to them.
	stallPatience = time.Second
	// strangerPatience is how long commits may wait for a replica that is no member before it is disconnected.
	strangerPatience = 3 * time.Second
	// waitingPatience is how long commits may wait before a person is told, with names.
	waitingPatience = 10 * time.Second
	// votePatience is how long a voter may be behind in receiving before it loses its vote, if others acknowledge.
	votePatience = time.Minute
	// bridgePatience is how long commits may wait before the primary goes on alone until another replica, which receives already,
	// can take a vote: as long as a mysqld is given to return.
	bridgePatience = returnPatience
	// witnessPatience is how long a primary that does not answer the operator is left alone because a replica still
	// receives from it.
	witnessPatience = 20 * time.Second
	// lastVotePatience is how long the last replica may be down before the primary goes on alone; writes wait meanwhile.
	lastVotePatience = time.Minute
	// lateAnswers is how old EC2's word about an instance may be. One that answered since may run although EC2 calls it stopped.
	lateAnswers = 30 * time.Second
	// brokenPatience is how long replication that stopped with an error is tried to be started again before the member is
	// rebuilt.
	brokenPatience = time.Minute
	// cyclePatience is how long an instance that EC2 calls running may be silent before it is stopped and started, and
	// cyclePause how long it has to boot before that.
	cyclePatience = time.Minute
	cyclePause    = 5 * time.Minute
	// impairedPatience is how long EC2's status checks may call a silent instance impaired before it is stopped and started.
	impairedPatience = 3 * time.Minute
	// volumePatience is how long EC2 has to deny a volume with data before it is believed to be lost: longer than any
	// answer of EC2's is known to be late.
	volumePatience = 2 * time.Minute
	// volumeRetryPause is how long after a volume that EC2 could not make the next one is asked for: a person has to change something.
	volumeRetryPause = 5 * time.Minute
	// quarantine is how long the snapshot of a rebuilt member is kept.
	quarantine = 7 * 24 * time.Hour
	// zoneLossTimeout is how long a zone may refuse capacity before a member with data is seeded anew in another.
	zoneLossTimeout = 15 * time.Minute
	// announcedSoon is how long before a disruption that EC2 announced a primary hands over.
	announcedSoon = 24 * time.Hour
	// purgePause is the pause between two attempts to make room on a primary's disk.
	purgePause = time.Minute
	// snapshotPause is how long after a snapshot that failed the next one is tried.
	snapshotPause = 5 * time.Minute
	// renewalPause is how long a renewed certificate may take to be presented before it is renewed again.
	renewalPause = time.Minute
	// transitionPatience is how long EC2 may take for a launch, or for an attachment or detachment, until that is reported.
	transitionPatience = 5 * time.Minute
	// endsAllowed is how many instances of a member may end by themselves within an hour until the next one is launched after a pause only,
	// which begins with relaunchPause and grows to endsPauseMax.
	endsAllowed  = 3
	endsPauseMax = 10 * time.Minute
	// relaunchPause is how long after a launch that ended at once the next one is tried.
	relaunchPause = time.Minute
	// capacityPatience is how long a zone may refuse capacity before a member without data moves to another.
	capacityPatience = time.Minute
)

// Plan is what a pass decided.
type Plan struct {
	// Phase is the least advanced of the members' phases.
	Phase v1alpha1.Phase
	// Primary is the member that takes writes, empty when there is none.
	Primary string
	// Membership is the newest membership row that was seen, nil when there is none.
	Membership *Membership
	// Members are the wanted members and those that are on their way out, by ordinal.
	Members []View
	// Records are to be saved, when they differ from what was observed, before any action is taken.
	Records ClusterRecord
	// Actions are what to do now. Those of different members may run side by side; those of one member run in order.
	Actions []Action
	// Degraded is what a person should know, most important first.
	Degraded []Finding
	// Waiting says what the cluster waits for, in words; empty when nothing is left to do.
	Waiting Finding
	// Rolling says what is being changed on members that run, because a person changed the spec or asked for it, and what
	// that waits for; empty when nothing is.
	Rolling Finding
	// Rollout says how far a change that goes from member to member has got: the first of Rollouts that has begun, or the first.
	Rollout  Rollout
	Rollouts []Rollout
	// Failing is true while the cluster has no primary although it had one and is not hibernating.
	Failing bool
	Answers Answers
	// Quarantined counts the snapshots of rebuilt members.
	Quarantined int
	// RequeueAfter is when to look again although nothing was heard.
	RequeueAfter time.Duration
	Removal
}

// Removal is how far the removal of a cluster's instances has got, for good or for a hibernation.
type Removal struct {
	// Hibernating is true from when the cluster goes into hibernation, and clients are led nowhere, until it wakes. It is false while a primary
	// has to lead first.
	Hibernating bool
	// Gone is true when a deletion is finished: EC2 shows nothing of this cluster that the policy does not keep.
	Gone bool
}

// Answers are what became of Requests.
type Answers struct {
	Switchover, Rebuild, AcceptLoss Answer
}

// Answer is what became of a request: what was done, or why it is refused. Both are empty while it is open. An answered one is taken back.
type Answer struct {
	Done, Refused string
}

// Given says whether a request is answered.
func (a Answer) Given() bool { return a != Answer{} }

func refused(format string, args ...any) Answer { return Answer{Refused: fmt.Sprintf(format, args...)} }

// View is a member as people see it.
type View struct {
	Name  string
	Phase v1alpha1.Phase
	Role  v1alpha1.Role
	Voter bool
	// Step is what the member waits for.
	Step Step
	// InService is true when the member may serve reads (a replica) or writes (the primary).
	InService bool
	// Lag is how far a replica is behind; meaningless unless LagKnown.
	Lag      time.Duration
	LagKnown bool
	// Disk is how full the data volume is, nil while that is unknown.
	Disk *Disk
	// InstanceID, VolumeID, Zone, Address and Version are empty while unknown.
	InstanceID, VolumeID, Zone, Address, Version string
}

// Finding is a reason constant of api/v1alpha1 with its message.
type Finding struct {
	Reason, Message string
}
