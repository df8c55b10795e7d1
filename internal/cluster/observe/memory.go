package observe

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// memoryPause is how long EC2 is not asked again for the memory of instance types after it did not answer.
const memoryPause = time.Minute

// learnMemory asks EC2 how much memory the instance types have that the spec and the members' instances name: once for each type, and
// only if the spec sets a size that is compared with it. A cluster without a primary does not wait for the answer.
func (r *Cloud) learnMemory(ctx context.Context, s *pass.Pass) {
	n := &s.Cache.Cloud
	switch {
	case !settings.HasSizes(s.Desired.Settings) || s.Access.Cloud == nil || !s.Observed.CloudReachable:
		return
	case !s.Cache.Told.FailingSince.IsZero() || r.Clock.Since(n.MemoryUnknownAt) < memoryPause:
		return
	}
	if n.Memory == nil {
		n.Memory = map[string]uint64{}
	}
	names := []string{s.Cluster.Spec.AWS.InstanceType}
	for _, in := range s.Seen.Inventory.Instances {
		names = append(names, in.Type)
	}
	for _, name := range names {
		if _, known := n.Memory[name]; known || name == "" {
			continue
		}
		info, err := s.Access.Cloud.InstanceType(ctx, name)
		if err != nil {
			n.MemoryUnknownAt = r.Clock.Now()
			s.Log.V(1).Info("the memory of an instance type is not known; sizes in spec.mysqld are not compared with it", "type", name, "problem", err.Error())
			return
		}
		n.Memory[name] = info.Memory
	}
}

// RoomOf is what a member on an instance type has for its settings, as far as it is known.
func RoomOf(s *pass.Pass, instanceType string) settings.Room {
	return settings.Room{Memory: s.Cache.Cloud.Memory[instanceType], Volume: uint64(s.Desired.SizeGiB) << 30}
}

// oversized are the settings of the spec that a member has no room for. Nobody asks its mysqld to try.
func oversized(s *pass.Pass, m *topology.Member) map[string]topology.RefusedSetting {
	in, found := m.CurrentInstance(), map[string]topology.RefusedSetting{}
	if in == nil {
		return found
	}
	next := settings.TooLarge(s.Desired.Settings, RoomOf(s, s.Cluster.Spec.AWS.InstanceType))
	for name, why := range settings.TooLarge(s.Desired.Settings, RoomOf(s, typeOf(s, in.ID))) {
		_, still := next[name]
		found[name] = topology.RefusedSetting{Value: s.Desired.Settings[name], Why: why, Awaited: !still}
	}
	return found
}

// typeOf is the type of an instance; that of the spec where EC2 does not show it.
func typeOf(s *pass.Pass, id string) string {
	for _, in := range s.Seen.Inventory.Instances {
		if in.ID == id && in.Type != "" {
			return in.Type
		}
	}
	return s.Cluster.Spec.AWS.InstanceType
}

// ShrinksTooFar returns what the members would have no room for on the instance type of the spec, while some are on another that has:
// their volumes keep the settings, and mysqld would not start with them.
func ShrinksTooFar(s *pass.Pass) map[string]string {
	found := settings.TooLarge(s.Desired.Settings, RoomOf(s, s.Cluster.Spec.AWS.InstanceType))
	if len(found) == 0 {
		return nil
	}
	for _, in := range s.Seen.Inventory.Instances {
		if in.State == inventory.StateTerminated || in.State == inventory.StateShuttingDown || in.Type == "" || in.Type == s.Cluster.Spec.AWS.InstanceType {
			continue
		}
		if len(settings.TooLarge(s.Desired.Settings, RoomOf(s, in.Type))) < len(found) {
			return found
		}
	}
	return nil
}
