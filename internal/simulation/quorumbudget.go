package simulation

import (
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// What a cluster can do without: a fault that takes more is beyond what any operator can mend.

// loseSomeVolume loses a volume that the cluster can do without: another one would be beyond what any operator can mend.
func (w *world) loseSomeVolume() {
	node := w.someNode()
	for _, v := range w.cloud.volumes {
		if w.ordinal(v.member) == node && v.State == inUse && w.canLose(v) && othersRemember(w, v) {
			w.shape.volumesLost++
			w.say("%s: volume %s is lost", v.member, v.ID)
			w.loseVolume(v)
			if w.shape.memory {
				w.heal() // nobody may lose what it has in memory until somebody else leads
			}
			return
		}
	}
}

// canLose says whether the cluster can be well again without a volume: every row that any member has leaves enough voters,
// and one of the others holds whatever any of them holds.
func (w *world) canLose(v *volume) bool {
	if v.Foreign {
		return true // it is rebuilt
	}
	if v.st == nil {
		return true
	}
	alone := w.kube.records.Alone == v.member && v.st.row != nil && w.kube.records.AloneSince > v.st.row.Epoch // what it answers nobody else has
	if alone || w.shape.volumesLost > 0 || w.desired.DeletionPolicy != v1alpha1.DeletionPolicySnapshot || w.aloneForgotten() || w.changing() || w.forgot && w.strayWrites() {
		return false
	}
	var others []*store
	members := map[string]bool{} // whose they are
	for _, other := range w.cloud.volumes {
		if other.st == nil {
			continue
		}
		if other.st.diverged {
			return false
		}
		if other.st.row != nil && other.st.row.W == 0 || other.st.row == nil && w.desired.Replicas < 3 {
			return false
		}
		if other != v && !other.retired && other.st.row != nil && !other.st.hollow {
			others = append(others, other.st)
			members[other.member] = true
		}
	}
	for _, o := range others {
		if !enoughOf(o.row.Voters, members) || !enoughOf(o.row.Previous, members) {
			return false
		}
		if slices.ContainsFunc(others, func(source *store) bool { return source.outOfReach(o) }) {
			return false // it is to be seeded anew, which it gives its vote back for
		}
	}
	return slices.ContainsFunc(others, func(best *store) bool {
		return !slices.ContainsFunc(others, func(o *store) bool { return !best.holds(o) })
	})
}

// othersRemember says whether each voter but that of a volume still has what it acknowledged from memory, by the newest row, and keeps it.
func othersRemember(w *world, v *volume) bool {
	var newest *mysql.Membership
	for _, other := range w.cloud.volumes {
		if other.st != nil && !other.retired && other.st.row != nil && (newest == nil || other.st.row.Epoch > newest.Epoch) {
			newest = other.st.row
		}
	}
	if newest == nil {
		return true
	}
	for member, memory := range newest.Memory {
		if s := w.serverOf(w.ordinal(member)); member != v.member && (s == nil || s.memory != memory || s.on.State != running || s.st.damaged) {
			return false
		}
	}
	return true
}

// strayWrites says whether something that a person wrote is on some of the volumes only. With a voter lost for good only the records
// show that it was acknowledged to nobody.
func (w *world) strayWrites() bool {
	var stores []*store
	for _, v := range w.cloud.volumes {
		if v.st != nil && !v.retired && v.State != deleted && v.st.row != nil {
			stores = append(stores, v.st)
		}
	}
	for _, a := range stores {
		for _, b := range stores {
			if slices.ContainsFunc(a.executed.without(b.executed.bitset), func(id int) bool { return w.ledger.all[id].client < 0 && !w.ledger.all[id].harmless }) {
				return true
			}
		}
	}
	return false
}

// enoughOf says whether so many of some voters are there that a primary can be proven. One that is being rebuilt is not.
func enoughOf(voters []string, there map[string]bool) bool {
	n := 0
	for _, name := range voters {
		if there[name] {
			n++
		}
	}
	return n >= len(voters)-topology.WaitFor(len(voters))
}

// outOfReach says whether a server's binary log no longer holds what another lacks.
func (st *store) outOfReach(o *store) bool {
	for _, id := range st.purged.without(o.executed.bitset) {
		if !o.retrieved.has(id) {
			return true
		}
	}
	return false
}

// holds says whether a volume has whatever another has, in its relay log at least. What was prepared counts.
func (st *store) holds(o *store) bool {
	for _, set := range []bitset{o.executed.bitset, o.retrieved.bitset} {
		for _, id := range set.without(st.executed.bitset) {
			if !st.retrieved.has(id) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(o.binlog[o.committed:], func(id int) bool { return o != st && !st.executed.has(id) && !st.retrieved.has(id) })
}

// aloneForgotten says whether it is forgotten which member was the only voter: then no voter can be spared, as any may have been.
func (w *world) aloneForgotten() bool { return w.kube.lost || w.kube.records.AloneUnknown }
