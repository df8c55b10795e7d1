package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

const (
	// skewWarns is where certificates and logs begin to be wrong, skewFails where AWS begins to refuse: it allows 5 minutes.
	skewWarns = 30 * time.Second
	skewFails = 4 * time.Minute
)

// checkIdentity: there are credentials, and AWS accepts them.
func checkIdentity(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	who, err := a.survey.Identity(ctx)
	if err != nil {
		return failed("give the operator's service account an identity by IRSA or EKS Pod Identity (docs/aws.md), or correct the keys",
			"region %s: %s", a.cloud.Inventory.Region(), awsapi.Message(err))
	}
	if strings.HasSuffix(who.ARN, ":root") {
		return warning("use a role with the policy of docs/aws.md", "%s: the credentials are those of the root user of account %s", a.cloud.Inventory.Region(), who.Account)
	}
	return ok("account %s, region %s, %s by %s", who.Account, a.cloud.Inventory.Region(), who.ARN, who.Source)
}

// checkClock goes by what AWS answered until now.
func checkClock(_ context.Context, p *patient) Finding {
	ahead, known := p.doctor.AWSClock.Ahead()
	if !known {
		return notChecked("make AWS reachable, see identity", "AWS answered nothing that has a time")
	}
	words, size := "behind", ahead.Round(time.Second)
	if ahead < 0 {
		words, size = "ahead of", -size
	}
	text := fmt.Sprintf("the clock here is %s %s AWS's", size, words)
	switch change := "synchronise the clock of the node"; {
	case ahead.Abs() >= skewFails:
		return failed(change, "%s; AWS refuses calls from 5 min on", text)
	case ahead.Abs() >= skewWarns:
		return warning(change, "%s", text)
	}
	return ok("%s", text)
}

// checkReads makes the calls that only read.
func checkReads(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	reader, owned := a.cloud.Inventory, awsapi.OwnedFilter()
	calls := []func() error{
		func() error { _, err := reader.Instances.List(ctx, owned); return err },
		func() error { _, err := reader.Volumes.List(ctx, owned); return err },
		func() error { _, err := reader.Snapshots.List(ctx, owned); return err },
		func() error { _, err := reader.Groups.List(ctx, owned); return err },
		func() error {
			_, err := reader.AskSubnets(ctx, []string{sample("").Spec.AWS.SubnetIDs[0]}) // one that does not exist is no error
			return err
		},
		func() error {
			_, err := a.cloud.ResolveImage(ctx, "", "", sample("").Spec.AWS.InstanceType)
			return err
		},
		func() error {
			_, err := reader.Observe(ctx, "", 0)
			for _, list := range reader.Unanswered() {
				if list.List == inventory.ListHealth && err == nil {
					err = list.Err
				}
			}
			return err
		},
	}
	denied, other := map[string]bool{}, error(nil)
	var missing []string
	for _, call := range calls {
		err := call()
		switch action := awsapi.RefusedAction(err); {
		case err == nil:
		case !awsapi.LacksPermission(awsapi.Code(err)):
			other = err
		case !denied[action]:
			denied[action] = true
			missing = append(missing, action)
		}
	}
	switch {
	case len(missing) > 0:
		return failed("attach the policy of docs/aws.md to the identity that identity names", "the AWS identity lacks %s", strings.Join(missing, ", "))
	case other != nil:
		return failed("see identity; otherwise correct what AWS names", "%s", awsapi.Message(other))
	}
	return ok("instances, their status, volumes, snapshots, security groups, subnets, images and instance types can be read")
}

// checkMetadataDefaults looks for a default that has EC2 refuse tags such as the operator's. Its launches override it.
func checkMetadataDefaults(ctx context.Context, p *patient) Finding {
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	found, err := a.survey.MetadataDefaults(ctx)
	if err != nil {
		return unread(err, "ec2:GetInstanceMetadataDefaults")
	}
	by := "the account's default"
	if found.ByPolicy {
		by = "a declarative policy of the organization"
	}
	switch {
	case found.ShowsTags:
		return warning("set the default of tags in instance metadata to disabled, or see that nobody enables them on members",
			"%s shows tags in instance metadata, where EC2 refuses tags like mysql.alx.ke/cluster-uid; the operator's launches disable it", by)
	case found.Closed:
		return warning("set the default of the metadata endpoint to enabled", "%s is no metadata service; the operator's launches enable it", by)
	}
	return ok("%s suits", by)
}

const (
	// probeOwner is the UID in the tags of what probes make.
	probeOwner = "nairobi-doctor"
	// probeMember names the member in those tags.
	probeMember = "nairobi-doctor-0"
	// probePatience is how long a volume may take to become available, probeCleanup how long its removal may.
	probePatience = time.Minute
	probeCleanup  = time.Minute
	probePause    = time.Second
)

// probeVolume makes a volume of 1 GiB with the cluster's key, and deletes it. EBS judges keys and quotas only when a volume is made.
func probeVolume(ctx context.Context, p *patient) Finding {
	if p.cluster == nil {
		return notChecked("name a cluster or a manifest", "no cluster says in which zone and with which key")
	}
	a, err := p.account(ctx)
	if err != nil {
		return unreached(err)
	}
	spec, err := p.doctor.Preflight(p.cluster, p.doctor.policy)
	if err != nil {
		return notChecked("correct spec, see its finding", "%v", err)
	}
	first := p.cluster.Spec.AWS.SubnetIDs[0]
	subnets, err := a.cloud.Inventory.AskSubnets(ctx, []string{first})
	if err != nil || subnets[first].Zone == "" {
		return notChecked("correct subnets, see its finding", "the zone of subnet %s is not known", first)
	}
	v := spec.Volume
	v.Owner.ClusterUID, v.Member, v.Incarnation, v.Zone = probeOwner, probeMember, int(p.doctor.Clock.Now().Unix()), subnets[first].Zone
	v.VolumeConfiguration, v.MySQLVersion = ec2.VolumeConfiguration{SizeGiB: 1, Type: "gp3"}, ""
	_ = removeProbes(ctx, a) // of an earlier run; what stays is deleted below, or reported
	made, err := a.cloud.CreateVolume(ctx, v)
	if err != nil {
		_ = removeProbes(ctx, a) // an answer may have been lost
		return failed("see iam-launch, volume and kms-key", "a volume of 1 GiB cannot be made: %s", awsapi.Message(err))
	}
	unusable := awaitVolume(ctx, a, made.ID)
	if errors.Is(unusable, errVanished) {
		a.cloud.Inventory.Volumes.Deleted(made.ID)
	}
	if left := removeProbes(ctx, a, made.ID); left != nil {
		return failed("delete volume "+made.ID, "volume %s cannot be deleted: %s", made.ID, awsapi.Message(left))
	}
	if unusable != nil {
		return failed("let the identity use the KMS key: in its own policy and in that of the key (docs/aws.md)", "volume %s in %s %v; it is deleted", made.ID, v.Zone, unusable)
	}
	return ok("a volume of 1 GiB was made in %s and deleted", v.Zone)
}

// errVanished says that EC2 does not show a volume that it has made: not any more, or not within probePatience.
var errVanished = errors.New("vanished, as one does whose key EBS may not use")

// vanishedFor is how often in a row EC2 must not show a volume that it showed before.
const vanishedFor = 3

// awaitVolume waits until EC2 shows the volume as available.
func awaitVolume(ctx context.Context, a *account, id string) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for seen, missed := false, 0; ; { // missed counts the answers in a row without it
		v, found, err := a.cloud.Inventory.VolumeByID(ctx, id)
		switch {
		case err != nil:
		case found:
			a.cloud.Inventory.Volumes.Found(id, v) // what EC2 has shown and shows no longer is gone
			if v.State == inventory.VolumeAvailable {
				return nil
			}
			seen, missed = true, 0
		default:
			missed++
		}
		if seen && missed >= vanishedFor {
			return errVanished
		}
		select {
		case <-ctx.Done():
			if missed >= vanishedFor {
				return errVanished
			}
			return fmt.Errorf("did not become available: %w", ctx.Err())
		case <-time.After(probePause):
		}
	}
}

// removeProbes deletes volumes that probes made: those with the ids, which EC2's lists may not show yet, and those of an earlier run that
// was killed. An interrupt does not keep it from that. EC2 deletes no volume that it is still creating, so it may take a while.
func removeProbes(ctx context.Context, a *account, ids ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	for {
		listed, err := a.cloud.Inventory.Volumes.List(ctx, awsapi.TagFilter(v1alpha1.TagClusterUID, probeOwner))
		for id := range listed {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			err = errors.Join(err, a.cloud.DeleteVolume(ctx, probeOwner, id))
		}
		if err == nil || awsapi.IsDenied(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(probePause):
		}
	}
}
