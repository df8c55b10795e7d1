package execute

import (
	"context"
	"fmt"
	"maps"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// prepareLaunch copies what a member's instance is launched with, and returns the request: it may go on while the pass writes the object.
func (r *Executor) prepareLaunch(s *pass.Pass, cloud *ec2.Cloud, a topology.LaunchInstance) (func(context.Context) error, error) {
	if s.Keys.Unsigned != nil {
		return nil, s.Keys.Unsigned
	}
	userData, err := bootstrap.Render(r.BootstrapInput(s, a))
	if err != nil {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), After: engine.AfterPerson, Cause: err}
	}
	aws, spec := observe.LaunchedFrom(s, a).Spec.AWS, observe.LaunchSpec(s, a)
	spec.SubnetID, spec.UserData = a.SubnetID, userData
	spec.Owner.UserTags = maps.Clone(spec.Owner.UserTags)
	want := aws.SecurityGroupIDs
	if len(want) == 0 {
		want = []string{s.Observed.SecurityGroup}
	}
	spec.SecurityGroupIDs = ec2.LaunchGroups(want, s.Seen.Inventory.Instances)
	return func(ctx context.Context) error {
		image, err := cloud.ResolveImage(ctx, aws.ImageID, aws.ImageSSMParameter, spec.InstanceType)
		if err != nil {
			return fmt.Errorf("%w: %w", engine.ErrNoImage, err)
		}
		spec.ImageID = image.ID
		_, err = cloud.LaunchInstance(ctx, spec)
		return err
	}, nil
}

// BootstrapInput is what the user data of an instance is made from.
func (r *Executor) BootstrapInput(s *pass.Pass, a topology.LaunchInstance) bootstrap.Input {
	c := observe.LaunchedFrom(s, a)
	in := bootstrap.Input{
		ClusterUID: s.UID(), Namespace: c.Namespace, Cluster: c.Name,
		Member: a.Member, Ordinal: a.Ordinal, Incarnation: a.Incarnation, VolumeIncarnation: a.VolumeIncarnation,
		Version: c.Spec.Version, VolumeID: a.VolumeID,
		CAPEM: s.Keys.Root.CertificatePEM(), JoinToken: s.Keys.Authority.JoinToken(a.Member, a.Incarnation),
		IssuerDN: s.Keys.Root.IssuerDN(), OperatorDN: s.Keys.Root.OperatorDN(),
		Settings: c.Spec.Settings(),
	}
	if large := settings.TooLarge(c.Spec.Settings(), observe.RoomOf(s, c.Spec.AWS.InstanceType)); len(large) > 0 {
		in.Settings = maps.Clone(in.Settings)
		maps.DeleteFunc(in.Settings, func(name, _ string) bool { return large[name] != "" })
	}
	in.Download.Keys = s.Access.Policy.ReleaseKeys()
	if d := c.Spec.AWS.Download; d != nil {
		in.Download.URL, in.Download.Mirror, in.Download.SHA256 = d.URL, d.Mirror, d.SHA256
	}
	return in
}
