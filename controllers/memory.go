package controllers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// memory is what the operator remembers between passes and may forget at any time: a restart only makes it look again.
type memory struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]*notes
	// policy is the administrator's as it could be read last, nil before; policyData is what it was read from.
	policy     *policy.Policy
	policyData map[string]string
	// releasing is held while a cluster lets go of what others may hold, too.
	releasing sync.Mutex
}

// notes are the remembered observations of one cluster. Passes over one cluster never overlap, so only the map that
// holds them is locked.
type notes struct {
	uid string
	// unstored are records that were lost in a namespace that is being deleted, where nothing can be stored again.
	unstored *topology.Records
	// hinderedSince is since when trouble has stood in the way of a deletion, in each pass.
	hinderedSince time.Time
	// detector is since when something has been wrong with members.
	detector topology.FailureDetector
	// sightings are the looks at mysqld, by instance, that no pass has taken yet.
	sightings map[string]*sighting
	// knocks are closed when an instance's port is no longer tried.
	knocks map[string]<-chan struct{}
	// announced is when each action was last told of.
	announced map[string]time.Time
	// purgedAt is when binary logs were last removed to make room.
	purgedAt time.Time
	// calls are the requests to EC2 that go on by themselves, or whose outcome no pass has taken yet, by what they are for.
	calls map[attempt]*call
	// fading is since when each Job of a schedule has had no pod but one that does not end.
	fading map[types.UID]time.Time
	// recoveryFades is since when the Job that restores has had no pod but one that does not end.
	recoveryFades time.Time
	// starts is what came of the starts of stopped machines, by instance.
	starts map[string]starts
	// tokens is what EC2's answers say about the client tokens of orders that were not carried out yet.
	tokens map[order]token
	// beforeRefused is the hash of a template of before of which EC2 took no order, and beforeRefusedAt when that was.
	beforeRefused   string
	beforeRefusedAt time.Time
	// failingSince is since when the cluster has had no primary; zero while it has one.
	failingSince time.Time
	// writes is since when the cluster should have taken a write and did not.
	writes writes
	// timeline is what is known of the present failure of a primary, or of the switchover under way.
	timeline timeline
	// authority is the cluster's own as it was read last.
	authority *pki.Authority
	// issued is a certificate of the operator's that could not be stored, and is used until it can.
	issued *mysql.Identity
	// identity is what members were shown last.
	identity mysql.Identity
	// uncoveredTold is the uncovered time that status was told last; a cache may not show it yet.
	uncoveredTold string
	// crashErrors are what unstable members logged before they crashed.
	crashErrors map[string]*crashError
	// shown is the primary that clients were shown last, and where; empty when that is not known.
	shown string
	// endpoints are the members that clients were shown last, and shownAt is when they were others before.
	endpoints []resources.Member
	shownAt   time.Time
	// inventory is what EC2 showed of the cluster last.
	inventory ec2.Inventory
	// recalled is true once members were looked after without a word of EC2, see recall.
	recalled bool
	// refused says in which zone EC2 has no capacity for a member, for what, and since when.
	refused map[string]refusal
	// stage is the last boot stage of each member's console, readAt when the console was read.
	stage  map[string]string
	readAt map[string]time.Time
	// consoles are what consoles were asked for and not taken yet, by instance and by what it is.
	consoles map[string]<-chan string
	// stoppingSince is when each instance was first seen stopping, or was told to stop again.
	stoppingSince map[string]time.Time
	// claimed are the instances whose writing session this process took.
	claimed map[string]bool
	// preflight is the specification that passed the preflight; preflightAt is when it was tried last.
	preflight        string
	preflightAt      time.Time
	preflightProblem *problem
	// preflightShortage is what the preflight found that is only told.
	preflightShortage *problem
	// tags are the operator's tags of each instance that is not terminated, as EC2 showed them.
	tags map[string]map[string]string
	// goneAt is when EC2 last said that a recorded volume does not exist, or that an instance is none of the cluster's any more.
	goneAt map[string]time.Time
	// expected are the settings that were applied to a member and not seen since; taken is what mysqld made of each.
	expected map[string]map[string]string
	taken    map[string]string
	// refusedSettings are the settings that each member's mysqld did not take, refusedPassword the password of the application's account.
	refusedSettings map[string]map[string]refusedSetting
	refusedPassword refusedPassword
	// ahead are the restarts that are due in the future, by member.
	ahead map[string]futureRestart
	// records are the newest records that this process wrote; written tells its writes from others'.
	records recordsMemo
	written ownWrites
	// backupAccount says for which primary, authority, subject and period the account of the backup pods was last seen right.
	backupAccount string
	// applied is what was applied to each child object, and the version that came of it.
	applied map[string]applied
	// kept is what became of a setting of a member that was put back and did not stay: it is not put back again.
	kept map[string]string
	// startErrors are what mysqld said when it did not start, of members that run without their persisted settings.
	startErrors map[string]string
	// failed are the attempts that failed when they were made last.
	failed map[attempt]failure
	// watched is true from the first pass on; watchedSince is when that was, zero when nothing had been made for the
	// cluster before.
	watched      bool
	watchedSince time.Time
	// doubtAt is when EC2 last did not say what came of a request.
	doubtAt time.Time
	// told is the status that events were last derived from.
	told *v1alpha1.MySQLClusterStatus
	// credentials are the user's, as read last, and when.
	credentials   credentials
	credentialsAt time.Time
	// bucketKeys says what of the Secret of the backups' destination is missing, as seen at bucketKeysAt.
	bucketKeys   string
	bucketKeysAt time.Time
	// orphansSought is true once it was seen that an archive that was switched off has left nothing behind.
	orphansSought bool
	// archiveEnding is true while the archive's pod of a cluster that goes is waited for.
	archiveEnding bool
}

// refusal is a zone without capacity: for a volume, or for a machine; since when, and when EC2 said so last.
type refusal struct {
	zone, code  string
	since, last time.Time
}

// show remembers which members clients are shown. What an operator shows first is nothing new to them, for all that it knows.
func (n *notes) show(members []resources.Member, now time.Time) {
	if n.endpoints != nil && !slices.Equal(n.endpoints, members) {
		n.shownAt = now
	}
	n.endpoints = members
}

type applied struct{ hash, resourceVersion string }

func newMemory() *memory {
	return &memory{clusters: map[types.NamespacedName]*notes{}}
}

// of returns the notes of a cluster; those of an older object of the same name are dropped.
func (m *memory) of(name types.NamespacedName, uid string) *notes {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.clusters[name]
	if n == nil || n.uid != uid {
		n = &notes{
			uid: uid, announced: map[string]time.Time{}, sightings: map[string]*sighting{}, knocks: map[string]<-chan struct{}{}, calls: map[attempt]*call{}, tokens: map[order]token{}, starts: map[string]starts{},
			refused: map[string]refusal{}, claimed: map[string]bool{}, goneAt: map[string]time.Time{}, tags: map[string]map[string]string{}, expected: map[string]map[string]string{}, refusedSettings: map[string]map[string]refusedSetting{}, ahead: map[string]futureRestart{}, taken: map[string]string{}, failed: map[attempt]failure{}, kept: map[string]string{}, startErrors: map[string]string{}, crashErrors: map[string]*crashError{},
			stage: map[string]string{}, readAt: map[string]time.Time{}, consoles: map[string]<-chan string{}, stoppingSince: map[string]time.Time{}, applied: map[string]applied{},
		}
		m.clusters[name] = n
	}
	return n
}

// known returns the notes of a cluster, nil when there are none.
func (m *memory) known(name types.NamespacedName) *notes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// expect notes what was applied to a member; several members are served at the same time.
func (m *memory) expect(n *notes, member string, settings map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n.expected[member] = maps.Clone(settings)
}

// putBack notes the values that variables of a member were put back to.
func (m *memory) putBack(n *notes, member string, settings map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, value := range settings {
		n.kept[member+" "+name] = value + "\x00"
	}
}

// drop forgets a cluster and returns the UID that it had.
func (m *memory) drop(name types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.clusters[name]
	delete(m.clusters, name)
	if n == nil {
		return ""
	}
	return n.uid
}

// readPolicy reads the administrator's policy, and remembers the last that could be read: a thousand clusters ask for the same.
func (m *memory) readPolicy(data map[string]string) (policy.Policy, error) {
	m.mu.Lock()
	last := m.policy
	if last != nil && !maps.Equal(m.policyData, data) {
		last = nil
	}
	m.mu.Unlock()
	if last != nil {
		return *last, nil
	}
	p, err := policy.Parse(data)
	if err == nil {
		m.mu.Lock()
		m.policy, m.policyData = &p, maps.Clone(data)
		m.mu.Unlock()
	}
	return p, err
}

// lastPolicy is the administrator's policy as it could be read last, and whether it ever could.
func (m *memory) lastPolicy() (policy.Policy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil {
		return policy.Policy{}, false
	}
	return *m.policy, true
}

// forget lets go of everything held for a cluster that no longer exists.
func (r *MySQLClusterReconciler) forget(name types.NamespacedName) {
	if uid := r.memory.drop(name); uid != "" {
		r.Prober.Forget(uid)
		r.Metrics.forget(name)
	}
}

// NameOf returns the name of the cluster with a UID, or nothing when it is not known.
func (r *MySQLClusterReconciler) NameOf(uid string) types.NamespacedName {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	for name, n := range r.memory.clusters {
		if n.uid == uid {
			return name
		}
	}
	return types.NamespacedName{}
}

// newsAfter is how long an action that is taken again and again is told of only once.
const newsAfter = 30 * time.Second

// news says whether an action is to be told of, and notes that it was. Several members are served at the same time.
func (m *memory) news(n *notes, action string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for told, at := range n.announced {
		if now.Sub(at) > newsAfter {
			delete(n.announced, told)
		}
	}
	if _, told := n.announced[action]; told {
		return false
	}
	n.announced[action] = now
	return true
}
