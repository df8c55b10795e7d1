package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// goneFor is how long EC2's word that a recorded volume does not exist is believed before it is asked again.
const goneFor = 30 * time.Second

// findHidden looks by id, in one call, for the recorded volumes that the inventory lacks: one that somebody took the cluster's
// tag from is still there, with all its data. It counts as its member's, and is reported. The records are a ConfigMap of the
// cluster's namespace, to which others may be able to write: what a volume's own tags give to another cluster they cannot make
// this one's.
func (r *MySQLClusterReconciler) findHidden(ctx context.Context, s *scope) error {
	n, now := s.notes, r.Clock.Now()
	maps.DeleteFunc(n.goneAt, func(_ string, at time.Time) bool { return now.Sub(at) >= goneFor })
	members := s.hiddenVolumes()
	if len(members) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(members))
	found, err := s.cloud.VolumesByID(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		v, ok := found[id]
		if !ok {
			n.goneAt[id] = now
			continue
		}
		member := members[id]
		switch uid := v.Tags[v1alpha1.TagClusterUID]; {
		case !s.mayBeOurs(member, v.Tags):
			s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonForeignResource, Message: s.othersMessage(member, id)})
			continue
		case uid == "":
			v.Member, v.Incarnation = member, s.records.Members[member].Volume
		}
		s.inventory.Volumes = append(s.inventory.Volumes, v)
	}
	return nil
}

// hiddenVolumes are the recorded volumes that the inventory lacks, with their members.
func (s *scope) hiddenVolumes() map[string]string {
	known := map[string]bool{}
	for _, v := range s.inventory.Volumes {
		known[v.ID] = true
	}
	hidden := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.records.Members)) {
		id := s.records.Members[name].VolumeID
		_, gone := s.notes.goneAt[id]
		_, twice := hidden[id]
		if _, ok := s.desired.Ordinal(name); ok && id != "" && !known[id] && !gone && !twice {
			hidden[id] = name
		}
	}
	return hidden
}

// mayBeOurs says whether the tags of a volume that the records give to a member do not say otherwise. Without the cluster's UID
// nothing is ever done to it, whatever the other tags say.
func (s *scope) mayBeOurs(member string, tags map[string]string) bool {
	if uid := tags[v1alpha1.TagClusterUID]; uid != "" {
		return uid == s.uid()
	}
	for tag, own := range map[string]string{
		v1alpha1.TagNamespace: s.cluster.Namespace, v1alpha1.TagCluster: s.cluster.Name, v1alpha1.TagMember: member,
	} {
		if value := tags[tag]; value != "" && value != own {
			return false
		}
	}
	return true
}

// othersMessage tells of a volume that is in the records and is another's. It says nothing of whose.
func (s *scope) othersMessage(member, id string) string {
	_, _, _, _, _, _, name := resources.Names(s.cluster.Name)
	return fmt.Sprintf("ConfigMap %s gives volume %s to %s, but the volume's own tags say that it is not: it is not used, and nothing is done to it. If it is this cluster's, set its tag %s=%s and take away those that name another; if not, somebody changed the ConfigMap: take its volumeID out",
		name, id, member, v1alpha1.TagClusterUID, s.uid())
}
