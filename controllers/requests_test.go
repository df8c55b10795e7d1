package controllers

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestUnreadableRestartAnnotationIsTold: a wish that cannot be read is not passed over in silence, and holds nothing up.
func TestUnreadableRestartAnnotationIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "yesterday"}
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	if says := w.condition(v1alpha1.ConditionDegraded); !w.conditionHas(v1alpha1.ConditionDegraded, `is "yesterday", which is no time as in RFC 3339`)() {
		t.Errorf("the condition says %q", says)
	}
}
