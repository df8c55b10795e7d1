package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

// These tests hold the stubs to what the bench's figures rest on: that the planes see Ready members through them, over
// TLS that is checked on both sides, and that a change does not go unnoticed.

// trioOf makes one cluster's stub members, and the operator's identity for them.
func trioOf(t *testing.T, name string) (*world, *v1alpha1.MySQLCluster, mysql.Identity) {
	t.Helper()
	w := &world{cloud: newAccount(), fleet: &fleet{members: map[string]*member{}}}
	t.Cleanup(w.fleet.close)
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}}
	authority, err := pki.NewAuthority(string(c.UID), c.Name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.addTrio(t.Context(), c, authority, 0); err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.IssueOperator(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return w, c, mysql.Identity{CAPEM: authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}
}

func endpoint(c *v1alpha1.MySQLCluster, m *member) mysql.Endpoint {
	return mysql.Endpoint{Key: m.name, Address: m.address, ServerName: resources.MemberDNSNames(c, m.name, "")[0]}
}

func membersOf(w *world, c *v1alpha1.MySQLCluster) []*member {
	return w.fleet.members[hostPort(resources.PrimaryHost(c)+"."+clusterDomain)].trio.members
}

func TestMembersAreObservedAsReady(t *testing.T) {
	w, c, identity := trioOf(t, "orders")
	pool := conn.NewPool(conn.Options{Dial: w.fleet.dial})
	t.Cleanup(pool.Close)
	for ordinal, m := range membersOf(w, c) {
		o := admin.Open(pool, endpoint(c, m), identity).Observe(t.Context())
		if o.Access != mysql.AccessVerified || o.Version != serverVersion || !o.MembershipKnown || o.Membership == nil {
			t.Fatalf("%s: %+v", m.name, o)
		}
		primary := ordinal == 0
		if o.ReadOnly == primary || (o.Replication == nil) != primary || o.SemiSync.SourceEnabled != primary || o.SemiSync.ReplicaEnabled == primary {
			t.Errorf("%s has not the role that it should have: %+v", m.name, o)
		}
		if !primary && (o.Replication.IOState != mysql.IOOn || !o.Replication.SQLRunning || o.Replication.LagSeconds == nil || o.Replication.Retrieved != o.Executed) {
			t.Errorf("%s does not follow: %+v", m.name, o.Replication)
		}
		for name, pinned := range mysql.PinnedSettings() {
			if !mysql.EqualSetting(pinned, o.Settings[name]) {
				t.Errorf("%s: %s is %q", m.name, name, o.Settings[name])
			}
		}
		if len(o.Membership.Voters) != membersEach || o.Membership.W != 1 {
			t.Errorf("%s: membership %+v", m.name, o.Membership)
		}
	}
	if n := w.fleet.unknown.Load() + w.fleet.changes.Load(); n != 0 {
		t.Errorf("%d statements were not known", n)
	}
}

func TestMembersInsistOnTheOperatorsCertificate(t *testing.T) {
	w, c, identity := trioOf(t, "orders")
	_, _, stranger := trioOf(t, "strangers")
	pool := conn.NewPool(conn.Options{Dial: w.fleet.dial})
	t.Cleanup(pool.Close)
	m := membersOf(w, c)[1]
	theirs := stranger
	theirs.CAPEM = identity.CAPEM
	if o := admin.Open(pool, endpoint(c, m), theirs).Observe(t.Context()); o.Access != mysql.AccessDenied {
		t.Errorf("a certificate of another authority: %s %s", o.Access, o.Reason)
	}
	ours := identity
	ours.CAPEM = stranger.CAPEM
	e := endpoint(c, m)
	e.Key = "other"
	if o := admin.Open(pool, e, ours).Observe(t.Context()); o.Access != mysql.AccessUnverified {
		t.Errorf("a member of another authority: %s %s", o.Access, o.Reason)
	}
	if err := m.admit(mysql.OperatorUser, tls.ConnectionState{}); err == nil {
		t.Error("the operator's account is open to everybody")
	}
}

func TestChangesAreRefusedAndCounted(t *testing.T) {
	w, c, identity := trioOf(t, "orders")
	meter := newMeter()
	pool := conn.NewPool(conn.Options{Dial: w.fleet.dial, Hook: meter.changed})
	t.Cleanup(pool.Close)
	primary := membersOf(w, c)[0]
	err := admin.Open(pool, endpoint(c, primary), identity).PinSettings(t.Context(), map[string]string{"sync_binlog": "0"})
	if err == nil {
		t.Error("the stub took a change")
	}
	if w.fleet.changes.Load() != 1 || total(meter.changes) != 1 {
		t.Errorf("the stub counted %d changes, the hook %v", w.fleet.changes.Load(), meter.changes)
	}
}

// TestASecondHandKillsTheFirst, which keeps its session, and with it the lock.
func TestASecondHandKillsTheFirst(t *testing.T) {
	w, c, identity := trioOf(t, "orders")
	primary := membersOf(w, c)[0]
	hand := func() *admin.Member {
		pool := conn.NewPool(conn.Options{Dial: w.fleet.dial})
		t.Cleanup(pool.Close)
		return admin.Open(pool, endpoint(c, primary), identity)
	}
	if err := hand().PinSettings(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	primary.mu.Lock()
	first := slices.Collect(maps.Values(primary.locks))
	primary.mu.Unlock()
	if len(first) != 1 {
		t.Fatalf("the first hand has %d locks, want one", len(first))
	}
	if err := hand().Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		primary.mu.Lock()
		_, alive := primary.connections[first[0]]
		primary.mu.Unlock()
		if !alive {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the first hand's session is still open")
		}
	}
	if n := w.fleet.unknown.Load() + w.fleet.changes.Load(); n != 0 {
		t.Errorf("%d statements were not known", n)
	}
}

func TestProbeMovesThePosition(t *testing.T) {
	w, c, identity := trioOf(t, "orders")
	changed := make(chan string, 8)
	prober := probe.NewProber(probe.ProberOptions{Pool: conn.Options{Dial: w.fleet.dial}, OnChange: func(key string) { changed <- key }})
	t.Cleanup(prober.Close)
	host := resources.PrimaryHost(c)
	prober.Set("key", probe.Target{Address: hostPort(host + "." + clusterDomain), ServerName: host, Identity: identity})
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatalf("no write went through: %+v", prober.Status("key"))
	}
	if n := membersOf(w, c)[0].trio.executed.Load(); n <= transactions {
		t.Errorf("the position is still %d", n)
	}
}

func TestDialKnowsNobodyElse(t *testing.T) {
	w, _, _ := trioOf(t, "orders")
	if _, err := w.fleet.dial(t.Context(), "tcp", net.JoinHostPort("10.0.0.1", "3306")); !errors.Is(err, child.ErrNobody) {
		t.Errorf("dialling a stranger: %v", err)
	}
}

func TestCloudShowsMachinesAndRefusesChanges(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "bench")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "bench")
	w, c, _ := trioOf(t, "orders")
	meter := newMeter()
	cloud, err := ec2.NewFactory(ec2.Options{Config: awsapi.Config{Middleware: func(http.RoundTripper) http.RoundTripper { return meter.aws(w.cloud) }}}).
		Cloud(t.Context(), awsapi.Account{Region: region})
	if err != nil {
		t.Fatal(err)
	}
	found, err := cloud.Inventory.Observe(t.Context(), string(c.UID), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Instances) != membersEach || len(found.Volumes) != membersEach || len(found.SecurityGroups) != 1 {
		t.Fatalf("EC2 shows %+v", found)
	}
	for i, in := range found.Instances {
		v := found.Volumes[i]
		if in.State != inventory.StateRunning || v.AttachedTo != in.ID || v.AttachState != inventory.AttachAttached || v.Zone != in.Zone || in.Incarnation != 1 {
			t.Errorf("instance %+v, volume %+v", in, v)
		}
		if w.fleet.members[hostPort(in.PrivateIP)] == nil {
			t.Errorf("nobody answers at %s", in.PrivateIP)
		}
	}
	before := total(meter.besideAWS)
	owner := awsapi.Ownership{ClusterUID: string(c.UID), Namespace: c.Namespace, Cluster: c.Name}
	if _, err := cloud.EnsureSecurityGroup(t.Context(), ec2.SecurityGroupSpec{Owner: owner, VPCID: vpcID, ClientCIDRs: []string{clientCIDR}}); err != nil {
		t.Error(err)
	}
	if after := total(meter.besideAWS); after != before {
		t.Errorf("a security group that is as it should be took %d calls", after-before)
	}
	if err := cloud.StartInstance(t.Context(), string(c.UID), found.Instances[0].ID); err == nil || !strings.Contains(err.Error(), "StartInstances") {
		t.Errorf("a change to EC2 was answered with %v", err)
	}
}

func TestPagesHoldEverythingOnce(t *testing.T) {
	items := []string{"a", "b", "c", "d", "e"}
	got, token := "", ""
	for range items {
		page, next := pageOf(items, map[string][]string{"MaxResults": {"2"}, "NextToken": {token}})
		got += strings.Join(page, "")
		token = strings.TrimSuffix(strings.TrimPrefix(next, "<nextToken>"), "</nextToken>")
		if next == "" {
			break
		}
	}
	if got != "abcde" {
		t.Errorf("the pages hold %q", got)
	}
}

func TestStopwatchTakesOnlyReconciles(t *testing.T) {
	m := newMeter()
	s := &stopwatch{meter: m}
	s.Since(time.Now())
	if len(m.laps) != 0 {
		t.Error("a look at the clock passed for a reconcile")
	}
	(&reconciler{s}).Reconcile(t.Context())
	if len(m.laps) != 1 {
		t.Errorf("%d laps of one reconcile", len(m.laps))
	}
}

type reconciler struct{ clock *stopwatch }

func (r *reconciler) Reconcile(context.Context) { r.clock.Since(r.clock.Now()) }
