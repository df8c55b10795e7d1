package controllers

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestModificationsOfVolumesAreCounted: what EC2 took is remembered, and it is not asked in vain once it has no more to give.
func TestModificationsOfVolumesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	w.initialised()
	grow := func(to string) {
		w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.Size = ptr.To(resource.MustParse(to)) })
	}
	counted := func() bool {
		_, records := w.records()
		n := 0
		for _, rec := range records.Members {
			if at := rec.Modified.At; rec.Modified.Volume != "" && rec.Modified.Volume == rec.VolumeID && at[len(at)-1] != 0 && at[len(at)-2] == 0 {
				n++
			}
		}
		return n == members
	}
	grow("60Gi")
	w.drive(o, patience, counted)
	w.follow(o, 20)
	if asked := w.changed("ModifyVolume"); asked != members || !counted() {
		t.Errorf("EC2 was asked %d times to modify %d volumes", asked, members)
	}

	w.changeRecords(func(records *topology.ClusterRecord) {
		for name, rec := range records.Members {
			for range 3 {
				rec.RecordModified(rec.VolumeID, o.Clock.Now())
			}
			records.Members[name] = rec
		}
	})
	w.proxy.ResetCalls()
	grow("70Gi")
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonVolumeModificationLimited, "EC2 takes 4 modifications of a volume within 24 hours"))
	w.follow(o, 20)
	if asked := w.changed("ModifyVolume"); asked != 0 {
		t.Errorf("EC2 was asked %d times although it takes no more", asked)
	}
	w.wait(24 * time.Hour)
	w.drive(o, patience, func() bool { return w.changed("ModifyVolume") >= members })
}

// TestPerformanceThatIsTakenOutReturnsToTheDefault: a volume keeps what it was given until it is asked for less.
func TestPerformanceThatIsTakenOutReturnsToTheDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	w.initialised()
	w.follow(o, 20)
	if asked := w.changed("ModifyVolume"); asked != 0 {
		t.Errorf("EC2 was asked %d times to modify volumes with its defaults", asked)
	}
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.Storage.IOPS, c.Spec.Storage.Throughput = ptr.To[int32](4000), ptr.To[int32](200)
	})
	w.drive(o, patience, func() bool { return w.changed("ModifyVolume") == members })
	w.follow(o, 20)
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Storage.IOPS, c.Spec.Storage.Throughput = nil, nil })
	w.drive(o, patience, func() bool { return w.changed("ModifyVolume") == 2*members })
	w.follow(o, 20)
	if asked := w.changed("ModifyVolume"); asked != 2*members {
		t.Errorf("EC2 was asked %d times", asked)
	}
}
