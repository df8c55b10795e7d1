package ec2

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// callsOfASweep is what one sweep of a small account costs, with the lists beside it: four lists and four looks at the status checks.
const callsOfASweep = 8

func TestObserveReadsFromTheStore(t *testing.T) {
	registry := prometheus.NewRegistry()
	l := newLab(t)
	i := l.running("orders-0")
	l.cloud = l.newCloud(func(o *Options) { o.Metrics = registry })
	l.proxy.ResetCalls()

	for range 100 {
		if _, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.proxy.Calls()); n != callsOfASweep {
		t.Errorf("a hundred reads made %d calls, want %d", n, callsOfASweep)
	}
	inv, err := l.cloud.Inventory.Observe(t.Context(), "another cluster", 30*time.Second)
	if err != nil || len(inv.Instances) != 0 {
		t.Errorf("another cluster sees %v (%v)", inv.Instances, err)
	}
	l.pass(31 * time.Second)
	if inv, err = l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 30*time.Second); err != nil || !inv.Taken.Equal(l.clock.Now()) {
		t.Errorf("half a minute later the inventory is of %s (%v), want now", inv.Taken, err)
	}
	if n := len(l.proxy.Calls()); n != 2*callsOfASweep {
		t.Errorf("%d calls after two sweeps, want %d", n, 2*callsOfASweep)
	}
	if len(inv.Instances) != 1 || inv.Instances[0].ID != i.ID || inv.Instances[0].Zone != zoneA || inv.Instances[0].PrivateIP == "" ||
		inv.Instances[0].Architecture != "x86_64" || inv.Instances[0].VPCID != l.seeded.VPC {
		t.Errorf("the inventory shows %+v", inv.Instances)
	}
	if hits := counted(t, registry, "mysqlcluster_aws_sweep_store_total", "hit"); hits != 100 {
		t.Errorf("%v hits, want 100", hits)
	}
	if misses := counted(t, registry, "mysqlcluster_aws_sweep_store_total", "miss"); misses != 2 {
		t.Errorf("%v misses, want 2", misses)
	}
	if calls := counted(t, registry, "mysqlcluster_aws_calls_total", "OK", "DescribeVolumes"); calls != 2 {
		t.Errorf("%v counted calls of DescribeVolumes, want 2", calls)
	}
}

// counted is what a registry's counter has with these values of its labels, in the order of the labels' names.
func counted(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Errorf("there is no %s with %v", name, labels)
	return 0
}

func TestConcurrentReadersShareOneSweep(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Delay, Delay: 300 * time.Millisecond, Actions: []string{"DescribeVolumes"}})
	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() {
			if _, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if n := l.proxy.Counts()["DescribeVolumes"]; n != 1 {
		t.Errorf("%d sweeps, want 1", n)
	}
}

// smallPages asks for the smallest pages that EC2 knows, which few things fill.
type smallPages struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s smallPages) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	if form.Has("MaxResults") {
		form.Set("MaxResults", "5")
	}
	text := form.Encode()
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return s.next.RoundTrip(r)
}

func TestSweepReadsAllPages(t *testing.T) {
	l := newLab(t)
	const members = 12
	for n := range members {
		l.launch(fmt.Sprintf("orders-%d", n))
		l.volume(fmt.Sprintf("orders-%d", n))
	}
	cloud := l.newCloud(func(o *Options) {
		o.Middleware = func(next http.RoundTripper) http.RoundTripper { return smallPages{next} }
	})
	l.proxy.ResetCalls()
	inv, err := cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 0)
	if err != nil || len(inv.Instances) != members || len(inv.Volumes) != members {
		t.Errorf("%d instances and %d volumes (%v), want %d each", len(inv.Instances), len(inv.Volumes), err, members)
	}
	if pages := l.proxy.Counts()["DescribeInstances"]; pages < 3 {
		t.Errorf("%d pages of instances, want at least 3", pages)
	}
	if !slices.IsSortedFunc(inv.Volumes, func(a, b inventory.Volume) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}) {
		t.Error("the volumes are not in the order of their ids")
	}
}

func TestFreshThingsDoNotVanish(t *testing.T) {
	l := newLab(t)
	l.observe()
	l.fault(proxy.Rule{Kind: proxy.Absent, For: 30 * time.Second})
	i, v := l.launch("orders-0"), l.volume("orders-0")
	s, err := l.cloud.EnsureSecurityGroup(t.Context(), SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}})
	if !awsapi.IsWaiting(err) {
		t.Errorf("rules of a group that EC2 does not know yet: %q, %v; want Waiting", s, err)
	}
	l.pass(time.Second)
	check := func(when string) {
		t.Helper()
		inv := l.observe()
		if len(inv.Instances) != 1 || inv.Instances[0].ID != i.ID || len(inv.Volumes) != 1 || inv.Volumes[0].ID != v.ID || len(inv.SecurityGroups) != 1 {
			t.Errorf("%s a sweep shows %+v", when, inv)
		}
	}
	check("while hidden")
	l.pass(time.Second)
	if inv, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil || len(inv.Instances) != 1 || len(inv.Volumes) != 1 {
		t.Errorf("while hidden a refresh shows %+v (%v)", inv, err)
	}
	for what, do := range map[string]func() error{
		"terminate": func() error { return l.cloud.TerminateInstance(t.Context(), l.owner.ClusterUID, i.ID) },
		"stop":      func() error { return l.cloud.StopInstance(t.Context(), l.owner.ClusterUID, i.ID, StopPower) },
		"delete":    func() error { return l.cloud.DeleteVolume(t.Context(), l.owner.ClusterUID, v.ID) },
		"attach":    func() error { return l.cloud.AttachVolume(t.Context(), l.owner.ClusterUID, v.ID, i.ID, "/dev/sdf") },
	} {
		if err := do(); !awsapi.IsWaiting(err) {
			t.Errorf("%s while hidden: %v, want Waiting", what, err)
		}
	}
	l.pass(31 * time.Second)
	check("once shown")
	if id, err := l.cloud.EnsureSecurityGroup(t.Context(), SecurityGroupSpec{Owner: l.owner, VPCID: l.seeded.VPC, ClientCIDRs: []string{"10.0.0.0/8"}}); err != nil || id == "" {
		t.Errorf("once shown: %v", err)
	}
	l.pass(5 * time.Minute)
	check("when no longer fresh")
}

// A fresh id is believed in for two minutes, no longer.
func TestWhatNeverShowsIsGivenUp(t *testing.T) {
	l := newLab(t)
	l.fault(proxy.Rule{Kind: proxy.Absent, For: 10 * time.Minute})
	l.launch("orders-0")
	l.pass(time.Minute)
	if inv := l.observe(); len(inv.Instances) != 1 {
		t.Errorf("after a minute: %v", inv.Instances)
	}
	l.pass(inventory.FreshFor)
	if inv := l.observe(); len(inv.Instances) != 0 {
		t.Errorf("after three minutes: %v", inv.Instances)
	}
}

// A removed tag looks like a removed thing to a sweep that goes by tags. It must not, or the operator would build a
// second member beside the first. The published policy does not let the operator put the tag back; here it may.
func TestRemovedTagIsNotARemovedThing(t *testing.T) {
	l := newLabFor(t, allowedBesides(t, iam.Statement{Effect: "Allow", Action: iam.OneOrMany{"ec2:CreateTags"}, Resource: iam.OneOrMany{"arn:aws:ec2:*:*:*/*"}}))
	i, v := l.running("orders-0"), l.available("orders-0")
	want := map[string]map[string]string{i.ID: i.Tags, v.ID: v.Tags}
	l.observe()
	l.pass(5 * time.Minute)
	for _, id := range []string{i.ID, v.ID} {
		l.removeTag(id, v1alpha1.TagClusterUID)
		l.removeTag(id, v1alpha1.TagMember)
	}
	l.pass(time.Minute)
	inv := l.observe()
	if len(inv.Instances) != 1 || len(inv.Volumes) != 1 || inv.Instances[0].Tags[v1alpha1.TagClusterUID] != "" {
		t.Fatalf("the inventory shows %+v, want both without their tag", inv)
	}
	for id, tags := range want {
		if err := l.cloud.RestoreTags(t.Context(), l.owner.ClusterUID, id, tags); err != nil {
			t.Error(err)
		}
	}
	for _, cloud := range []*Cloud{l.cloud, l.newCloud()} {
		inv, err := cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 0)
		if err != nil || len(inv.Instances) != 1 || inv.Instances[0].Member != "orders-0" || len(inv.Volumes) != 1 || inv.Volumes[0].Incarnation != 1 {
			t.Errorf("after restoring: %+v (%v)", inv, err)
		}
	}
}

func TestSilentEC2(t *testing.T) {
	l := newLab(t)
	l.running("orders-0")
	l.cloud = l.newCloud(func(o *Options) { o.CallTimeout = settleTime / 15 }) // five times that the silence is waited for
	l.observe()
	l.fault(proxy.Blackout())
	l.pass(time.Minute)
	l.proxy.ResetCalls()
	for range 20 {
		inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 30*time.Second)
		if !awsapi.IsUnreachable(err) || len(inv.Instances) != 1 {
			t.Errorf("%v (%s) with %d instances, want Unreachable with the last known one", err, awsapi.Classify(err), len(inv.Instances))
		}
	}
	l.proxy.Clear()
	time.Sleep(50 * time.Millisecond) // hung calls enter the log when they end
	if n := len(l.proxy.Calls()); n > callsOfASweep {
		t.Errorf("%d calls to a silent EC2, want one sweep's", n)
	}
	l.pass(inventory.SweepInterval / inventory.RetryPart)
	if inv := l.observe(); len(inv.Instances) != 1 || !inv.Taken.Equal(l.clock.Now()) {
		t.Errorf("once EC2 answers: %+v", inv)
	}
}

func TestThrottledSweep(t *testing.T) {
	l := newLab(t)
	l.running("orders-0")
	l.observe()
	l.fault(proxy.Throttle("DescribeVolumes"))
	l.pass(time.Minute)
	inv, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 30*time.Second)
	if !awsapi.IsThrottled(err) || len(inv.Instances) != 1 {
		t.Errorf("%v with %v, want Throttled with the last known instance", err, inv.Instances)
	}
}

// Each list of a sweep is refused in turn. Without one of the unit nothing counts; without another everything else does.
func TestListThatIsRefused(t *testing.T) {
	unit := []string{"DescribeInstances", "DescribeVolumes", "DescribeSecurityGroups"}
	beside := map[string]inventory.List{"DescribeSnapshots": inventory.ListSnapshots, "DescribeInstanceStatus": inventory.ListHealth}
	l := newLab(t)
	l.running("orders-0")
	l.proxy.ResetCalls()
	l.observe()
	asked := l.proxy.Counts()
	delete(asked, "GetCallerIdentity")
	if len(asked) != len(unit)+len(beside) {
		t.Fatalf("a sweep asks for %v; say here what is to happen without a list that is new", asked)
	}
	for action := range asked {
		t.Run(action, func(t *testing.T) {
			cloud := l.newCloud()
			if _, err := cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 0); err != nil {
				t.Fatal(err)
			}
			first := l.clock.Now()
			answer := l.fault(proxy.Deny(action))
			defer answer()
			l.pass(time.Minute)
			inv, err := cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, 0)
			named := cloud.Inventory.Unanswered()
			if slices.Contains(unit, action) {
				if !awsapi.IsDenied(err) || !strings.Contains(awsapi.Message(err), "ec2:"+action) || !inv.Taken.Equal(first) || len(inv.Instances) != 1 || len(named) != 0 {
					t.Errorf("%v, of %s with %v; named are %v", err, inv.Taken, inv.Instances, named)
				}
				return
			}
			if err != nil || !inv.Taken.Equal(l.clock.Now()) || len(inv.Instances) != 1 {
				t.Errorf("%v, of %s with %v", err, inv.Taken, inv.Instances)
			}
			if len(named) != 1 || named[0].List != beside[action] || !named[0].Taken.Equal(first) || !strings.Contains(awsapi.Message(named[0].Err), "ec2:"+action) {
				t.Errorf("named are %v", named)
			}
			l.pass(inventory.RefreshFloor)
			if _, err := cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil {
				t.Errorf("a look at what moves: %v", err)
			}
		})
	}
}

// A caller that gives up does not take the sweep of the others with it.
func TestSweepOutlivesItsStarter(t *testing.T) {
	l := newLab(t)
	answer := l.fault(proxy.Rule{Kind: proxy.Hang, Actions: []string{"DescribeVolumes"}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.cloud.Inventory.Observe(ctx, l.owner.ClusterUID, time.Second); !awsapi.IsUnreachable(err) {
		t.Errorf("the impatient caller got %v", err)
	}
	answer()
	if _, err := l.cloud.Inventory.Observe(t.Context(), l.owner.ClusterUID, time.Second); err != nil {
		t.Errorf("the patient caller got %v", err)
	}
	if n := l.proxy.Counts()["DescribeVolumes"]; n != 1 {
		t.Errorf("%d sweeps, want 1", n)
	}
}

func TestRefreshLooksOnlyAtWhatMoves(t *testing.T) {
	l := newLab(t)
	l.running("orders-0")
	l.available("orders-0")
	l.pass(time.Minute)
	l.observe()
	l.proxy.ResetCalls()
	for range 10 {
		l.pass(time.Second)
		if _, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil {
			t.Fatal(err)
		}
	}
	if calls := l.proxy.Calls(); len(calls) != 0 {
		t.Errorf("nothing moves, yet: %v", calls)
	}
	l.launch("orders-1")
	l.proxy.ResetCalls()
	for range 10 {
		if _, err := l.cloud.Inventory.Refresh(t.Context(), l.owner.ClusterUID); err != nil {
			t.Fatal(err)
		}
	}
	if counts := l.proxy.Counts(); len(counts) > 1 || counts["DescribeInstances"] > 1 {
		t.Errorf("one instance moves; ten refreshes within the same moment made %v", counts)
	}
}
