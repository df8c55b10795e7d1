package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
)

// PreflightSpec is everything of a cluster's spec that EC2 can check before anything is made. Launch and Volume carry the
// owner, instance type, key name, profile and the volume's shape; their subnet, zone, image and groups are filled in here.
type PreflightSpec struct {
	Launch                                   LaunchSpec
	Volume                                   VolumeSpec
	SubnetIDs                                []string
	ImageID, ImageSSMParameter               string
	SecurityGroupIDs, ClientSecurityGroupIDs []string
	// Replicas is how many members are spread round-robin over the subnets; 0 counts as one a subnet.
	Replicas int
	// Begun is true for a cluster that has members. A check that EC2 does not answer, and that their launches do without, is left out.
	Begun bool
}

// Preflight finds what would go wrong before anything is made: it describes what the spec names, compares, and makes the
// creating calls as dry runs. It collects all the problems that it can find; none means that nothing is known to stand in
// the way. EC2 checks capacity and vCPU quotas only at a real launch, whose errors Explain turns into the same words.
//
// The error is set when EC2 could not be asked (no answer, throttled, an internal error); the problems found until then
// come with it.
func (c *Cloud) Preflight(ctx context.Context, spec PreflightSpec) ([]awsapi.Problem, error) {
	p := &preflight{cloud: c, spec: spec}
	for _, step := range []struct {
		check func(context.Context) error
		// advisory is true for what no launch of a member with a volume needs: EC2 answers a launch in a zone, and an order for a volume.
		advisory bool
	}{
		{p.checkKey, false}, {p.checkSubnets, false}, {p.checkType, false}, {p.checkImage, false}, {p.checkZones, true}, {p.checkGroups, false},
		{p.tryLaunch, false}, {p.tryVolume, true}, {p.tryGroup, false},
	} {
		before := len(p.problems)
		if err := step.check(ctx); err != nil && (!step.advisory || !spec.Begun) {
			return p.problems, fmt.Errorf("preflight: %w", err)
		}
		for i := range p.problems[before:] {
			p.problems[before+i].Advisory = step.advisory
		}
		if p.hopeless {
			break
		}
	}
	return p.problems, nil
}

// preflight is one run.
type preflight struct {
	cloud *Cloud
	spec  PreflightSpec

	subnets map[string]inventory.Subnet // set by checkSubnets: those that exist
	vpc     string                      // set by checkSubnets: of the first subnet that exists
	info    *TypeInfo                   // set by checkType; nil for an unknown type
	img     *Image                      // set by checkImage; nil for an unknown image, or one that does not fit the type
	zones   map[string]bool             // set by checkZones: those in which EC2 sells the type; nil when that is not known
	groups  []string                    // set by checkGroups: the members' groups in which no fault was found

	problems []awsapi.Problem
	hopeless bool // AWS does not accept the credentials: every further step would say the same
}

// report files a problem, once.
func (p *preflight) report(problem awsapi.Problem) {
	if !slices.Contains(p.problems, problem) {
		p.problems = append(p.problems, problem)
	}
}

// wrong is a problem that only a change of the spec solves.
func (p *preflight) wrong(field, format string, args ...any) {
	p.report(awsapi.Problem{Field: field, Message: fmt.Sprintf(format, args...), Reason: v1alpha1.ReasonInvalidSpec})
}

// missing is a problem that someone else may be about to solve.
func (p *preflight) missing(field, format string, args ...any) {
	p.report(awsapi.Problem{Field: field, Message: fmt.Sprintf(format, args...), Reason: v1alpha1.ReasonWaitingForDependency, Retry: true})
}

// judge files an error as a problem, or returns it when it says nothing about the spec. field is used where the error
// itself does not point to one.
func (p *preflight) judge(err error, field string) error {
	if err == nil {
		return nil
	}
	switch awsapi.Classify(err) {
	case awsapi.Throttled, awsapi.Transient, awsapi.Unreachable:
		return err
	case awsapi.Denied:
		problem := awsapi.Explain(err)
		p.report(problem)
		p.hopeless = p.hopeless || problem.Reason != v1alpha1.ReasonNotPermitted || problem.Field == awsapi.FieldRole
		return nil
	case awsapi.Waiting, awsapi.Invalid, awsapi.Quota, awsapi.NotFound:
		problem := awsapi.Explain(err)
		if problem.Field == "" {
			problem.Field = field
		}
		p.report(problem)
	}
	return nil
}

// checkKey looks at the encryption key as far as it can be judged without asking KMS.
func (p *preflight) checkKey(context.Context) error {
	key := p.spec.Volume.KMSKeyID
	if key == "" {
		return nil
	}
	if !p.spec.Volume.Encrypted {
		p.wrong(awsapi.FieldEncrypted, "spec.storage.kmsKeyID names a key, but spec.storage.encrypted is false: set it to true, or remove the key")
	}
	// arn:partition:kms:region:account:key/id
	if parts := strings.Split(key, ":"); parts[0] == "arn" && (len(parts) < 6 || parts[2] != "kms" || parts[3] != p.cloud.Inventory.Region()) {
		p.wrong(awsapi.FieldKMSKey, "%s is not the ARN of a KMS key in %s: name a key of that region", key, p.cloud.Inventory.Region())
	}
	return nil
}

// checkSubnets: they exist, are available, lie in one VPC and have free addresses.
func (p *preflight) checkSubnets(ctx context.Context) error {
	found, err := p.cloud.Inventory.AskSubnets(ctx, p.spec.SubnetIDs)
	if err != nil {
		return p.judge(err, awsapi.FieldSubnets)
	}
	p.subnets = found
	known := p.cloud.Inventory.Known(p.spec.Launch.Owner.ClusterUID)
	first := ""
	for i, id := range p.spec.SubnetIDs {
		field := fmt.Sprintf("%s[%d]", awsapi.FieldSubnets, i)
		s, ok := found[id]
		if !ok {
			p.missing(field, "there is no subnet %s in %s. Subnets can be added and not taken out: "+
				"a cluster without members is deleted and created again with the right id, one with members gets another in the same zone", id, p.cloud.Inventory.Region())
			continue
		}
		if s.State != inventory.SubnetAvailable {
			p.missing(field, "subnet %s is %s; waiting until it is available", id, s.State)
		}
		if first == "" {
			first, p.vpc = id, s.VPCID
		}
		if s.VPCID != p.vpc {
			p.wrong(field, "subnet %s is in %s, but %s is in %s: all members must be in one VPC, so choose subnets of one", id, s.VPCID, first, p.vpc)
		}
		p.checkRoom(field, s, p.addressesNeeded(i, known))
	}
	return nil
}

// checkRoom: the subnet has as many free IPv4 addresses as its members need.
func (p *preflight) checkRoom(field string, s inventory.Subnet, need int32) {
	switch {
	case s.IPv6Only:
		p.wrong(field, "subnet %s has IPv6 addresses only, and members need IPv4: choose a subnet with an IPv4 range", s.ID)
	case s.AvailableIPs < need:
		p.report(awsapi.Problem{Field: field, Reason: v1alpha1.ReasonInsufficientCapacity, Retry: true, Message: fmt.Sprintf(
			"subnet %s (%s) has %d free addresses and needs %d: free some, or choose a larger subnet", s.ID, s.CIDR, s.AvailableIPs, need)})
	}
}

// addressesNeeded is how many members the i-th subnet still has to take. While a member is replaced, old and new instance
// exist side by side, so a subnet in use needs one at least.
func (p *preflight) addressesNeeded(i int, known inventory.Inventory) int32 {
	n := len(p.spec.SubnetIDs)
	if p.spec.Replicas == 0 {
		return 1
	}
	members := p.spec.Replicas / n
	if i < p.spec.Replicas%n {
		members++
	}
	if members == 0 {
		return 0
	}
	for _, instance := range known.Instances {
		if instance.SubnetID == p.spec.SubnetIDs[i] && instance.State != inventory.StateTerminated {
			members--
		}
	}
	return int32(max(members, 1))
}

// checkType: the instance type exists in the region.
func (p *preflight) checkType(ctx context.Context) error {
	info, err := p.cloud.images.instanceType(ctx, p.spec.Launch.InstanceType)
	if err != nil {
		return p.judge(err, awsapi.FieldInstanceType)
	}
	p.info = &info
	return nil
}

// xenDataDevice is what older images call DataDevice.
const xenDataDevice = "/dev/xvdf"

// checkImage: the image exists, is available, and fits the instance type.
func (p *preflight) checkImage(ctx context.Context) error {
	field := awsapi.FieldImageID
	if p.spec.ImageID == "" {
		field = awsapi.FieldImageAlias
		if p.spec.ImageSSMParameter == "" && p.info == nil {
			return nil // without the type's architecture there is no default image; checkType has said so
		}
	}
	image, err := p.cloud.ResolveImage(ctx, p.spec.ImageID, p.spec.ImageSSMParameter, p.spec.Launch.InstanceType)
	if err != nil {
		return p.judge(err, field)
	}
	if image.State != imageAvailable {
		p.missing(field, "image %s is %s; waiting until it is available", image.ID, image.State)
	}
	if p.info != nil && !slices.Contains(p.info.architectures, image.Architecture) {
		p.wrong(field, "image %s is built for %s, but %s is %s: choose an image for that architecture, or another spec.aws.instanceType",
			image.ID, image.Architecture, p.spec.Launch.InstanceType, p.info.Architecture())
		return nil
	}
	if image.RootOnInstanceStore {
		p.wrong(field, "the root of image %s is on an instance store, and EC2 cannot stop such an instance, as a failover has to: choose an image whose root is an EBS volume", image.ID)
		return nil
	}
	for _, other := range image.Others {
		if other.Device == DataDevice || other.Device == xenDataDevice {
			p.wrong(field, "image %s brings a volume of its own as %s, where the data volume is attached: choose an image without it", image.ID, other.Device)
		}
	}
	p.img = &image
	return nil
}

// checkZones: EC2 sells the instance type in the zone of every subnet.
func (p *preflight) checkZones(ctx context.Context) error {
	if p.info == nil {
		return nil
	}
	zones, err := p.cloud.images.zonesOffering(ctx, p.spec.Launch.InstanceType)
	if err != nil {
		return p.judge(err, awsapi.FieldInstanceType)
	}
	p.zones = zones
	for i, id := range p.spec.SubnetIDs {
		if s, ok := p.subnets[id]; ok && !zones[s.Zone] {
			p.wrong(fmt.Sprintf("%s[%d]", awsapi.FieldSubnets, i), "EC2 does not offer %s in %s, the zone of subnet %s, but only in: %s. Choose a subnet there, or another spec.aws.instanceType",
				p.spec.Launch.InstanceType, s.Zone, id, strings.Join(slices.Sorted(maps.Keys(zones)), ", "))
		}
	}
	return nil
}

// checkGroups: the security groups exist; the members' are in the members' VPC. The clients' may be in a peered one.
func (p *preflight) checkGroups(ctx context.Context) error {
	ids := slices.Concat(p.spec.SecurityGroupIDs, p.spec.ClientSecurityGroupIDs)
	found, err := p.cloud.Inventory.Groups.ByID(ctx, ids...)
	if err != nil {
		return p.judge(err, awsapi.FieldGroups)
	}
	for i, id := range p.spec.SecurityGroupIDs {
		field := fmt.Sprintf("%s[%d]", awsapi.FieldGroups, i)
		g, ok := found[id]
		switch {
		case !ok:
			p.missing(field, "there is no security group %s in %s: create it, or correct the id", id, p.cloud.Inventory.Region())
		case p.vpc != "" && g.VPCID != p.vpc:
			p.wrong(field, "security group %s is in %s, but the subnets are in %s: choose a group of that VPC", id, g.VPCID, p.vpc)
		default:
			p.groups = append(p.groups, id)
		}
	}
	for i, id := range p.spec.ClientSecurityGroupIDs {
		if _, ok := found[id]; !ok {
			p.missing(fmt.Sprintf("%s[%d]", awsapi.FieldClientGroups, i),
				"this account has no security group %s in %s: create it, or correct the id; clients of another account or region are admitted by spec.aws.clientCIDRs", id, p.cloud.Inventory.Region())
		}
	}
	return nil
}

// tryLaunch makes RunInstances as a dry run in the first subnet that exists, with those parts of the spec in which no
// fault was found: EC2 names only the first fault that it meets, and that should be a new one. What passed a moment ago for another
// cluster is not tried again.
func (p *preflight) tryLaunch(ctx context.Context) error {
	subnet, ok := p.firstSubnet()
	if !ok || p.img == nil || p.info == nil {
		return nil // what is missing has been said
	}
	spec := p.spec.Launch
	spec.SubnetID, spec.ImageID, spec.SecurityGroupIDs = subnet.ID, p.img.ID, p.groups
	if len(spec.UserData) > MaxUserData {
		p.wrong("", "%d bytes of user data, at most %d: shorten spec.mysqld", len(spec.UserData), MaxUserData)
		return nil
	}
	if _, ok := p.cloud.launchable.get(spec.alike(), p.cloud.clock.Now()); ok {
		return nil
	}
	input, err := p.cloud.runInput(ctx, spec)
	if err != nil {
		return p.judge(err, awsapi.FieldImageID)
	}
	if !p.cloud.launches.TryAccept() {
		return &awsapi.Error{Class: awsapi.Throttled, Text: fmt.Sprintf("waiting for its turn: one account can try %d launches a second", callRate)}
	}
	// The incarnation's token stays unused, whatever EC2 does with tokens of dry runs.
	input.DryRun, input.ClientToken = aws.Bool(true), nil
	if _, err = p.cloud.api.RunInstances(ctx, input, once); passed(err) {
		p.cloud.launchable.set(spec.alike(), struct{}{}, p.cloud.clock.Now())
		return nil
	}
	return p.judge(explainLaunch(err, spec, p.cloud.Inventory.Region()), awsapi.FieldInstanceType)
}

// tryVolume makes CreateVolume as a dry run in the zone of the first subnet.
func (p *preflight) tryVolume(ctx context.Context) error {
	subnet, ok := p.firstSubnet()
	if !ok {
		return nil
	}
	spec := p.spec.Volume
	spec.Zone = subnet.Zone
	input := volumeInput(spec)
	input.DryRun, input.ClientToken = aws.Bool(true), nil
	if _, err := p.cloud.api.CreateVolume(ctx, input); !passed(err) {
		return p.judge(err, awsapi.FieldStorage)
	}
	return nil
}

// tryGroup makes CreateSecurityGroup as a dry run, when the cluster needs a group of its own and has none yet.
func (p *preflight) tryGroup(ctx context.Context) error {
	owner := p.spec.Launch.Owner
	if len(p.spec.SecurityGroupIDs) > 0 || p.vpc == "" || len(p.cloud.Inventory.Known(owner.ClusterUID).SecurityGroups) > 0 {
		return nil
	}
	input := groupInput(owner, p.vpc)
	input.DryRun = aws.Bool(true)
	if _, err := p.cloud.api.CreateSecurityGroup(ctx, input); !passed(err) && awsapi.Code(err) != codeGroupExists {
		return p.judge(err, awsapi.FieldGroups)
	}
	return nil
}

// firstSubnet is the first in which a member could be.
func (p *preflight) firstSubnet() (inventory.Subnet, bool) {
	for _, id := range p.spec.SubnetIDs {
		if s, ok := p.subnets[id]; ok && s.State == inventory.SubnetAvailable && (p.zones == nil || p.zones[s.Zone]) {
			return s, true
		}
	}
	return inventory.Subnet{}, false
}
