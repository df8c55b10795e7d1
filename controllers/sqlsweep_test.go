package controllers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// errLost is what an operator gets in place of the answer to a statement that succeeded.
var errLost = errors.New("the answer was lost")

// knife counts the changing statements of an operator and cuts at one of them. Statements are counted when they begin, and
// apart from that when they succeed: not every one does, and several members are worked on at the same time.
type knife struct {
	operator *operator
	at       int
	how      cut
	// only counts the statements of this name alone; empty for all of them.
	only string

	mu           sync.Mutex
	began, ended []string
	cut          string // what was cut, empty until then
}

// hook is mysql.Options.Hook.
func (k *knife) hook(op, phase string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.operator.dead.Load() {
		return errDead
	}
	if k.only != "" && op != k.only {
		return nil
	}
	count := &k.began
	if phase == "after" {
		count = &k.ended
	}
	*count = append(*count, op)
	if len(*count) != k.at || (phase == "before") != (k.how == diesBefore) {
		return nil
	}
	k.cut = op
	if k.how == losesReply {
		return errLost
	}
	k.operator.kill()
	return errDead
}

// life runs an operator until the cluster is as it must be or the operator is dead, and returns what it did.
func (w *sqlWorld) life(at int, how cut) *knife { return w.lifeOf("", at, how) }

// lifeOf does the same, and is cut at the at-th statement of one name.
func (w *sqlWorld) lifeOf(only string, at int, how cut) *knife {
	k := &knife{operator: &operator{}, at: at, how: how, only: only}
	w.newSQLOperator(k.operator, k.hook)
	w.drive(k.operator, sqlPatience, func() bool { return k.operator.dead.Load() || w.unsettled() == "" })
	return k
}

// TestCrashSweepOverSQLCalls kills the operator before and after each statement by which it changes a mysqld on the way
// from nothing to a Ready cluster, and loses the answer of each. What comes after must find its way to the same cluster,
// with everything in it that an application was told is committed.
func TestCrashSweepOverSQLCalls(t *testing.T) {
	t.Parallel()
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	var whole *knife
	if !t.Run("uncut", func(t *testing.T) {
		w := newSQLWorld(t, farm, nil)
		began := time.Now()
		whole = w.life(0, diesBefore)
		w.settle(whole.operator)
		t.Logf("%d changing statements in %s: %v", len(whole.began), time.Since(began).Round(time.Millisecond), whole.began)
		w.end()
	}) {
		return
	}
	t.Logf("seed %d (repeat with %s=%d)", seed, sweepSeedVariable, seed)
	var made atomic.Int32
	tried := whole.sites(share, seed, func(at int, how cut) {
		t.Run(fmt.Sprintf("%s statement %d", how, at), func(t *testing.T) {
			t.Parallel()
			w := newSQLWorld(t, farm, nil)
			w.sweep(at, how, &made)
		})
	})
	t.Cleanup(func() { enoughCuts(t, share, whole, tried, int(made.Load())) })
}

// enoughCuts fails the test when next to none of the cuts that were tried was made: a life may do with fewer statements than the one in
// which they were counted, but not all of them.
func enoughCuts(t *testing.T, share int, whole *knife, tried, made int) {
	t.Logf("one in %d of the cuts: %d were tried and %d made", share, tried, made)
	if tried == 0 && share <= len(whole.ended) || made < (tried+1)/2 {
		t.Errorf("of %d cuts %d were made", tried, made)
	}
}

// TestCrashSweepOverSQLChanges does the same to a trio that lives on from cut to cut: in each round its settings change in
// the spec, so that every member is restarted and the primary gives its role away and gets it back, and a pinned variable
// is changed behind the operator's back.
func TestCrashSweepOverSQLChanges(t *testing.T) {
	t.Parallel()
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w, round := newTrio(t, farm), 1
	w.rests()
	w.servesWithoutEC2()
	began := time.Now()
	w.change(round)
	whole := w.life(0, diesBefore)
	w.settle(whole.operator)
	t.Logf("%d changing statements in %s, seed %d (repeat with %s=%d): %v",
		len(whole.began), time.Since(began).Round(time.Millisecond), seed, sweepSeedVariable, seed, whole.began)
	var made atomic.Int32
	tried := whole.sites(share, seed, func(at int, how cut) {
		round++
		ok := t.Run(fmt.Sprintf("%s statement %d", how, at), func(t *testing.T) {
			parent := w.t
			w.t = t
			defer func() { w.t = parent }()
			w.change(round)
			w.sweep(at, how, &made)
		})
		if !ok {
			w = newTrio(t, farm)
		}
	})
	enoughCuts(t, share, whole, tried, int(made.Load()))
}

// rests fails the test unless passes over a cluster that is Ready write nothing to Kubernetes, change nothing in EC2 and in MySQL, and
// ask EC2 for no more than a sweep. A replica that has just caught up, or an instance that is busy, changes a step of lag; other things that
// go on are no rest.
func (w *sqlWorld) rests() {
	w.t.Helper()
	k := &knife{operator: &operator{}, how: diesBefore}
	o := w.newSQLOperator(k.operator, k.hook)
	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionProgressing, "False/"+v1alpha1.ReasonStable))
	w.passes(o, 3) // a new leader looks at some things once
	var unrest []string
	for range 5 {
		if unrest = w.unrest(o, k); len(unrest) == 0 {
			break
		}
		w.t.Logf("no rest yet: %v", unrest)
	}
	if len(unrest) > 0 {
		w.t.Errorf("there is no rest: %v", unrest)
	}
	o.kill()
}

// servesWithoutEC2 lets EC2 fall silent for ten minutes under a cluster that is Ready: it stays Ready, nothing is changed in MySQL, the
// condition says what is wrong, and EC2 is not hammered.
func (w *sqlWorld) servesWithoutEC2() {
	w.t.Helper()
	w.clock = clocktesting.NewFakePassiveClock(time.Now())
	defer func() { w.clock = nil }()
	k := &knife{operator: &operator{}, how: diesBefore}
	o := w.newSQLOperator(k.operator, k.hook)
	defer o.kill()
	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionProgressing, "False/"+v1alpha1.ReasonStable))
	w.passes(o, 3)
	volumes, statements := w.dataVolumes(), len(k.began)
	id, err := w.proxy.Add(muteness["refuses connections"])
	must(w.t, err)
	w.endure(o, v1alpha1.PhaseReady)
	w.proxy.Remove(id)
	w.drive(o, sqlPatience, func() bool {
		return w.phaseIs(v1alpha1.PhaseReady)() && w.conditionHas(v1alpha1.ConditionCloudReachable, "True/")()
	})
	w.oneOfEach(members)
	if now := w.dataVolumes(); !slices.Equal(now, volumes) {
		w.t.Errorf("the members had the volumes %v, and have %v", volumes, now)
	}
	if changed := k.began[statements:]; len(changed) > 0 {
		w.t.Errorf("while EC2 was silent MySQL was changed: %v", changed)
	}
}

// unrest is what ten passes do.
func (w *sqlWorld) unrest(o *operator, k *knife) (all []string) {
	w.t.Helper()
	c, _ := w.get()
	versions := func() map[string]string {
		found := map[string]string{}
		for _, child := range w.children() {
			found[fmt.Sprintf("%T %s", child, child.GetName())] = child.GetResourceVersion()
		}
		return found
	}
	before, statements := versions(), len(k.began)
	if len(before) < 7 {
		w.t.Fatalf("there are only %v", before)
	}
	w.proxy.ResetCalls()
	w.passes(o, 10)
	for name, version := range versions() {
		if before[name] != version {
			all = append(all, name+" was written")
		}
	}
	if now, _ := w.get(); now.ResourceVersion != c.ResourceVersion && (equality.Semantic.DeepEqual(now.Status, c.Status) || !equality.Semantic.DeepEqual(withoutLag(now), withoutLag(c))) {
		all = append(all, fmt.Sprintf("the cluster was written, %+v after %+v", now.Status, c.Status))
	}
	all = append(append(all, k.began[statements:]...), w.changes()...)
	if n := w.total(); n > sweepCalls {
		all = append(all, fmt.Sprintf("%d calls to AWS", n))
	}
	return all
}

// withoutLag is a status but for what a busy machine changes in it now and then.
func withoutLag(c *v1alpha1.MySQLCluster) v1alpha1.MySQLClusterStatus {
	status := *c.Status.DeepCopy()
	status.Lag = ""
	for i := range status.Members {
		status.Members[i].Lag = ""
	}
	return status
}

// sweepCalls is at most what one look at everything that an account holds of ours costs: lists of volumes, instances, snapshots and
// groups, and four of health.
const sweepCalls = 8

// newTrio is a world with a cluster that is Ready.
func newTrio(t *testing.T, farm *mysqld.Farm) *sqlWorld {
	t.Helper()
	w := newSQLWorld(t, farm, nil)
	w.settle(w.life(0, diesBefore).operator)
	return w
}

// change gives the cluster other settings, of which one comes and goes, and lets a pinned variable of each member drift.
func (w *sqlWorld) change(round int) {
	w.t.Helper()
	w.books.open()
	c, _ := w.get()
	before := c.DeepCopy()
	w.backLog, w.persisted = 100+round, "back_log,long_query_time"
	c.Spec.MySQLD = map[string]v1alpha1.PlainValue{
		"back_log": strconv.Itoa(w.backLog), "long_query_time": strconv.Itoa(round),
	}
	if round%2 == 0 {
		c.Spec.MySQLD["table_open_cache_instances"] = "2"
		w.persisted += ",table_open_cache_instances"
	}
	must(w.t, w.client.Patch(w.t.Context(), c, client.MergeFrom(before)))
	for _, s := range w.running() {
		// A replica that is half open is what a promotion leaves that was cut off; on the primary it changes nothing.
		_, err := s.SQL(w.t.Context(), "SET GLOBAL sync_binlog = 1000; SET GLOBAL sync_relay_log = 1; SET GLOBAL super_read_only = OFF;")
		must(w.t, err)
	}
}

// sites calls try for a share of the cuts that are possible where the knife counted, and returns how many those were.
func (k *knife) sites(share, seed int, try func(at int, how cut)) int {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	tried := 0
	for _, how := range cuts {
		count := len(k.ended)
		if how == diesBefore {
			count = len(k.began)
		}
		for at := 1; at <= count; at++ {
			if random.IntN(share) == 0 {
				tried++
				try(at, how)
			}
		}
	}
	return tried
}

// sweep tries one cut, and counts it when it was made.
func (w *sqlWorld) sweep(at int, how cut, made *atomic.Int32) {
	w.t.Helper()
	k := w.life(at, how)
	if k.cut != "" {
		made.Add(1)
	}
	w.survive(k)
}

// survive brings the cluster to Ready after a life, by the same operator or by the next.
func (w *sqlWorld) survive(k *knife) {
	w.t.Helper()
	w.t.Logf("%s %q, with %d rows committed", k.how, k.cut, w.books.count())
	o := k.operator
	if o.dead.Load() {
		o = w.newSQLOperator(&operator{}, nil)
	}
	w.settle(o)
}

// end deletes a cluster that is Ready: of all that it had one snapshot is left, that of the primary's volume.
func (w *sqlWorld) end() {
	w.t.Helper()
	volume := w.volumeOfPrimary()
	o := w.newSQLOperator(&operator{}, nil)
	// Of a cluster whose members it has not seen a final snapshot is taken of each.
	w.drive(o, sqlPatience, func() bool { return w.unsettled() == "" })
	w.delete()
	w.drive(o, sqlPatience, w.gone)
	w.promised(v1alpha1.DeletionPolicySnapshot, []string{volume})
}

// volumeOfPrimary is that volume where there is one: a member that is busy may not answer at once.
func (w *sqlWorld) volumeOfPrimary() (volume string) {
	w.t.Helper()
	w.await(patience, "a member is writable", func() bool { volume = w.primaryVolume(); return volume != "" })
	return volume
}

// primaryVolume is the volume of the one member that is writable, empty while there is none.
func (w *sqlWorld) primaryVolume() string {
	w.t.Helper()
	for _, s := range w.running() {
		if l, err := lookAt(w.t.Context(), s); err == nil && l.Writable {
			return idsOf(w.left().volumes, s.Name)[0]
		}
	}
	return ""
}
