package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// Account is an AWS account of a test's own: nothing that other tests make is in it, and moto, which looks at each thing
// of an account for each call, stays fast.
type account struct {
	// id is empty for the account of the lab's own keys, which tests about accounts and credentials share.
	id      string
	api     *awsec2.Client
	image   string
	subnets []string
}

// ownAccount is the transport that takes calls to an account of moto's, whatever their key says.
type ownAccount struct {
	id   string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a ownAccount) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.id == "" {
		return a.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-Moto-Account-Id", a.id)
	return a.next.RoundTrip(r)
}

// newAccount makes an account with an image and a subnet in each zone. No two accounts share an address, so that the
// servers of several can run in one network.
func newAccount(t *testing.T, serial int64) *account {
	t.Helper()
	a := &account{id: fmt.Sprintf("2%011d", serial)}
	config := ownEyes()
	config.HTTPClient = &http.Client{Transport: ownAccount{a.id, http.DefaultTransport}}
	a.api = awsec2.NewFromConfig(config)
	ctx := t.Context()
	v, err := a.api.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String(moto.VPCCIDR)})
	must(t, err)
	for i, zone := range moto.Zones {
		const blocks = 1 << 12 // of 16 addresses
		block := (int(serial)*len(moto.Zones) + i) % blocks
		cidr := fmt.Sprintf("10.77.%d.%d/28", block>>4, block&0xf<<4)
		n, err := a.api.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: aws.String(cidr), AvailabilityZone: aws.String(zone.Name)})
		must(t, err)
		a.subnets = append(a.subnets, aws.ToString(n.Subnet.SubnetId))
	}
	i, err := a.api.RegisterImage(ctx, &awsec2.RegisterImageInput{
		Name: aws.String("lab"), Architecture: types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/xvda"), VirtualizationType: aws.String("hvm"),
	})
	must(t, err)
	a.image = aws.ToString(i.ImageId)
	return a
}

// ownEyes is how a test itself asks moto: once more when moto resets a connection, as a busy one does. What is under test
// asks once a call.
func ownEyes() aws.Config {
	config := cloud.Config()
	config.RetryMaxAttempts = retry.DefaultMaxAttempts
	return config
}

// sharedAccount is the account of the lab's own keys.
func sharedAccount() *account {
	return &account{api: awsec2.NewFromConfig(ownEyes()), image: seeded.Image, subnets: seeded.SubnetIDs()}
}

// left is what an account holds: live instances, data volumes and snapshots, and the names of security groups.
type left struct {
	instances, volumes, snapshots []thing
	groups                        []string
}

// thing is an instance, volume or snapshot. Of is the volume that a snapshot was taken of, or where a volume is attached.
type thing struct{ id, owner, member, state, purpose, of string }

// left reads all that the account holds (of snapshots those of any cluster, and of the shared account only what belongs to
// this cluster), past the proxy: faults must not blind the test.
func (w *world) left() left {
	w.t.Helper()
	l, err := w.account.look(w.t.Context())
	must(w.t, err)
	if w.account.id == "" {
		foreign := func(one thing) bool { return one.owner != string(w.cluster.UID) }
		l.instances, l.volumes, l.snapshots = slices.DeleteFunc(l.instances, foreign), slices.DeleteFunc(l.volumes, foreign), slices.DeleteFunc(l.snapshots, foreign)
		l.groups = slices.DeleteFunc(l.groups, func(name string) bool { return name != ec2.GroupName(string(w.cluster.UID)) })
	}
	return l
}

// instances lists all of them: those of one account, of all tests, do not fit on a page.
func (a *account) instances(ctx context.Context) ([]types.Reservation, error) {
	var all []types.Reservation
	for pages := awsec2.NewDescribeInstancesPaginator(a.api, &awsec2.DescribeInstancesInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Reservations...)
	}
	return all, nil
}

func (a *account) look(ctx context.Context) (left, error) {
	var l left
	live := map[string]bool{}
	instances, err := a.instances(ctx)
	if err != nil {
		return l, err
	}
	for _, r := range instances {
		for _, i := range r.Instances {
			if state := string(i.State.Name); state != inventory.StateTerminated && state != inventory.StateShuttingDown {
				id := aws.ToString(i.InstanceId)
				live[id] = true
				l.instances = append(l.instances, thing{id: id, owner: tagOf(i.Tags, v1alpha1.TagClusterUID), member: tagOf(i.Tags, v1alpha1.TagMember), state: state})
			}
		}
	}
	volumes, err := a.api.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{})
	if err != nil {
		return l, err
	}
	for _, v := range volumes.Volumes {
		found := thing{
			id: aws.ToString(v.VolumeId), owner: tagOf(v.Tags, v1alpha1.TagClusterUID), member: tagOf(v.Tags, v1alpha1.TagMember),
			state: string(v.State), purpose: tagOf(v.Tags, awsapi.TagPurpose),
		}
		if len(v.Attachments) > 0 {
			found.of = aws.ToString(v.Attachments[0].InstanceId)
		}
		if found.purpose != "root" || !live[found.of] {
			l.volumes = append(l.volumes, found)
		}
	}
	// Without the filter moto lists those of its hundreds of public images too.
	snapshots, snapshotsErr := a.api.DescribeSnapshots(ctx, &awsec2.DescribeSnapshotsInput{
		Filters: []types.Filter{{Name: aws.String("tag-key"), Values: []string{v1alpha1.TagClusterUID}}},
	})
	groups, groupsErr := a.api.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{})
	if err := errors.Join(snapshotsErr, groupsErr); err != nil {
		return l, err
	}
	for _, s := range snapshots.Snapshots {
		l.snapshots = append(l.snapshots, thing{
			id: aws.ToString(s.SnapshotId), owner: tagOf(s.Tags, v1alpha1.TagClusterUID), member: tagOf(s.Tags, v1alpha1.TagMember),
			state: string(s.State), purpose: tagOf(s.Tags, awsapi.TagPurpose), of: aws.ToString(s.VolumeId),
		})
	}
	for _, g := range groups.SecurityGroups {
		if name := aws.ToString(g.GroupName); name != "default" {
			l.groups = append(l.groups, name)
		}
	}
	return l, nil
}

// byMember counts things by member.
func byMember(things []thing) map[string]int {
	n := map[string]int{}
	for _, one := range things {
		n[one.member]++
	}
	return n
}

func tagOf(tags []types.Tag, key string) string {
	for _, tag := range tags {
		if aws.ToString(tag.Key) == key {
			return aws.ToString(tag.Value)
		}
	}
	return ""
}

// idsOf are the ids of a member's things, of all members' with an empty name.
func idsOf(things []thing, member string) []string {
	var ids []string
	for _, one := range things {
		if member == "" || one.member == member {
			ids = append(ids, one.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// oneOfEach fails the test unless every member has exactly one live instance and one volume, and nothing else is there.
func (w *world) oneOfEach(members int) {
	w.t.Helper()
	l := w.left()
	instances, volumes := byMember(l.instances), byMember(l.volumes)
	if len(instances) != members || len(volumes) != members || !slices.Equal(l.groups, []string{ec2.GroupName(string(w.cluster.UID))}) || len(l.snapshots) != 0 {
		w.t.Errorf("want %d members, each with one instance and one volume, one security group and no snapshot; there are %+v", members, l)
	}
	for name, n := range instances {
		if n != 1 || volumes[name] != 1 {
			w.t.Errorf("%s has %d instances and %d volumes", name, n, volumes[name])
		}
	}
}

// nothing fails the test unless the account holds nothing but the given number of snapshots.
func (w *world) nothing(snapshots int) {
	w.t.Helper()
	if l := w.left(); len(l.instances)+len(l.volumes)+len(l.groups) != 0 || len(l.snapshots) != snapshots {
		w.t.Errorf("want nothing left but %d snapshots; there are %+v", snapshots, l)
	}
}

func (w *world) stopInstance(id string) {
	w.t.Helper()
	_, err := w.account.api.StopInstances(w.t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{id}})
	must(w.t, err)
}

// snapshot takes a snapshot of a volume, as somebody who has access to the account may.
func (w *world) snapshot(volume string, tags map[string]string) string {
	w.t.Helper()
	var specification []types.TagSpecification
	if len(tags) > 0 {
		specification = []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot}}
	}
	for key, value := range tags {
		specification[0].Tags = append(specification[0].Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	taken, err := w.account.api.CreateSnapshot(w.t.Context(), &awsec2.CreateSnapshotInput{VolumeId: aws.String(volume), TagSpecifications: specification})
	must(w.t, err)
	return aws.ToString(taken.SnapshotId)
}

// snapshotExists says whether a snapshot is still there.
func (w *world) snapshotExists(id string) bool {
	w.t.Helper()
	found, err := w.account.api.DescribeSnapshots(w.t.Context(), &awsec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	return err == nil && len(found.Snapshots) == 1
}
