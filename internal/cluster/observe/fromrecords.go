package observe

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// inventoryFromRecords fills in s.inventory from what Kubernetes keeps of the members, for a process that EC2 has not answered yet: the records
// name their instances and volumes, the endpoints that were published last their addresses. So a new leader looks after mysqld, and
// replaces a primary, while EC2 is away. Whoever answers at an address still has to prove that it is the member, and nothing is made,
// changed or ended in EC2 by this: it is not EC2's word, and passes for none (Taken stays zero, and CloudReachable false).
func (r *Cloud) inventoryFromRecords(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() || s.Stored.Lost || !s.Records().Established && s.Records().Bootstrapped == "" {
		return nil
	}
	headless := resources.NamesOf(s.Cluster.Name).Headless
	var slice discoveryv1.EndpointSlice
	err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: headless}, &slice))
	if err != nil {
		return fmt.Errorf("read EndpointSlice %s: %w", headless, err)
	}
	if !pass.OwnedBy(&slice, s.Cluster) {
		return nil // nor is one that is not there
	}
	for _, endpoint := range slice.Endpoints {
		if endpoint.Hostname == nil || len(endpoint.Addresses) == 0 {
			continue
		}
		name := *endpoint.Hostname
		rec := s.Records().Members[name]
		if rec.VolumeID == "" || rec.SignedInstance == "" {
			continue
		}
		tags := map[string]string{v1alpha1.TagClusterUID: s.UID(), v1alpha1.TagMySQLVersion: rec.Opened}
		s.Seen.Inventory.Instances = append(s.Seen.Inventory.Instances, inventory.Instance{
			ID: rec.SignedInstance, Member: name, Incarnation: rec.Instance, State: inventory.StateRunning, PrivateIP: endpoint.Addresses[0], Tags: tags,
			Attachments: []inventory.Attachment{{VolumeID: rec.VolumeID}},
		})
		s.Seen.Inventory.Volumes = append(s.Seen.Inventory.Volumes, inventory.Volume{
			ID: rec.VolumeID, Member: name, Incarnation: rec.Volume, State: inventory.VolumeInUse, AttachedTo: rec.SignedInstance, AttachState: inventory.AttachAttached,
			SizeGiB: s.Cluster.StorageGiB(), Tags: tags,
		})
	}
	s.Cache.Cloud.FromRecords = s.Shown()
	return nil
}
