package pass

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Caches is what the operator remembers between passes and may forget at any time: a restart only makes it look again.
type Caches struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]*Cache
	// policy is the administrator's as it could be read last, nil before; policyData is what it was read from.
	policy     *policy.Policy
	policyData map[string]string
	// Releasing is held while a cluster lets go of what others may hold, too.
	Releasing sync.Mutex
}

// Cache is what is remembered of one cluster. Passes over one cluster never overlap, so that only those parts have locks that
// actions of several members write, or requests that no pass waits for.
type Cache struct {
	UID       string
	Records   recordsCache
	Identity  identityCache
	Cloud     cloudCache
	Looks     lookCache
	Preflight preflightCache
	Requests  *engine.Requests
	Settings  settingCache
	Published publishedCache
	Backups   backupCache
	Told      ToldCache
	// Logins says of each account of pods for which primary, authority, subject and period it was last seen right.
	Logins map[string]string
	// Monitors says when the cluster's objects of other operators were last written, and how.
	Monitors map[string]Written
}

// identityCache is whom members know the operator as, and whom EC2 does.
type identityCache struct {
	// Authority is the cluster's own as it was read last.
	Authority *pki.Authority
	// Issued is a certificate of the operator's that could not be stored, and is used until it can.
	Issued *mysql.Identity
	// Shown is what members were shown last.
	Shown mysql.Identity
	// Credentials are the user's, as read last, and when.
	Credentials   Credentials
	CredentialsAt time.Time
}

// cloudCache is what EC2 said of the cluster.
type cloudCache struct {
	Inventory inventory.Inventory // as shown last
	// FromRecords is true once members were looked after without a word of EC2, see inventoryFromRecords.
	FromRecords bool
	// Watched is true from the first pass on; WatchedSince is when that was, zero when nothing had been made for the cluster before.
	Watched      bool
	WatchedSince time.Time
	// Tags are the operator's tags of each instance that is not terminated, as EC2 showed them.
	Tags map[string]map[string]string
	// GoneAt is when EC2 last said that a recorded volume does not exist, or that an instance is none of the cluster's any more.
	GoneAt map[string]time.Time
	// Memory is that of each instance type that was asked for, in bytes; MemoryUnknownAt is when EC2 last did not say one.
	Memory          map[string]uint64
	MemoryUnknownAt time.Time
}

// lookCache is what comes of looking at instances and their mysqlds, and for how long something has been wrong with them.
type lookCache struct {
	Members *engine.Looks
	// PortProbes are closed when an instance's port is no longer tried.
	PortProbes map[string]<-chan struct{}
	// Boots is how far the instance of each member that does not answer came by its console, ReadAt when the console was read.
	Boots  map[string]topology.Boot
	ReadAt map[string]time.Time
	// Consoles are the texts of consoles that were asked for and not taken yet, by instance and by what is looked for in them.
	Consoles map[string]<-chan string
	// CrashErrors are what unstable members logged before they crashed.
	CrashErrors map[string]*CrashError
	// PurgedAt is when binary logs were last removed to make room.
	PurgedAt time.Time
}

// preflightCache is what the preflight found last.
type preflightCache struct {
	Passed  string // the specification that passed
	At      time.Time
	Problem *engine.Problem
	// Shortage is what was found that is only reported.
	Shortage *engine.Problem
	// Run is the preflight that goes on, or whose outcome no pass has taken yet; nil for none.
	Run *PreflightRun
}

// PreflightRun is a preflight that was begun. No pass waits for it for long.
type PreflightRun struct {
	// Key identifies the specification that it is about.
	Key string
	// Over is closed when Problems is what it found, or Err why EC2 did not answer.
	Over     <-chan struct{}
	Problems []awsapi.Problem
	Err      error
	// Cancel ends it.
	Cancel context.CancelFunc
}

// Abandon ends the preflight that goes on, and forgets an outcome that no pass has taken.
func (c *preflightCache) Abandon() {
	if c.Run != nil {
		c.Run.Cancel()
		c.Run = nil
	}
}

// Clean says whether nothing was found.
func (c preflightCache) Clean() bool { return c.Problem == nil && c.Shortage == nil }

// publishedCache is what clients and others were shown in Kubernetes.
type publishedCache struct {
	Clients engine.Publication
	// Objects is what was applied to each child object, and the version that came of it.
	Objects map[string]Applied
	Write   WriteEndpoint
}

// WriteEndpoint is how clients reach the primary by its Service, as Kubernetes showed it last.
type WriteEndpoint struct {
	// Shown identifies the Service and its EndpointSlice. When it changes, a new connection may lead elsewhere.
	Shown string
	// Missing is why the Service leads clients nowhere, nil when it leads somewhere.
	Missing *topology.Finding
	// Refused is why the Service or its EndpointSlice could not be written last, nil when both could.
	Refused *engine.Problem
}

// backupCache is what is known of the pods that back up, archive and restore.
type backupCache struct {
	// Fading is since when each Job of a schedule has had no pod but one that does not end, RecoveryFades that of the one that restores.
	Fading        map[types.UID]time.Time
	RecoveryFades time.Time
	// Missing is what the backups' destination names and is not there, nil for nothing, as seen at MissingAt.
	Missing   *engine.Problem
	MissingAt time.Time
	// OrphansSought is true once it was seen that an archive that was switched off has left nothing behind.
	OrphansSought bool
	// ArchiveEnding is true while the archive's pod of a cluster that goes is waited for.
	ArchiveEnding bool
}

// Applied is what an object was written with, and the version that came of it.
type Applied struct{ Hash, ResourceVersion string }

// Written is the hash of what an object was written with, and when.
type Written struct {
	Hash string
	At   time.Time
}

// NewCache remembers nothing yet.
func NewCache(uid string) *Cache {
	return &Cache{
		UID:   uid,
		Cloud: cloudCache{Tags: map[string]map[string]string{}, GoneAt: map[string]time.Time{}},
		Looks: lookCache{
			Members: engine.NewLooks(), PortProbes: map[string]<-chan struct{}{}, Boots: map[string]topology.Boot{},
			ReadAt: map[string]time.Time{}, Consoles: map[string]<-chan string{}, CrashErrors: map[string]*CrashError{},
		},
		Records:  recordsCache{Memory: engine.NewRecordMemory(&mutex{})},
		Requests: engine.NewRequests(),
		Settings: settingCache{
			Expected: map[string]map[string]string{}, Taken: map[string]string{}, refused: map[string]map[string]refusedSetting{}, Kept: map[string]string{},
			putBack: map[string]putBack{}, StartErrors: map[string]string{}, restartsAhead: map[string]futureRestart{},
		},
		Published: publishedCache{Objects: map[string]Applied{}},
		Told:      ToldCache{announced: map[string]time.Time{}},
		Logins:    map[string]string{}, Monitors: map[string]Written{},
	}
}

// NewCaches remembers nothing yet.
func NewCaches() *Caches {
	return &Caches{clusters: map[types.NamespacedName]*Cache{}}
}

// Of returns what is remembered of a cluster; those of an older object of the same name are dropped.
func (m *Caches) Of(name types.NamespacedName, uid string) *Cache {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.clusters[name]
	if n == nil || n.UID != uid {
		n = NewCache(uid)
		m.clusters[name] = n
	}
	return n
}

// Known returns what is remembered of a cluster, nil for nothing.
func (m *Caches) Known(name types.NamespacedName) *Cache {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// Drop forgets a cluster and returns the UID that it had.
func (m *Caches) Drop(name types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.clusters[name]
	delete(m.clusters, name)
	if n == nil {
		return ""
	}
	return n.UID
}

// ReadPolicy reads the administrator's policy, and remembers the last that could be read: a thousand clusters ask for the same.
func (m *Caches) ReadPolicy(data map[string]string) (policy.Policy, error) {
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

// LastPolicy is the administrator's policy as it could be read last, and whether it ever could.
func (m *Caches) LastPolicy() (policy.Policy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policy == nil {
		return policy.Policy{}, false
	}
	return *m.policy, true
}

// Credentials are a user's AWS credentials together with the Secret that they were read from.
type Credentials struct {
	Secret string
	Static awsapi.StaticCredentials
}

// CrashError is what a member logged before it crashed.
type CrashError struct {
	// Message is the first that was found since the member is unstable, so that status does not change with each crash.
	Message string
	// Asked is the start of the mysqld that was asked last; answer carries what it said.
	Asked  time.Time
	Answer <-chan string
}

// NameOf returns the name of the cluster with a UID, or nothing when it is not known.
func (m *Caches) NameOf(uid string) types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, n := range m.clusters {
		if n.UID == uid {
			return name
		}
	}
	return types.NamespacedName{}
}

// RestartDue is from when on a server must have started to count as restarted, in Unix seconds. What is due in the future was noted by
// a clock that went wrong, and is due now: no server would have started after it, however often it is restarted until then.
func (n *Cache) RestartDue(member string, due int64, now time.Time) int64 {
	if due <= now.Add(restartLead).Unix() {
		return due
	}
	if n.Settings.restartsAhead[member].due != due {
		n.Settings.restartsAhead[member] = futureRestart{due: due, seen: now.Unix()}
	}
	return n.Settings.restartsAhead[member].seen
}
