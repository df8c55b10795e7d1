package ec2

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr/testr"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// The tests that use lab run against moto's server over HTTP with the real SDK. What moto does not do by itself (tokens,
// attach checks, faults) is the lab's own reading of AWS's documentation; see test/lab/moto.

const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"

	// settleTime bounds the waiting for one of the server's transitions, which take 50 ms by its clock.
	settleTime  = time.Minute
	settleDelay = 50 * time.Millisecond
)

// server is one moto for all tests; each test has clusters of its own in it.
var server struct {
	once   sync.Once
	moto   *moto.Server
	seeded moto.Seeded
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.moto != nil {
		if err := server.moto.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func startServer() {
	ctx := context.Background()
	server.moto, server.err = moto.Start(ctx, moto.Options{Delay: settleDelay, Log: os.Stderr})
	if server.err == nil {
		server.seeded, server.err = server.moto.Seed(ctx)
	}
}

// lab is one test's way to the server: a proxy of its own, a clock that it moves, and a Cloud.
type lab struct {
	t      *testing.T
	proxy  *proxy.Proxy
	clock  *clocktesting.FakePassiveClock
	cloud  *Cloud
	seeded moto.Seeded
	owner  awsapi.Ownership
}

func newLab(t *testing.T, change ...func(*Options)) *lab {
	t.Helper()
	return newLabFor(t, nil, change...)
}

// newLabFor is newLab in which the operator is not limited by the published policy, but is the given principal.
func newLabFor(t *testing.T, operator *iam.Principal, change ...func(*Options)) *lab {
	t.Helper()
	server.once.Do(startServer)
	if server.err != nil {
		t.Fatal(server.err)
	}
	l := &lab{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), seeded: server.seeded}
	o := proxy.Options{Upstream: server.moto.Endpoint(), Clock: l.clock, Seed: 1}
	if operator != nil {
		o.Principals = map[string]iam.Principal{moto.AccessKeyID: *operator}
	}
	var err error
	if l.proxy, err = proxy.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.proxy.Stop(); err != nil {
			t.Error(err)
		}
	})
	l.owner = awsapi.Ownership{ClusterUID: fmt.Sprintf("uid-%s-%d", t.Name(), time.Now().UnixNano()), Namespace: "shop", Cluster: "orders",
		UserTags: map[string]string{"team": "payments"}}
	l.cloud = l.newCloud(change...)
	return l
}

// newCloud is what a new process of the operator would have: an empty store.
func (l *lab) newCloud(change ...func(*Options)) *Cloud {
	l.t.Helper()
	o := Options{Logger: testr.New(l.t),
		Config: awsapi.Config{Endpoint: l.proxy.Endpoint(), UserAgent: "nairobi-mysql-operator/test", Clock: l.clock,
			CallTimeout: settleTime / 2}, // the server is Python, and shares its processors with other tests
		LookPatience: settleTime, // what a look finds is asserted, and not how soon
	}
	for _, f := range change {
		f(&o)
	}
	cloud, err := NewFactory(o).Cloud(l.t.Context(), awsapi.Account{Region: moto.Region,
		Static: &awsapi.StaticCredentials{AccessKeyID: moto.AccessKeyID, SecretAccessKey: moto.SecretAccessKey}})
	if err != nil {
		l.t.Fatal(err)
	}
	return cloud
}

func (l *lab) fault(r proxy.Rule) (remove func()) {
	l.t.Helper()
	id, err := l.proxy.Add(r)
	if err != nil {
		l.t.Fatal(err)
	}
	return func() { l.proxy.Remove(id) }
}

// hold keeps the server's states as they are until goOn is called, or the test ends.
func (l *lab) hold() (goOn func()) {
	l.t.Helper()
	set := func(ctx context.Context, held bool) {
		if err := server.moto.Hold(ctx, held); err != nil {
			l.t.Error(err)
		}
	}
	set(l.t.Context(), true)
	l.t.Cleanup(func() { set(context.WithoutCancel(l.t.Context()), false) })
	return func() { set(l.t.Context(), false) }
}

func (l *lab) pass(d time.Duration) { l.clock.SetTime(l.clock.Now().Add(d)) }

// sdk speaks to the server directly, as other users of the account do.
func (l *lab) sdk() *awsec2.Client { return awsec2.NewFromConfig(server.moto.Config()) }

func (l *lab) launchSpec(member string, incarnation int) LaunchSpec {
	return LaunchSpec{
		Owner: l.owner, Member: member, Incarnation: incarnation, TemplateHash: "hash", ImageID: l.seeded.Image,
		InstanceType: "m6i.large", SubnetID: l.seeded.Subnets[zoneA], UserData: []byte("#!/bin/bash\n"), RootEncrypted: true,
	}
}

func (l *lab) volumeSpec(member string, incarnation int) VolumeSpec {
	return VolumeSpec{Owner: l.owner, Member: member, Incarnation: incarnation, Zone: zoneA, VolumeConfiguration: VolumeConfiguration{SizeGiB: 10, Type: "gp3"}, Encrypted: true}
}

func (l *lab) launch(member string) inventory.Instance {
	l.t.Helper()
	for {
		i, err := l.cloud.LaunchInstance(l.t.Context(), l.launchSpec(member, 1))
		if awsapi.IsWaiting(err) && awsapi.Code(err) == "" {
			l.pass(time.Second / callRate) // for its turn
			continue
		}
		if err != nil {
			l.t.Fatal(err)
		}
		return i
	}
}

func (l *lab) volume(member string) inventory.Volume {
	l.t.Helper()
	v, err := l.cloud.CreateVolume(l.t.Context(), l.volumeSpec(member, 1))
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

func (l *lab) observe() inventory.Inventory {
	l.t.Helper()
	inv, err := l.cloud.Inventory.Observe(l.t.Context(), l.owner.ClusterUID, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	return inv
}

// until refreshes, as reconciles do, until the cluster's inventory is as wanted.
func (l *lab) until(what string, ok func(inventory.Inventory) bool) inventory.Inventory {
	l.t.Helper()
	deadline := time.Now().Add(settleTime)
	for {
		l.pass(inventory.RefreshFloor)
		inv, err := l.cloud.Inventory.Refresh(l.t.Context(), l.owner.ClusterUID)
		if err != nil {
			l.t.Fatal(err)
		}
		if ok(inv) {
			return inv
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not %s within %s: %+v", what, settleTime, inv)
		}
		time.Sleep(settleDelay / 2)
	}
}

func (l *lab) running(member string) inventory.Instance {
	l.t.Helper()
	i := l.launch(member)
	l.until("running", func(inv inventory.Inventory) bool {
		return find(inv.Instances, func(x inventory.Instance) bool { return x.ID == i.ID && x.State == inventory.StateRunning }) != nil
	})
	return i
}

func (l *lab) available(member string) inventory.Volume {
	l.t.Helper()
	v := l.volume(member)
	l.until("available", func(inv inventory.Inventory) bool {
		return find(inv.Volumes, func(x inventory.Volume) bool { return x.ID == v.ID && x.State == inventory.VolumeAvailable }) != nil
	})
	return v
}

// realInstances are those of the cluster that the server itself has, whatever the proxy hides.
func (l *lab) realInstances() []types.Instance {
	l.t.Helper()
	out, err := l.sdk().DescribeInstances(l.t.Context(), &awsec2.DescribeInstancesInput{
		Filters: []types.Filter{awsapi.TagFilter("mysql.alx.ke/cluster-uid", l.owner.ClusterUID)}})
	if err != nil {
		l.t.Fatal(err)
	}
	var all []types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}

// really waits until the server itself has an instance of the cluster in a state.
func (l *lab) really(id, state string) {
	l.t.Helper()
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settleDelay / 2) {
		all := l.realInstances()
		if find(all, func(i types.Instance) bool { return aws.ToString(i.InstanceId) == id && string(i.State.Name) == state }) != nil {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s is not %s within %s: %+v", id, state, settleTime, all)
		}
	}
}

// realVolumes are the cluster's data volumes that the server itself has.
func (l *lab) realVolumes() []types.Volume {
	l.t.Helper()
	out, err := l.sdk().DescribeVolumes(l.t.Context(), &awsec2.DescribeVolumesInput{
		Filters: []types.Filter{awsapi.TagFilter("mysql.alx.ke/cluster-uid", l.owner.ClusterUID)}})
	if err != nil {
		l.t.Fatal(err)
	}
	var data []types.Volume
	for _, v := range out.Volumes {
		if awsapi.FromTags(v.Tags)[awsapi.TagPurpose] != awsapi.PurposeRoot {
			data = append(data, v)
		}
	}
	return data
}

func (l *lab) removeTag(id, key string) {
	l.t.Helper()
	_, err := l.sdk().DeleteTags(l.t.Context(), &awsec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(key)}}})
	if err != nil {
		l.t.Fatal(err)
	}
}

func find[T any](all []T, fits func(T) bool) *T {
	for i := range all {
		if fits(all[i]) {
			return &all[i]
		}
	}
	return nil
}
