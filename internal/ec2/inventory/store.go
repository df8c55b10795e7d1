package inventory

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// row is one thing in the store.
type row[T any] struct {
	value T
	// owner is the cluster's UID. It outlives the tag: a thing whose tag was removed by hand stays with its cluster, which
	// can then put the tag back.
	owner string
	// born is when this process created the thing; zero when a sweep found it.
	born time.Time
	// seen is true once a list has shown the thing, answered is when EC2 was asked the question that it last answered with it.
	seen     bool
	answered time.Time
	// changed is when a write or a look by id last set value. A sweep that began earlier knows less.
	changed time.Time
}

// table holds the things of one kind, by id and by owner. It is not safe for concurrent use; the store's lock is.
type table[T any] struct {
	rows    map[string]*row[T]
	byOwner map[string]map[string]struct{}
	tags    func(T) map[string]string
	// over says that a thing which EC2 no longer lists was on its way out anyway.
	over func(T) bool
}

func newTable[T any](tags func(T) map[string]string, over func(T) bool) table[T] {
	return table[T]{rows: map[string]*row[T]{}, byOwner: map[string]map[string]struct{}{}, tags: tags, over: over}
}

// put stores what a list showed that was asked for at asked, and answered by now.
func (t *table[T]) put(id string, v T, asked, now time.Time) {
	t.set(id, v, now)
	t.rows[id].seen, t.rows[id].answered = true, asked
}

// bear stores what EC2 has just created.
func (t *table[T]) bear(id string, v T, now time.Time) {
	t.set(id, v, now)
	t.rows[id].born = now
}

// set stores a value. Values are never changed in place: readers hold them without a lock. One that is as before stays the one that
// they hold, so that it is not there twice.
func (t *table[T]) set(id string, v T, now time.Time) {
	r := t.rows[id]
	if r == nil {
		r = &row[T]{}
		t.rows[id] = r
	}
	r.changed = now
	if reflect.DeepEqual(r.value, v) {
		return
	}
	r.value = v
	if uid := t.tags(v)[v1alpha1.TagClusterUID]; uid != "" && uid != r.owner {
		t.disown(id, r.owner)
		r.owner = uid
		if t.byOwner[uid] == nil {
			t.byOwner[uid] = map[string]struct{}{}
		}
		t.byOwner[uid][id] = struct{}{}
	}
}

func (t *table[T]) disown(id, owner string) {
	delete(t.byOwner[owner], id)
	if len(t.byOwner[owner]) == 0 {
		delete(t.byOwner, owner)
	}
}

func (t *table[T]) remove(id string) {
	if r := t.rows[id]; r != nil {
		t.disown(id, r.owner)
		delete(t.rows, id)
	}
}

func (t *table[T]) update(id string, now time.Time, change func(*T)) {
	if r := t.rows[id]; r != nil {
		v := r.value
		change(&v)
		t.set(id, v, now)
	}
}

func (t *table[T]) get(id string) (T, bool) {
	if r := t.rows[id]; r != nil {
		return r.value, true
	}
	var none T
	return none, false
}

func (t *table[T]) fresh(id string, now time.Time) bool {
	r := t.rows[id]
	return r != nil && !r.born.IsZero() && now.Sub(r.born) < FreshFor
}

// unseen reports that a fresh thing was never listed yet, so that NotFound says nothing about it.
func (t *table[T]) unseen(id string, now time.Time) bool { return t.fresh(id, now) && !t.rows[id].seen }

func (t *table[T]) owner(id string) string {
	if r := t.rows[id]; r != nil {
		return r.owner
	}
	return ""
}

// owned lists a cluster's things by id.
func (t *table[T]) owned(uid string) []T {
	ids := slices.Sorted(maps.Keys(t.byOwner[uid]))
	out := make([]T, 0, len(ids))
	for _, id := range ids {
		out = append(out, t.rows[id].value)
	}
	return out
}

// replace takes over what a sweep that began at began has found. It returns the ids that the sweep should have found but
// did not: before they are dropped, EC2 is asked for them by id, because a removed tag looks the same as a removed thing.
func (t *table[T]) replace(began, now time.Time, found map[string]T) (missing []string) {
	for id, v := range found {
		if r := t.rows[id]; r == nil || !r.changed.After(began) {
			t.put(id, v, began, began)
		}
	}
	for id, r := range t.rows {
		if _, ok := found[id]; ok || r.changed.After(began) {
			continue
		}
		switch {
		case t.over(r.value):
			t.remove(id)
		case !t.fresh(id, now):
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing
}

// confirm takes over what EC2 answered when asked for ids one by one, and drops those that it does not know, unless they
// are fresh or were changed since.
func (t *table[T]) confirm(asked []string, began, now time.Time, found map[string]T) {
	for _, id := range asked {
		r := t.rows[id]
		if r != nil && r.changed.After(began) {
			continue
		}
		if v, ok := found[id]; ok {
			t.put(id, v, began, now)
		} else if r != nil && (t.over(r.value) || !t.fresh(id, now)) {
			t.remove(id)
		}
	}
}

// takeOver puts what a list has shown into the store, with the store's lock held. It returns the ids that the list should have shown
// and did not.
type takeOver func(began, now time.Time) (missing []string)

// health is what EC2's status checks say of one instance.
type health struct {
	impaired bool // by any check
	volumes  bool // by that of the attached volumes
	events   []Event
	// launched is the LaunchTime that the instance had then. A stop and a start move it to another host, of which this says nothing.
	launched time.Time
}

// Group is a security group with its incoming rules.
type Group struct {
	SecurityGroup
	Ingress RuleSet
}

// store is what is known of EC2. All methods are safe for concurrent use.
type store struct {
	mu      sync.RWMutex
	account string // what all of it is in, where that was asked for
	// listed is when the last answered reading of each list began.
	listed    map[List]time.Time
	instances table[Instance]
	volumes   table[Volume]
	snapshots table[Snapshot]
	groups    table[Group]
	health    map[string]health
}

func newStore() *store {
	s := &store{}
	s.empty()
	return s
}

// empty forgets everything: what one account holds is neither there nor missing in another.
func (s *store) empty() {
	s.account, s.listed, s.health = "", map[List]time.Time{}, map[string]health{}
	s.instances = newTable(
		func(i Instance) map[string]string { return i.Tags },
		func(i Instance) bool { return i.State == StateTerminated })
	s.volumes = newTable(
		func(v Volume) map[string]string { return v.Tags },
		func(v Volume) bool { return v.State == VolumeDeleting || v.State == VolumeDeleted })
	s.snapshots = newTable(
		func(s Snapshot) map[string]string { return s.Tags },
		func(Snapshot) bool { return false })
	s.groups = newTable(
		func(g Group) map[string]string { return g.Tags },
		func(Group) bool { return false })
}

// enter empties the store when it is of another account than this one. The caller has locked it.
func (s *store) enter(account string) {
	if account == "" || account == s.account {
		return
	}
	if s.account != "" {
		s.empty()
	}
	s.account = account
}

// taken is when the last complete sweep began: what the three lists of a sweep show is no older than that. Zero while one of them was
// never answered. The caller has locked the store.
func (s *store) taken() time.Time {
	list, _ := s.oldest()
	return s.listed[list]
}

// oldest is the list of a sweep whose last answer is the oldest, and the call that reads it. The caller has locked the store.
func (s *store) oldest() (list List, call string) {
	found := slices.MinFunc(sweptLists, func(a, b sweptList) int { return s.listed[a.list].Compare(s.listed[b.list]) })
	return found.list, found.call
}

// inventory is a cluster's part of the store.
func (s *store) inventory(uid string, now time.Time) Inventory {
	s.mu.RLock()
	defer s.mu.RUnlock()
	inv := Inventory{
		Taken:          s.taken(),
		Instances:      s.instances.owned(uid),
		Volumes:        s.volumes.owned(uid),
		Snapshots:      s.snapshots.owned(uid),
		InstancesTaken: s.listed[listInstances],
		VolumesTaken:   s.listed[listVolumes],
		SnapshotsTaken: s.listed[ListSnapshots],
		Answered:       map[string]time.Time{},
	}
	checked := now.Sub(s.listed[ListHealth]) <= AdvisoryFor
	for i := range inv.Instances {
		inv.Answered[inv.Instances[i].ID] = s.instances.rows[inv.Instances[i].ID].answered
		// An instance that was stopped comes back on another host: what was said of the old one is over.
		if in := &inv.Instances[i]; in.State == StateRunning && in.LaunchTime.Equal(s.health[in.ID].launched) {
			h := s.health[in.ID]
			in.Impaired, in.VolumesImpaired, in.Events = checked && h.impaired, checked && h.volumes, h.events
		}
	}
	for _, g := range s.groups.owned(uid) {
		inv.SecurityGroups = append(inv.SecurityGroups, g.SecurityGroup)
	}
	return inv
}

// takeHealth replaces what EC2's status checks say. The caller has locked the store.
func (s *store) takeHealth(found map[string]health) {
	s.health = map[string]health{}
	for id, h := range found {
		if i, ok := s.instances.get(id); ok {
			h.launched = i.LaunchTime
			s.health[id] = h
		}
	}
}

// takenAt is when the last complete sweep began; zero before the first.
func (s *store) takenAt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.taken()
}

// listedAt is when the last answered reading of a list began; zero before the first.
func (s *store) listedAt(l List) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.listed[l]
}

// ofAccount runs f with the store locked, unless the store is of another account than this one, and says whether it did.
func (s *store) ofAccount(account string, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if account != "" && s.account != "" && account != s.account {
		return false
	}
	f()
	return true
}

// age is how old the last complete sweep is; ok is false before the first.
func (s *store) age(now time.Time) (age time.Duration, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	taken := s.taken()
	return now.Sub(taken), !taken.IsZero()
}

// size is how many of the most numerous things there are, which says how many pages a sweep has.
func (s *store) size() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return max(len(s.instances.rows), len(s.volumes.rows))
}

// owner is the UID of the cluster to which a thing belongs; empty when it is not known.
func (s *store) owner(id string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.instances.owner(id) + s.volumes.owner(id) + s.snapshots.owner(id) + s.groups.owner(id) // of one kind only
}

// unseen reports that a thing is fresh and was never listed yet.
func (s *store) unseen(id string, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.instances.unseen(id, now) || s.volumes.unseen(id, now) || s.groups.unseen(id, now) || s.snapshots.unseen(id, now)
}

// do runs f with the store locked.
func (s *store) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// read runs f with the store locked for reading.
func (s *store) read(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}
