package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// GoneFor is how long EC2's word that a recorded volume does not exist is believed before it is asked again.
const GoneFor = 30 * time.Second

// endedFor is the same for an instance: one that ended does not come back.
const endedFor = 10 * time.Minute

// findHidden looks for what the inventory lacks because somebody took the cluster's tag from it: the sweep goes by that.
func (r *Cloud) findHidden(ctx context.Context, s *pass.Pass) error {
	now := r.Clock.Now()
	maps.DeleteFunc(s.Cache.Cloud.GoneAt, func(id string, at time.Time) bool {
		if strings.HasPrefix(id, "i-") {
			return now.Sub(at) >= endedFor
		}
		return now.Sub(at) >= GoneFor
	})
	if err := r.findVolumes(ctx, s); err != nil {
		return err
	}
	if err := r.findInstances(ctx, s); err != nil || !s.Deleting() {
		return err
	}
	return r.findGroup(ctx, s)
}

// find asks EC2 for what the inventory lacks. A pass four times a second must not be as many calls to an EC2 that throttles.
func find[T any](r *Cloud, s *pass.Pass, what string, ask func() (T, error)) (found T, err error) {
	err = s.Cache.Requests.Look(engine.Errand{What: engine.FindErrand, Object: what}, r.Clock, func() (err error) {
		found, err = ask()
		return err
	})
	return found, err
}

// findGroup looks by name, while the cluster is deleted, for its security group, which nothing else knows of once the tag is gone.
func (r *Cloud) findGroup(ctx context.Context, s *pass.Pass) error {
	name := ec2.GroupName(s.UID())
	_, gone := s.Cache.Cloud.GoneAt[name]
	if gone || slices.ContainsFunc(s.Seen.Inventory.SecurityGroups, func(g inventory.SecurityGroup) bool { return g.Name == name }) {
		return nil
	}
	found, err := find(r, s, name, func() ([]inventory.SecurityGroup, error) { return s.Access.Cloud.Inventory.GroupsByName(ctx, name) })
	if err != nil {
		return err
	}
	for _, g := range found {
		switch g.Tags[v1alpha1.TagClusterUID] {
		case s.UID(): // which the last sweep did not see yet
			s.Seen.Inventory.SecurityGroups = append(s.Seen.Inventory.SecurityGroups, g)
			return nil
		case "":
			s.Seen.LostGroup = lostTag(s, "security group "+g.ID, "deleted")
			return nil
		}
	}
	s.Cache.Cloud.GoneAt[name] = r.Clock.Now()
	return nil
}

// findVolumes looks by id, in one call, for the recorded volumes that the inventory lacks: one that somebody took the cluster's
// tag from is still there, with all its data. It counts as its member's, and is reported. The records are a ConfigMap of the
// cluster's namespace, to which others may be able to write: what a volume's own tags give to another cluster they cannot make
// this one's.
func (r *Cloud) findVolumes(ctx context.Context, s *pass.Pass) error {
	n, now := s.Cache, r.Clock.Now()
	members := hiddenVolumes(s)
	if len(members) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(members))
	found, err := find(r, s, "volumes", func() (map[string]inventory.Volume, error) { return s.Access.Cloud.Inventory.VolumesByID(ctx, ids) })
	if err != nil {
		return err
	}
	for _, id := range ids {
		v, ok := found[id]
		if !ok {
			n.Cloud.GoneAt[id] = now
			continue
		}
		member := members[id]
		switch uid := v.Tags[v1alpha1.TagClusterUID]; {
		case !mayBeOurs(s, member, v.Tags):
			s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonForeignResource, Message: othersMessage(s, member, id)})
			continue
		case uid == "":
			v.Member, v.Incarnation = member, s.Records().Members[member].Volume
		}
		s.Seen.Inventory.Volumes = append(s.Seen.Inventory.Volumes, v)
	}
	return nil
}

// hiddenVolumes are the recorded volumes that the inventory lacks, with their members.
func hiddenVolumes(s *pass.Pass) map[string]string {
	known := map[string]bool{}
	for _, v := range s.Seen.Inventory.Volumes {
		known[v.ID] = true
	}
	hidden := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Records().Members)) {
		id := s.Records().Members[name].VolumeID
		_, gone := s.Cache.Cloud.GoneAt[id]
		_, twice := hidden[id]
		if _, ok := s.Desired.Ordinal(name); ok && id != "" && !known[id] && !gone && !twice {
			hidden[id] = name
		}
	}
	return hidden
}

// findInstances looks by id, in one call, for instances that the inventory lacks: those that have a member's volume, and those
// that were given a certificate. Such an id proves nothing: a person may have the volume in another instance, and the records
// can be forged. What was launched with the client token of one of the member's incarnations is its instance, and is reported.
func (r *Cloud) findInstances(ctx context.Context, s *pass.Pass) error {
	members := hiddenInstances(s)
	if len(members) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(members))
	found, err := find(r, s, "instances", func() (map[string]inventory.Instance, error) { return s.Access.Cloud.Inventory.InstancesByID(ctx, ids) })
	if err != nil {
		return err
	}
	for _, id := range ids {
		in, member := found[id], members[id]
		incarnation, ours := in.LaunchedFor(s.Owner(), member, s.Records().Members[member].Instance)
		if !ours || in.State == inventory.StateTerminated || !mayBeOurs(s, member, in.Tags) {
			s.Cache.Cloud.GoneAt[id] = r.Clock.Now()
			continue
		}
		in.Member, in.Incarnation = member, incarnation
		s.Seen.Inventory.Instances = append(s.Seen.Inventory.Instances, in)
	}
	return nil
}

// hiddenInstances are the instances that the inventory lacks, with the members whose they may be.
func hiddenInstances(s *pass.Pass) map[string]string {
	known := map[string]bool{"": true}
	for _, in := range s.Seen.Inventory.Instances {
		known[in.ID] = true
	}
	hidden := map[string]string{}
	add := func(id, member string) {
		_, gone := s.Cache.Cloud.GoneAt[id]
		if _, ok := s.Desired.Ordinal(member); ok && !known[id] && !gone {
			hidden[id], known[id] = member, true
		}
	}
	for _, v := range s.Seen.Inventory.Volumes {
		add(v.AttachedTo, v.Member)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Records().Members)) {
		add(s.Records().Members[name].SignedInstance, name)
	}
	return hidden
}

// mayBeOurs says whether the tags of a resource that the records give to a member do not say otherwise. Without the cluster's UID
// nothing is ever done to it, whatever the other tags say.
func mayBeOurs(s *pass.Pass, member string, tags map[string]string) bool {
	if uid := tags[v1alpha1.TagClusterUID]; uid != "" {
		return uid == s.UID()
	}
	for tag, own := range map[string]string{
		v1alpha1.TagNamespace: s.Cluster.Namespace, v1alpha1.TagCluster: s.Cluster.Name, v1alpha1.TagMember: member,
	} {
		if value := tags[tag]; value != "" && value != own {
			return false
		}
	}
	return true
}

// othersMessage tells of a volume that is in the records and is another's. It says nothing of whose.
func othersMessage(s *pass.Pass, member, id string) string {
	name := resources.NamesOf(s.Cluster.Name).Members
	return fmt.Sprintf("ConfigMap %s gives volume %s to %s, but the volume's own tags say that it is not: it is not used, and nothing is done to it. If it is this cluster's, set its tag %s=%s and take away those that name another; if not, somebody changed the ConfigMap: take its volumeID out",
		name, id, member, v1alpha1.TagClusterUID, s.UID())
}
