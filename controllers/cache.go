package controllers

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

// caches is what the operator remembers between passes and may forget at any time: a restart only makes it look again.
type caches struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]*clusterCache
	// policy is the administrator's as it could be read last, nil before; policyData is what it was read from.
	policy     *policy.Policy
	policyData map[string]string
	// releasing is held while a cluster lets go of what others may hold, too.
	releasing sync.Mutex
}

// clusterCache is what is remembered of one cluster. Passes over one cluster never overlap, so that only those parts have locks that
// actions of several members write, or requests that no pass waits for.
type clusterCache struct {
	uid       string
	records   recordsCache
	identity  identityCache
	cloud     cloudCache
	looks     lookCache
	preflight preflightCache
	requests  *engine.Requests
	settings  settingCache
	published publishedCache
	backups   backupCache
	told      toldCache
}

// recordsCache is what is known of the records.
type recordsCache struct {
	// memory are the newest records that this process wrote; written tells its writes from others'.
	memory  *engine.RecordMemory
	written ownWrites
}

// identityCache is whom members know the operator as, and whom EC2 does.
type identityCache struct {
	// authority is the cluster's own as it was read last.
	authority *pki.Authority
	// issued is a certificate of the operator's that could not be stored, and is used until it can.
	issued *mysql.Identity
	// shown is what members were shown last.
	shown mysql.Identity
	// credentials are the user's, as read last, and when.
	credentials   credentials
	credentialsAt time.Time
}

// cloudCache is what EC2 said of the cluster.
type cloudCache struct {
	inventory ec2.Inventory // as shown last
	// recalled is true once members were looked after without a word of EC2, see recall.
	recalled bool
	// watched is true from the first pass on; watchedSince is when that was, zero when nothing had been made for the cluster before.
	watched      bool
	watchedSince time.Time
	// tags are the operator's tags of each instance that is not terminated, as EC2 showed them.
	tags map[string]map[string]string
	// goneAt is when EC2 last said that a recorded volume does not exist, or that an instance is none of the cluster's any more.
	goneAt map[string]time.Time
}

// lookCache is what comes of looking at instances and their mysqlds, and for how long something has been wrong with them.
type lookCache struct {
	members *engine.Looks
	// knocks are closed when an instance's port is no longer tried.
	knocks map[string]<-chan struct{}
	// stage is the last boot stage of each member's console, readAt when the console was read.
	stage  map[string]string
	readAt map[string]time.Time
	// consoles are what consoles were asked for and not taken yet, by instance and by what it is.
	consoles map[string]<-chan string
	// crashErrors are what unstable members logged before they crashed.
	crashErrors map[string]*crashError
	// stoppingSince is when each instance was first seen stopping, or was told to stop again.
	stoppingSince map[string]time.Time
	// purgedAt is when binary logs were last removed to make room.
	purgedAt time.Time
}

// preflightCache is what the preflight found last.
type preflightCache struct {
	passed  string // the specification that passed
	at      time.Time
	problem *engine.Problem
	// shortage is what was found that is only told.
	shortage *engine.Problem
}

// settingCache is the outcome of changes to settings. Actions of several members use it in parallel.
type settingCache struct {
	mu sync.Mutex
	// expected are the settings that were applied to a member and not seen since; taken is what mysqld made of each.
	expected map[string]map[string]string
	taken    map[string]string
	// refused are the settings that each member's mysqld did not take, refusedPassword the password of the application's account.
	refused         map[string]map[string]refusedSetting
	refusedPassword refusedPassword
	// kept is what became of a setting of a member that was put back and did not stay: it is not put back again.
	kept map[string]string
	// startErrors are what mysqld said when it did not start, of members that run without their persisted settings.
	startErrors map[string]string
	// restartsAhead are the restarts that are due in the future, by member.
	restartsAhead map[string]futureRestart
}

// publishedCache is what clients and others were shown in Kubernetes.
type publishedCache struct {
	clients engine.Publication
	// objects is what was applied to each child object, and the version that came of it.
	objects map[string]applied
}

// backupCache is what is known of the pods that back up, archive and restore.
type backupCache struct {
	// fading is since when each Job of a schedule has had no pod but one that does not end, recoveryFades that of the one that restores.
	fading        map[types.UID]time.Time
	recoveryFades time.Time
	// account says for which primary, authority, subject and period the account of the backup pods was last seen right.
	account string
	// bucketKeys says what of the Secret of the backups' destination is missing, as seen at bucketKeysAt.
	bucketKeys   string
	bucketKeysAt time.Time
	// orphansSought is true once it was seen that an archive that was switched off has left nothing behind.
	orphansSought bool
	// archiveEnding is true while the archive's pod of a cluster that goes is waited for.
	archiveEnding bool
}

// toldCache is what was last reported in events and status, and since when it has been so.
type toldCache struct {
	mu sync.Mutex
	// announced is when the last event of each action was sent. Actions of several members read and write it in parallel.
	announced map[string]time.Time
	// status is that which events were last derived from.
	status *v1alpha1.MySQLClusterStatus
	// promotion is the promotion that status was last written with; a cache may not show it yet. Nil since the operator started.
	promotion *v1alpha1.PromotionStatus
	// hinderedSince is since when trouble has stood in the way of a deletion, in each pass.
	hinderedSince time.Time
	// failingSince is since when the cluster has had no primary; zero while it has one.
	failingSince time.Time
	// writes is since when the cluster should have taken a write and did not.
	writes writes
	// timeline is what is known of the present failure of a primary, or of the switchover under way.
	timeline timeline
}

type applied struct{ hash, resourceVersion string }

// newClusterCache remembers nothing yet.
func newClusterCache(uid string) *clusterCache {
	return &clusterCache{
		uid:   uid,
		cloud: cloudCache{tags: map[string]map[string]string{}, goneAt: map[string]time.Time{}},
		looks: lookCache{
			members: engine.NewLooks(), knocks: map[string]<-chan struct{}{}, stage: map[string]string{},
			readAt: map[string]time.Time{}, consoles: map[string]<-chan string{}, crashErrors: map[string]*crashError{}, stoppingSince: map[string]time.Time{},
		},
		records:  recordsCache{memory: engine.NewRecordMemory(&mutex{})},
		requests: engine.NewRequests(),
		settings: settingCache{
			expected: map[string]map[string]string{}, taken: map[string]string{}, refused: map[string]map[string]refusedSetting{}, kept: map[string]string{},
			startErrors: map[string]string{}, restartsAhead: map[string]futureRestart{},
		},
		published: publishedCache{objects: map[string]applied{}},
		told:      toldCache{announced: map[string]time.Time{}},
	}
}

func newCaches() *caches {
	return &caches{clusters: map[types.NamespacedName]*clusterCache{}}
}

// of returns what is remembered of a cluster; those of an older object of the same name are dropped.
func (m *caches) of(name types.NamespacedName, uid string) *clusterCache {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.clusters[name]
	if n == nil || n.uid != uid {
		n = newClusterCache(uid)
		m.clusters[name] = n
	}
	return n
}

// known returns what is remembered of a cluster, nil for nothing.
func (m *caches) known(name types.NamespacedName) *clusterCache {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// expect notes what was applied to a member; several members are served at the same time.
func (c *settingCache) expect(member string, settings map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected[member] = maps.Clone(settings)
}

// putBack notes the values that variables of a member were put back to.
func (c *settingCache) putBack(member string, settings map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, value := range settings {
		c.kept[member+" "+name] = value + "\x00"
	}
}

// drop forgets a cluster and returns the UID that it had.
func (m *caches) drop(name types.NamespacedName) string {
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
func (m *caches) readPolicy(data map[string]string) (policy.Policy, error) {
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
func (m *caches) lastPolicy() (policy.Policy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil {
		return policy.Policy{}, false
	}
	return *m.policy, true
}

// forget lets go of everything held for a cluster that no longer exists.
func (r *MySQLClusterReconciler) forget(name types.NamespacedName) {
	if uid := r.caches.drop(name); uid != "" {
		r.Prober.Forget(uid)
		r.Metrics.forget(name)
	}
}

// NameOf returns the name of the cluster with a UID, or nothing when it is not known.
func (r *MySQLClusterReconciler) NameOf(uid string) types.NamespacedName {
	r.caches.mu.Lock()
	defer r.caches.mu.Unlock()
	for name, n := range r.caches.clusters {
		if n.uid == uid {
			return name
		}
	}
	return types.NamespacedName{}
}

// newsAfter is how long an action that is taken again and again is told of only once.
const newsAfter = 30 * time.Second

// news says whether an action is to be told of, and notes that it was. Several members are served at the same time.
func (c *toldCache) news(action string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for told, at := range c.announced {
		if now.Sub(at) > newsAfter {
			delete(c.announced, told)
		}
	}
	if _, told := c.announced[action]; told {
		return false
	}
	c.announced[action] = now
	return true
}
