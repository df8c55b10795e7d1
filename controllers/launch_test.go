package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestMachineWhileAnUpgradeIsHeldBack: a member whose instance ends gets one as before, with the version of its data; where EC2 no
// longer takes the order, one as the spec says now.
func TestMachineWhileAnUpgradeIsHeldBack(t *testing.T) {
	t.Parallel()
	for name, imageThen := range map[string]string{"as before": "", "the image is gone": "ami-0123456789abcdef0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.newOperator(nil)
			w.drive(o, patience, w.machinesUp)
			then := observe.TemplateOf(w.cluster)
			if imageThen != "" {
				then.ImageID = imageThen
			}
			w.changeRecords(func(records *topology.ClusterRecord) { records.Template = observe.Marked(w.seen(o), then.Text()) })
			image, err := w.account.api.RegisterImage(t.Context(), &awsec2.RegisterImageInput{
				Name: aws.String("next"), Architecture: types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/xvda"), VirtualizationType: aws.String("hvm"),
			})
			must(t, err)
			w.change(func(c *v1alpha1.MySQLCluster) {
				c.Spec.Version, c.Spec.AWS.ImageID, c.Spec.AWS.InstanceType = "9.7.5", aws.ToString(image.ImageId), "m6i.xlarge"
				c.Spec.Upgrade = &v1alpha1.UpgradeSpec{Paused: true}
			})
			w.wait(time.Minute) // its end does not count as one soon after its launch
			ended := w.damaged()
			w.drive(o, patience, func() bool { return w.machineOf(2) != nil && aws.ToString(w.machineOf(2).InstanceId) != ended })
			got := w.machineOf(2)
			want, kind := then, "m6i.large"
			if imageThen != "" {
				now, _ := w.get()
				want, kind = observe.TemplateOf(now), "m6i.xlarge"
			}
			if hash := tagOf(got.Tags, v1alpha1.TagTemplateHash); aws.ToString(got.ImageId) != want.ImageID || string(got.InstanceType) != kind || hash != want.Hash() {
				t.Errorf("it got image %s, type %s, template %s; want %+v, %s", aws.ToString(got.ImageId), got.InstanceType, hash, want, want.Hash())
			}
		})
	}
}

// machineOf returns a member's instance that lives, nil for none.
func (w *world) machineOf(ordinal int) *types.Instance {
	w.t.Helper()
	all, err := w.account.instances(w.t.Context())
	must(w.t, err)
	for _, r := range all {
		for i := range r.Instances {
			in := &r.Instances[i]
			if state := string(in.State.Name); tagOf(in.Tags, v1alpha1.TagMember) == fmt.Sprintf("%s-%d", w.cluster.Name, ordinal) && state != inventory.StateTerminated && state != inventory.StateShuttingDown {
				return in
			}
		}
	}
	return nil
}

// TestWhatAMachineAsBeforeIsMadeFrom: the version of before with what brings it, and for the rest the present spec; nothing that
// the policy does not allow, and nothing of which EC2 takes no order.
func TestWhatAMachineAsBeforeIsMadeFrom(t *testing.T) {
	cluster := func() *v1alpha1.MySQLCluster {
		return &v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{
			Version: "8.4.6", AWS: v1alpha1.AWSSpec{Region: "us-east-1", InstanceType: "m6i.large", ImageID: "ami-1", KeyName: "before"},
		}}
	}
	then := observe.TemplateOf(cluster())
	authority, err := pki.NewAuthority("uid", "orders", time.Now())
	must(t, err)
	text := observe.Marked(&pass.Pass{Keys: pass.Keys{Authority: authority}}, then.Text())
	rules := func(text string) policy.Policy {
		p, err := policy.Parse(map[string]string{policy.Key: text})
		must(t, err)
		return p
	}
	all := rules("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n    keyNames: [\"*\"]\n")
	refused := func(code string) error {
		return &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithy.GenericAPIError{Code: code}}
	}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.MySQLCluster)
		records string
		policy  policy.Policy
		refused error
		want    func(*v1alpha1.MySQLCluster) // nil for none
	}{
		"nothing is known": {change: func(c *v1alpha1.MySQLCluster) { c.Spec.Version = "9.7.4" }, policy: all},
		"somebody wrote it": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version = "9.7.4" },
			records: "0123 " + then.Text(), policy: all,
		},
		"the version is same": {change: func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.ImageID = "ami-2" }, records: text, policy: all},
		"the version alone": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version = "9.7.4" },
			records: text, policy: all, want: func(*v1alpha1.MySQLCluster) {},
		},
		"all of it": {
			change: func(c *v1alpha1.MySQLCluster) {
				c.Spec.Version, c.Spec.AWS.ImageID, c.Spec.AWS.InstanceType, c.Spec.AWS.KeyName = "9.7.4", "ami-2", "m8g.large", "now"
				c.Spec.AWS.Download = &v1alpha1.DownloadSpec{URL: "https://example.com/mysql.tar.xz"}
			},
			records: text, policy: all, want: func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.KeyName = "now" },
		},
		"the policy does not allow it": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version, c.Spec.AWS.ImageID = "9.7.4", "ami-2" },
			records: text, policy: rules("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [ami-2]\n    subnets: [\"*\"]\n    keyNames: [\"*\"]\n"),
		},
		"EC2 takes no order": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version, c.Spec.AWS.ImageID = "9.7.4", "ami-2" },
			records: text, policy: all, refused: refused("InvalidAMIID.NotFound"),
		},
		"the image is deregistered": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version, c.Spec.AWS.ImageID = "9.7.4", "ami-2" },
			records: text, policy: all, refused: refused("InvalidAMIID.Unavailable"),
		},
		"EC2 knows no such key pair, which is the present one": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version, c.Spec.AWS.ImageID = "9.7.4", "ami-2" },
			records: text, policy: all, refused: refused("InvalidKeyPair.NotFound"), want: func(*v1alpha1.MySQLCluster) {},
		},
		"EC2 has no room": {
			change:  func(c *v1alpha1.MySQLCluster) { c.Spec.Version, c.Spec.AWS.ImageID = "9.7.4", "ami-2" },
			records: text, policy: all, refused: refused("InsufficientInstanceCapacity"), want: func(*v1alpha1.MySQLCluster) {},
		},
	} {
		clock := clocktesting.NewFakePassiveClock(time.Now())
		r := NewMySQLClusterReconciler(pass.Ports{Clock: clock})
		s := &pass.Pass{Cluster: cluster(), Cache: pass.NewCache("uid"), Access: pass.Access{Policy: c.policy}, Keys: pass.Keys{Authority: authority}}
		c.change(s.Cluster)
		s.SetRecords(topology.ClusterRecord{Template: c.records})
		if c.refused != nil {
			r.cloudObserver.ReadBefore(s)
			s.Cache.Requests.RecordPreviousTemplate(s.Desired.PreviousTemplate.Hash, c.refused, clock.Now())
			s.Seen.Previous, s.Desired.PreviousTemplate = nil, topology.Template{}
		}
		r.cloudObserver.ReadBefore(s)
		if c.want == nil {
			if s.Seen.Previous != nil || s.Desired.PreviousTemplate != (topology.Template{}) {
				t.Errorf("%s: it is made from %+v", name, s.Desired.PreviousTemplate)
			}
			if clock.SetTime(clock.Now().Add(10 * time.Minute)); c.refused != nil {
				if r.cloudObserver.ReadBefore(s); s.Seen.Previous == nil {
					t.Errorf("%s: EC2 is never asked again", name)
				}
			}
			continue
		}
		want := cluster()
		c.want(want)
		if s.Seen.Previous == nil || observe.TemplateOf(s.Seen.Previous).Text() != observe.TemplateOf(want).Text() || s.Desired.PreviousTemplate != (topology.Template{Hash: observe.TemplateOf(want).Hash(), Version: "8.4.6"}) {
			t.Errorf("%s: it is made from %+v", name, s.Desired.PreviousTemplate)
		}
	}
}
