package records

import (
	"fmt"
	"maps"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The records are a ConfigMap of the cluster's namespace, and for each thing in them the operator may ask AWS or the API server.
// What it writes itself is far below these bounds, and is not saved when it is not.
const (
	// MaxRecords is how long the records may be, in bytes: some hundred for each of nine members, and the GTID sets of members
	// that were rebuilt. A ConfigMap holds four times as much.
	MaxRecords = 256 << 10
	// MaxListed is how many volumes, instances, members or Secrets any list of the records may hold.
	MaxListed = 64
	// maxShift is how many zones a member may have been moved on.
	maxShift = 1 << 20
)

// longest returns how many entries the longest list of records has, and whether they are within the bounds.
func longest(size int, records *topology.ClusterRecord) (entries int, within bool) {
	entries = max(len(records.FinalVolumes), len(records.Held), len(records.PoweredOff), len(records.RollingDone), len(records.Restarts.Members), len(records.Volumes.Members), len(records.Uncovered))
	return entries, size <= MaxRecords && entries <= MaxListed
}

// tooLarge is the problem of records that would be refused when they are read again. They are not saved.
func tooLarge(configMap string, size int, records *topology.ClusterRecord) *engine.Problem {
	entries, within := longest(size, records)
	if within {
		return nil
	}
	member, tail := "", 0
	for _, name := range slices.Sorted(maps.Keys(records.Members)) {
		if n := len(records.Members[name].Tail); n > tail {
			member, tail = name, n
		}
	}
	message := fmt.Sprintf("the records in ConfigMap %s would exceed their bound of %d KiB or %d entries in a list; they are not saved, and there is no failover", configMap, MaxRecords>>10, MaxListed)
	if size > MaxRecords && tail > 0 {
		message += fmt.Sprintf(". The largest entry is the GTID set that %s lost when it was rebuilt: see that all members are reached, so that it is used up", member)
	} else if entries > MaxListed {
		message += ". Report this as a defect"
	}
	return &engine.Problem{Reason: v1alpha1.ReasonRecordsTooLarge, After: engine.AfterPerson, Message: message, Cause: engine.ErrTooLarge}
}

// plausible refuses records that the operator cannot have written, and takes out of the others what names no member.
func plausible(s *pass.Pass, configMap string, size int, records *topology.ClusterRecord) *engine.Problem {
	if entries, within := longest(size, records); !within {
		return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson, Message: fmt.Sprintf(
			"ConfigMap %s holds more than the operator ever writes (%d bytes, of at most %d; %d entries in a list, of at most %d): somebody else has changed it, and it is not used. Empty its key %s, and the records are made again from the tags in EC2",
			configMap, size, MaxRecords, entries, MaxListed, resources.KeyMembers)}
	}
	names := topology.Desired{Cluster: s.Cluster.Name}
	var strange []string
	for _, name := range slices.Sorted(maps.Keys(records.Members)) {
		if _, ok := names.Ordinal(name); !ok {
			strange = append(strange, name)
			delete(records.Members, name)
		}
	}
	for _, u := range records.Uncovered {
		if _, ok := names.Ordinal(u.Primary); !ok {
			strange = append(strange, u.Primary)
			records.Uncovered = records.Uncovered.Without(u.Primary)
		}
	}
	for name, rec := range records.Members {
		if rec.ZoneShift < 0 || rec.ZoneShift > maxShift {
			rec.ZoneShift = 0 // it only says with which subnet to begin
			records.Members[name] = rec
		}
	}
	if len(strange) > 0 {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonForeignResource, Message: fmt.Sprintf(
			"ConfigMap %s names %d members that this cluster cannot have, the first %q: they are ignored. Take out what somebody else has written there",
			configMap, len(strange), strange[0])})
	}
	return nil
}
