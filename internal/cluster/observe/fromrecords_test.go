package observe

import (
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// recorded is a pass over a cluster of one member, whose records name i-1 and vol-1.
func recorded() (*Cloud, *pass.Pass) {
	c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid-1"}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: resources.NamesOf("orders").Headless, Annotations: map[string]string{v1alpha1.AnnotationClusterUID: "uid-1"}},
		Endpoints:  []discoveryv1.Endpoint{{Hostname: ptr.To("orders-0"), Addresses: []string{"10.0.0.1"}}},
	}
	s := &pass.Pass{Cluster: c, Cache: pass.NewCache("uid-1")}
	s.SetRecords(topology.ClusterRecord{Established: true, Members: map[string]topology.MemberRecord{"orders-0": {VolumeID: "vol-1", SignedInstance: "i-1", Instance: 1, Volume: 1}}})
	return &Cloud{Ports: &pass.Ports{Client: fake.NewClientBuilder().WithObjects(slice).Build()}}, s
}

// TestRecordsFillInWhatEC2HasNotAnswered: instances, volumes, or both; what it has answered counts, also that it shows nothing.
func TestRecordsFillInWhatEC2HasNotAnswered(t *testing.T) {
	now := time.Now()
	stopped := inventory.Instance{ID: "i-1", Member: "orders-0", State: inventory.StateStopped}
	moved := inventory.Instance{ID: "i-2", Member: "orders-0", State: inventory.StateRunning, Attachments: []inventory.Attachment{{VolumeID: "vol-1"}}}
	for name, row := range map[string]struct {
		seen                      inventory.Inventory
		state, holder, attachedTo string
	}{
		"nothing":                          {inventory.Inventory{}, inventory.StateRunning, "i-1", "i-1"},
		"an instance that is stopped":      {inventory.Inventory{InstancesTaken: now, Instances: []inventory.Instance{stopped}}, inventory.StateStopped, "i-1", "i-1"},
		"an instance that has the volume":  {inventory.Inventory{InstancesTaken: now, Instances: []inventory.Instance{moved}}, inventory.StateRunning, "i-2", "i-2"},
		"that there is no instance":        {inventory.Inventory{InstancesTaken: now}, "", "", ""},
		"a volume":                         {inventory.Inventory{VolumesTaken: now, Volumes: []inventory.Volume{{ID: "vol-1", Member: "orders-0"}}}, inventory.StateRunning, "i-1", ""},
		"an instance outside of its lists": {inventory.Inventory{Instances: []inventory.Instance{stopped}}, inventory.StateStopped, "i-1", "i-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := recorded()
			s.Seen.Inventory = row.seen
			if err := r.inventoryFromRecords(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			seen := s.Seen.Inventory
			if row.holder == "" {
				if len(seen.Instances)+len(seen.Volumes) != 0 {
					t.Errorf("it shows %+v", seen)
				}
				return
			}
			if len(seen.Instances) != 1 || seen.Instances[0].ID != row.holder || seen.Instances[0].State != row.state {
				t.Errorf("instances are %+v", seen.Instances)
			}
			if len(seen.Volumes) != 1 || seen.Volumes[0].ID != "vol-1" || seen.Volumes[0].AttachedTo != row.attachedTo {
				t.Errorf("volumes are %+v", seen.Volumes)
			}
			if !seen.Taken.IsZero() {
				t.Error("it passes for EC2's word")
			}
		})
	}
}

// TestANewClientFillsInWhatItHasNotHeard: of each kind by itself.
func TestANewClientFillsInWhatItHasNotHeard(t *testing.T) {
	now := time.Now()
	before := inventory.Inventory{
		Taken: now, InstancesTaken: now, VolumesTaken: now, Answered: map[string]time.Time{"i-1": now},
		Instances: []inventory.Instance{{ID: "i-1"}}, Volumes: []inventory.Volume{{ID: "vol-1"}},
	}
	for name, heard := range map[string]inventory.Inventory{
		"nothing":          {},
		"of the instances": {InstancesTaken: now, Instances: before.Instances, Answered: before.Answered},
		"of the volumes":   {VolumesTaken: now, Volumes: before.Volumes},
	} {
		recall(&heard, before)
		if len(heard.Instances) != 1 || len(heard.Volumes) != 1 || len(heard.Answered) != 1 {
			t.Errorf("it has heard %s, and shows %+v", name, heard)
		}
	}
	answered := inventory.Inventory{InstancesTaken: now, VolumesTaken: now}
	if recall(&answered, before); len(answered.Instances)+len(answered.Volumes) != 0 {
		t.Errorf("EC2 answered that there is nothing, and it shows %+v", answered)
	}
}
