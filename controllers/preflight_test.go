package controllers

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"

	clocktesting "k8s.io/utils/clock/testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/decide"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/releasekeys"
	"github.com/alx-ke/nairobi-mysql-operator/internal/tarball"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// With the default image, instances that could not verify MySQL are not launched: status says what to change.
func TestNothingIsLaunchedThatNoReleaseKeyCouldVerify(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "" })
	w.releaseKeys(releaseKey(t, time.Now().AddDate(-1, 0, 0), 24*time.Hour))
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/InvalidSpec", "MySQL's release keys expired on ", policy.ReleaseKeysKey))
	w.follow(o, 5)
	if l := w.left(); len(l.instances)+len(l.volumes) != 0 {
		t.Errorf("made all the same: %+v", l)
	}
	w.releaseKeys(releaseKey(t, time.Now(), 24*time.Hour))
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if text := w.condition(v1alpha1.ConditionDegraded); strings.Contains(text, "release keys expired") {
		t.Errorf("Degraded still says %s", text)
	}
}

// That the keys are about to expire is said months before, and hinders nothing.
func TestKeysThatAreAboutToExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "" })
	w.releaseKeys(releaseKey(t, time.Now(), 80*24*time.Hour))
	o := w.newOperator(nil)
	w.drive(o, patience, func() bool {
		return w.phaseIs(v1alpha1.PhaseEC2Ready)() && w.conditionHas(v1alpha1.ConditionDegraded, "True/", "MySQL's release keys expire on ", policy.ReleaseKeysKey)()
	})
	w.releaseKeys(releaseKey(t, time.Now(), 100*24*time.Hour))
	w.drive(o, patience, func() bool { return !strings.Contains(w.condition(v1alpha1.ConditionDegraded), "release keys") })
}

// downloadSite is a site that has every tarball but those of which the address begins with its text.
type downloadSite struct{ without string }

func (s *downloadSite) Missing(wanted tarball.Wanted) (answers string, asked bool) {
	if s.without == "" || !strings.HasPrefix(wanted.Addresses[0], s.without) {
		return "", true
	}
	return wanted.Addresses[0] + ": HTTP 404", true
}

// That MySQL's tarball is gone is said while all members run. Nobody asks where the image has MySQL, nor at an address that the
// administrator's policy does not have.
func TestTarballThatIsGone(t *testing.T) {
	t.Parallel()
	site := &downloadSite{}
	w := makeWorld(&world{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), site: site}, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "" })
	w.releaseKeys(releaseKey(t, time.Now(), 0))
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	site.without = "https://cdn.mysql.com/Downloads/MySQL-9.7/mysql-9.7.4-linux-glibc2.28-x86_64-minimal.tar.xz"
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/", "no new instance can install MySQL 9.7.4", "x86_64-minimal.tar.xz: HTTP 404", "spec.aws.download.mirror"))
	site.without = ""
	w.drive(o, patience, func() bool {
		return !strings.Contains(w.condition(v1alpha1.ConditionDegraded), "no new instance can install")
	})
	for what, change := range map[string]func(*pass.Pass){
		"the image has it": func(s *pass.Pass) { s.Cluster.Spec.AWS.ImageID = w.account.image },
		"the policy has it not": func(s *pass.Pass) {
			s.Cluster.Spec.AWS.Download = &v1alpha1.DownloadSpec{Mirror: "https://cdn.mysql.com"}
		},
		"it is there": func(*pass.Pass) { site.without = "" },
	} {
		site.without = "https://cdn.mysql.com/"
		s := w.seen(o)
		must(t, errors.Join(o.access.Permit(t.Context(), s), o.cloudObserver.Observe(t.Context(), s)))
		change(s)
		must(t, o.decider.Preflight(t.Context(), s))
		for _, f := range s.Unmet {
			if f.Reason == v1alpha1.ReasonDownloadMissing {
				t.Errorf("%s: %s", what, f.Message)
			}
		}
	}
}

// releaseKey returns the armored block of a key that was made at a time and lasts for some.
func releaseKey(t *testing.T, made time.Time, lasts time.Duration) string {
	t.Helper()
	entity, err := openpgp.NewEntity("Release Engineering", "", "release@example.com", &packet.Config{
		Time: func() time.Time { return made }, KeyLifetimeSecs: uint32(lasts.Seconds()),
	})
	must(t, err)
	var block bytes.Buffer
	armored, err := armor.Encode(&block, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, entity.Serialize(armored))
	must(t, armored.Close())
	return block.String()
}

// A subnet without room for its members is told of before anything is launched, and holds up nobody.
func TestSubnetTooSmallForItsMembers(t *testing.T) {
	t.Parallel()
	api := awsec2.NewFromConfig(ownEyes())
	subnet := makeSubnet(t, "10.77.230.0/28")
	var taken []string
	for range 10 { // of 11
		made, err := api.CreateNetworkInterface(t.Context(), &awsec2.CreateNetworkInterfaceInput{SubnetId: aws.String(subnet)})
		must(t, err)
		taken = append(taken, aws.ToString(made.NetworkInterface.NetworkInterfaceId))
	}
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.SubnetIDs = []string{subnet} })
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/InsufficientCapacity", "has 1 free addresses and needs 3"))
	if n := w.proxy.Counts()["RunInstances"]; n > 1+members {
		t.Errorf("told after %d launches", n)
	}
	for _, id := range taken {
		_, err := api.DeleteNetworkInterface(t.Context(), &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(id)})
		must(t, err)
	}
	w.drive(o, patience, func() bool { return w.machinesUp() && w.conditionHas(v1alpha1.ConditionDegraded, "False/")() })
	w.delete()
	w.drive(o, patience, w.gone)
	dropSubnet(t, subnet)
}

// What the spec and the administrator say of MySQL's tarball is in the user data of instances.
func TestInstancesAreSentTheMirrorAndTheKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.Download = &v1alpha1.DownloadSpec{Mirror: "https://mirror.example.com/mysql"}
	})
	block := releaseKey(t, time.Now(), 24*time.Hour)
	w.releaseKeys(block)
	ring, err := releasekeys.Parse(block)
	must(t, err)
	o := w.newOperator(nil)
	userData := func() string {
		s := w.seen(o)
		must(t, errors.Join(o.access.Permit(t.Context(), s), o.identities.Identify(t.Context(), s)))
		spec, err := o.decider.PreflightSpec(s)
		must(t, err)
		text := spec.Launch.UserData
		if r, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(r)
			must(t, err)
		}
		return string(text)
	}
	places, keys := "places='https://mirror.example.com/mysql/Downloads/MySQL-9.7/mysql-9.7.4-", "keys='"+base64.StdEncoding.EncodeToString(ring.Packets)+"'"
	if text := userData(); !strings.Contains(text, places) || !strings.Contains(text, keys) {
		t.Errorf("the user data has no %s, or no %s:\n%s", places, keys, text)
	}
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.Download = &v1alpha1.DownloadSpec{URL: "https://mirror.example.com/m.tar.xz", SHA256: strings.Repeat("0a", 32)}
	})
	if text := userData(); !strings.Contains(text, "places='https://mirror.example.com/m.tar.xz'\nsha256='"+strings.Repeat("0a", 32)+"'\n") {
		t.Errorf("the user data does not have the address and the checksum:\n%s", text)
	}
}

// The preflight asks about what would be made: all members, with their user data.
func TestWhatThePreflightAsksAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	s := w.seen(o)
	must(t, o.identities.Identify(t.Context(), s))
	spec, err := o.decider.PreflightSpec(s)
	must(t, err)
	if spec.Replicas != members || len(spec.Launch.UserData) < 1000 || len(spec.SubnetIDs) == 0 {
		t.Errorf("%d members with %d bytes of user data in %v", spec.Replicas, len(spec.Launch.UserData), spec.SubnetIDs)
	}
	key := decide.PreflightKey(s.Cluster)
	s.Cluster.Spec.MySQLD = map[string]v1alpha1.PlainValue{"back_log": "100"}
	if decide.PreflightKey(s.Cluster) == key {
		t.Error("other settings are other user data, and are not asked about again")
	}
	s.Cluster.Spec.MySQLD = map[string]v1alpha1.PlainValue{}
	for i := range 64 {
		s.Cluster.Spec.MySQLD[fmt.Sprintf("back_log_%02d", i)] = "0123456789abcdefghijklmnopqrstuvwxyz"
	}
	if _, err := o.decider.PreflightSpec(s); err != nil {
		t.Errorf("settings that fit: %v", err)
	}
}

// A shortage is only told, everything else holds the launches up.
func TestWhatThePreflightFound(t *testing.T) {
	t.Parallel()
	w := NewMySQLClusterReconciler(pass.Ports{Clock: (&world{}).now()})
	s := &pass.Pass{Cache: &pass.Cache{}}
	n := s.Cache
	w.decider.RecordPreflight(s, "spec", []awsapi.Problem{
		{Field: "spec.aws.subnetIDs[0]", Reason: v1alpha1.ReasonInsufficientCapacity, Message: "full"},
		{Field: "spec.aws.subnetIDs[1]", Reason: v1alpha1.ReasonInsufficientCapacity, Message: "full"},
	})
	if n.Preflight.Problem != nil || n.Preflight.Shortage == nil || n.Preflight.Shortage.Message != "spec.aws.subnetIDs[0]: full; spec.aws.subnetIDs[1]: full" {
		t.Errorf("problem %v, shortage %v", n.Preflight.Problem, n.Preflight.Shortage)
	}
	w.decider.RecordPreflight(s, "spec", []awsapi.Problem{{Field: "spec.aws.imageID", Reason: v1alpha1.ReasonInvalidSpec, Message: "no image"}})
	if n.Preflight.Problem == nil || n.Preflight.Shortage != nil {
		t.Errorf("problem %v, shortage %v", n.Preflight.Problem, n.Preflight.Shortage)
	}
	w.decider.RecordPreflight(s, "spec", []awsapi.Problem{{Reason: v1alpha1.ReasonNotPermitted, Message: "not allowed to call ssm:GetParameter"}})
	if p := n.Preflight.Problem; p == nil || p.Message != "not allowed to call ssm:GetParameter" {
		t.Errorf("of no field: %v", p)
	}
	// What is wrong with one place holds up a cluster that is to begin, and nobody else's members once there are some.
	ofOnePlace := []awsapi.Problem{
		{Field: "spec.aws.subnetIDs[3]", Reason: v1alpha1.ReasonInvalidSpec, Message: "no such type there"},
		{Field: "spec.aws.clientSecurityGroupIDs[0]", Reason: v1alpha1.ReasonWaitingForDependency, Message: "no such group"},
	}
	w.decider.RecordPreflight(s, "spec", ofOnePlace)
	if n.Preflight.Problem == nil {
		t.Error("a new cluster begins with a subnet that cannot be used")
	}
	amend(s, func(records *topology.ClusterRecord) {
		records.Members = map[string]topology.MemberRecord{"orders-0": {}}
	})
	w.decider.RecordPreflight(s, "spec", ofOnePlace)
	if n.Preflight.Problem != nil || n.Preflight.Shortage == nil {
		t.Errorf("problem %v, shortage %v", n.Preflight.Problem, n.Preflight.Shortage)
	}
	// Nor does what their launches do without.
	advisory := []awsapi.Problem{{Reason: v1alpha1.ReasonNotPermitted, Message: "not allowed to call ec2:CreateVolume", Advisory: true}}
	w.decider.RecordPreflight(s, "spec", advisory)
	if n.Preflight.Problem != nil || n.Preflight.Shortage == nil || n.Preflight.Shortage.Reason != v1alpha1.ReasonNotPermitted {
		t.Errorf("problem %v, shortage %v", n.Preflight.Problem, n.Preflight.Shortage)
	}
	amend(s, func(records *topology.ClusterRecord) { records.Members = nil })
	if w.decider.RecordPreflight(s, "spec", advisory); n.Preflight.Problem == nil {
		t.Error("a new cluster begins without being able to make volumes")
	}
}

// TestPlansKnowWhatIsPermitted: what dry runs have shown reaches the planner, also in a pass that makes none. An operator that was just
// started does not know it.
func TestPlansKnowWhatIsPermitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	w.rehearse(o)
	for name, row := range map[string]struct {
		operator  *operator
		completed bool
	}{"that made them": {o, true}, "that was just started": {w.newOperator(nil), false}} {
		s := w.seen(row.operator)
		s.Cache.Told.FailingSince = w.clock.Now()
		must(t, row.operator.decider.Preflight(t.Context(), s))
		if got := s.Observed.Rehearsal; got.Completed != row.completed || len(got.Lacks) > 0 {
			t.Errorf("the operator %s knows %+v", name, got)
		}
	}
}
