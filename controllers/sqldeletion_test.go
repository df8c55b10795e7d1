package controllers

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestDeletionOfAProtectedClusterWithData deletes a protected cluster, one while it replicates, another with its whole
// namespace when it is Ready and an application writes to it. It goes on as if nothing had happened. Once the protection
// is lifted, one snapshot of the primary's volume is all that is left.
func TestDeletionOfAProtectedClusterWithData(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	for phase, way := range map[v1alpha1.Phase]string{v1alpha1.PhaseReplicating: "by name", v1alpha1.PhaseReady: "with its namespace"} {
		t.Run(string(phase)+", "+way, func(t *testing.T) {
			t.Parallel()
			w := newSQLWorld(t, farm, protected)
			o := w.newSQLOperator(&operator{}, nil)
			w.drive(o, sqlPatience, func() bool { return w.phaseIs(phase)() && w.primaryVolume() != "" })
			before := w.left()
			w.proxy.ResetCalls()
			again := ways[way](w.world)
			w.drive(o, sqlPatience, func() bool { again(); return w.saysProtected() && w.phaseIs(v1alpha1.PhaseReady)() })
			written := w.books.count()
			w.drive(o, sqlPatience, func() bool { again(); return w.books.count() >= written+5 })
			// A stall of the instance may look like the loss of the primary.
			w.spared(before, len(o.told("Normal Fence ")) > 0)
			w.books.close()
			volume := w.volumeOfPrimary()
			w.protect(false)
			w.drive(o, sqlPatience, func() bool { again(); return w.gone() })
			w.promised(v1alpha1.DeletionPolicySnapshot, []string{volume})
		})
	}
}

// TestDeletionWhileMembersJoin deletes a cluster whose primary takes writes while its replicas are still being seeded. Nothing
// of the replicas is left, and of the primary what the policy promises, also when the operator dies in the middle of it.
func TestDeletionWhileMembersJoin(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyDelete} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newSQLWorld(t, farm, withPolicy(policy))
			o := w.newSQLOperator(&operator{}, nil)
			w.drive(o, sqlPatience, func() bool {
				return w.phaseIs(v1alpha1.PhaseReplicating)() && w.primaryVolume() != "" && w.books.count() > 0
			})
			w.books.close()
			volume := w.volumeOfPrimary()
			w.delete()
			w.drive(o, sqlPatience, w.phaseIs(v1alpha1.PhaseDeleting))
			o.kill()
			w.drive(w.newSQLOperator(&operator{}, nil), sqlPatience, w.gone)
			w.promised(policy, []string{volume})
		})
	}
}
