package inventory

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// What EC2 answered to a write is in the store at once: the lists show it a moment later.

// Tagged takes over that a resource, of whatever kind, has got tags.
func (r *Reader) Tagged(id string, tags map[string]string) {
	now, s := r.clock.Now(), r.store
	s.do(func() {
		s.instances.update(id, now, func(i *Instance) {
			i.Tags = merged(i.Tags, tags)
			i.Member, i.Incarnation, i.TemplateHash = i.Tags[v1alpha1.TagMember], awsapi.IncarnationOf(i.Tags), i.Tags[v1alpha1.TagTemplateHash]
		})
		s.volumes.update(id, now, func(v *Volume) {
			v.Tags = merged(v.Tags, tags)
			v.Member, v.Incarnation, v.Retired = v.Tags[v1alpha1.TagMember], awsapi.IncarnationOf(v.Tags), v.Tags[v1alpha1.TagRetired] != ""
		})
		s.snapshots.update(id, now, func(s *Snapshot) {
			s.Tags = merged(s.Tags, tags)
			s.Member = s.Tags[v1alpha1.TagMember]
		})
		s.groups.update(id, now, func(g *Group) { g.Tags = merged(g.Tags, tags) })
	})
}

func merged(have, add map[string]string) map[string]string {
	out := have
	for k, v := range add {
		out = awsapi.WithTag(out, k, v)
	}
	return out
}

// InstanceStates takes over that instances have come into another state.
func (r *Reader) InstanceStates(changes []types.InstanceStateChange) {
	r.store.do(func() {
		for _, change := range changes {
			if change.CurrentState == nil {
				continue
			}
			id := aws.ToString(change.InstanceId)
			r.store.instances.update(id, r.clock.Now(), func(i *Instance) { i.State = string(change.CurrentState.Name) })
			delete(r.store.health, id)
		}
	})
}

// VolumeAttached takes over that a volume is being attached to an instance.
func (r *Reader) VolumeAttached(volumeID, instanceID, device string, state types.VolumeAttachmentState) {
	now, s := r.clock.Now(), r.store
	s.do(func() {
		s.volumes.update(volumeID, now, func(v *Volume) {
			v.State, v.AttachedTo, v.AttachState = VolumeInUse, instanceID, string(state)
		})
		s.instances.update(instanceID, now, func(i *Instance) {
			i.Attachments = append(attachmentsWithout(i.Attachments, volumeID), Attachment{VolumeID: volumeID, Device: device, State: string(state)})
		})
	})
}

// VolumeDetached takes over that a volume is being, or has been, detached from an instance.
func (r *Reader) VolumeDetached(volumeID, instanceID string, state types.VolumeAttachmentState) {
	now, s := r.clock.Now(), r.store
	s.do(func() {
		s.volumes.update(volumeID, now, func(v *Volume) {
			if state == types.VolumeAttachmentStateDetached {
				v.State, v.AttachedTo, v.AttachState = VolumeAvailable, "", ""
				return
			}
			v.AttachedTo, v.AttachState = instanceID, AttachDetaching
		})
		s.instances.update(instanceID, now, func(i *Instance) { i.Attachments = attachmentsWithout(i.Attachments, volumeID) })
	})
}

// attachmentsWithout is a new slice: readers may hold the old one.
func attachmentsWithout(attachments []Attachment, volumeID string) []Attachment {
	out := make([]Attachment, 0, len(attachments)+1)
	for _, a := range attachments {
		if a.VolumeID != volumeID {
			out = append(out, a)
		}
	}
	return out
}
