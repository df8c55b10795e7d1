package observe

import (
	"cmp"
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// inventoryFromRecords fills in what EC2 has not answered of s.inventory from what Kubernetes keeps of the members, for a process that EC2
// has not answered in full yet: the records name their instances and volumes, the endpoints that were published last their addresses. So
// a new leader looks after mysqld, and replaces a primary, while EC2 is away. Whoever answers at an address still has to prove that it is
// the member, and nothing is made, changed or ended in EC2 by this: it is not EC2's word, and passes for none (Taken stays zero, and
// CloudReachable false).
func (r *Cloud) inventoryFromRecords(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() || s.Stored.Lost || !s.Records().Established && s.Records().Bootstrapped == "" {
		return nil
	}
	if s.Seen.Inventory.InstancesTaken.IsZero() {
		if err := r.recallInstances(ctx, s); err != nil {
			return err
		}
	}
	if s.Seen.Inventory.VolumesTaken.IsZero() {
		recallVolumes(s)
	}
	s.Cache.Cloud.FromRecords = s.Shown()
	return nil
}

// recallInstances adds the instances of members of which none is shown.
func (r *Cloud) recallInstances(ctx context.Context, s *pass.Pass) error {
	headless := resources.NamesOf(s.Cluster.Name).Headless
	var slice discoveryv1.EndpointSlice
	err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: headless}, &slice))
	if err != nil {
		return fmt.Errorf("read EndpointSlice %s: %w", headless, err)
	}
	if !pass.OwnedBy(&slice, s.Cluster) {
		return nil // nor is one that is not there
	}
	known := map[string]bool{}
	for _, in := range s.Seen.Inventory.Instances {
		known[in.Member] = true
	}
	for _, endpoint := range slice.Endpoints {
		if endpoint.Hostname == nil || len(endpoint.Addresses) == 0 || known[*endpoint.Hostname] {
			continue
		}
		name := *endpoint.Hostname
		rec := s.Records().Members[name]
		if rec.VolumeID == "" || rec.SignedInstance == "" {
			continue
		}
		s.Seen.Inventory.Instances = append(s.Seen.Inventory.Instances, inventory.Instance{
			ID: rec.SignedInstance, Member: name, Incarnation: rec.Instance, State: inventory.StateRunning, PrivateIP: endpoint.Addresses[0], Tags: recordedTags(s, rec),
			Attachments: []inventory.Attachment{{VolumeID: rec.VolumeID}},
		})
	}
	return nil
}

// recallVolumes adds the recorded volumes of the members that have an instance: attached to the instance that shows it, else to the one
// that the records name.
func recallVolumes(s *pass.Pass) {
	seen, holder, known := &s.Seen.Inventory, map[string]string{}, map[string]bool{}
	for _, v := range seen.Volumes {
		known[v.ID] = true
	}
	for _, in := range seen.Instances {
		for _, attached := range in.Attachments {
			holder[attached.VolumeID] = in.ID
		}
	}
	for _, in := range seen.Instances {
		rec := s.Records().Members[in.Member]
		if rec.VolumeID == "" || known[rec.VolumeID] {
			continue
		}
		known[rec.VolumeID] = true
		seen.Volumes = append(seen.Volumes, inventory.Volume{
			ID: rec.VolumeID, Member: in.Member, Incarnation: rec.Volume, State: inventory.VolumeInUse,
			AttachedTo: cmp.Or(holder[rec.VolumeID], rec.SignedInstance), AttachState: inventory.AttachAttached, SizeGiB: s.Cluster.StorageGiB(), Tags: recordedTags(s, rec),
		})
	}
}

// recordedTags are the tags that what the records name of a member must have.
func recordedTags(s *pass.Pass, rec topology.MemberRecord) map[string]string {
	return map[string]string{v1alpha1.TagClusterUID: s.UID(), v1alpha1.TagMySQLVersion: rec.Opened}
}
