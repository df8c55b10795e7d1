package controllers

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestVolumeLostWithAMemory: mysqld of a replica was started again, and the primary's instance and volume are gone before anybody saw that
// it holds all that it had acknowledged. The other replica alone proves nothing, so nobody is promoted until a person gives up what only
// those two held.
func TestVolumeLostWithAMemory(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	ask := func(epoch int64) {
		w.world.change(func(c *v1alpha1.MySQLCluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationAcceptLoss, strconv.FormatInt(epoch, 10))
		})
	}
	answered := func() bool {
		c, _ := w.get()
		return c.Annotations[v1alpha1.AnnotationAcceptLoss] == ""
	}
	o := w.newSQLOperator(&operator{}, nil)
	w.drive(o, sqlPatience, func() bool { return w.unsettled() == "" })
	c, _ := w.get()
	primary, epoch := c.Status.Primary, c.Status.Voters.Epoch
	ask(epoch)
	w.drive(o, sqlPatience, answered)
	if said := eventsOf(o); !strings.Contains(said, "LossRefused") || !strings.Contains(said, "the cluster has a primary, "+primary) {
		t.Errorf("events say: %s", said)
	}
	w.books.close() // its commits may be lost from here on
	replica := "orders-1"
	if primary == replica {
		replica = "orders-2"
	}
	again := w.server(replica)
	again.Kill()
	w.lose(primary)
	must(t, again.Boot(t.Context()))

	w.drive(o, sqlPatience, w.conditionHas(v1alpha1.ConditionDegraded, "PromotionNotProven", "not reached: "+primary, "started since, and not yet seen to hold it all: "+replica))
	ask(epoch - 1)
	w.drive(o, sqlPatience, answered)
	if said := eventsOf(o); !strings.Contains(said, "LossRefused") || strings.Contains(said, "LossAccepted") {
		t.Errorf("events say: %s", said)
	}
	ask(epoch)
	w.drive(o, sqlPatience, func() bool { return answered() && w.unsettled() == "" })
	if said := eventsOf(o); !strings.Contains(said, "LossAccepted") || !strings.Contains(said, "commits that only "+primary+", "+replica+" held are lost") {
		t.Errorf("events say: %s", said)
	}
	c, _ = w.get()
	if last := c.Status.LastPromotion; last == nil || last.From != primary || last.Uncovered == "" || c.Status.Primary == primary {
		t.Errorf("the primary is %s; the last promotion: %+v", c.Status.Primary, last)
	}
}

// lose ends a member's instance, and deletes its volume.
func (w *sqlWorld) lose(member string) {
	w.t.Helper()
	ctx, api, l := w.t.Context(), w.account.api, w.left()
	instances := idsOf(l.instances, member)
	_, err := api.ModifyInstanceAttribute(ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: aws.String(instances[0]), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	must(w.t, err)
	_, err = api.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: instances})
	must(w.t, err)
	for _, volume := range idsOf(l.volumes, member) {
		for deadline := time.Now().Add(sqlPatience); ; time.Sleep(100 * time.Millisecond) { // it is in use until the instance has ended
			if _, err = api.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: aws.String(volume)}); err == nil || time.Now().After(deadline) {
				break
			}
		}
		must(w.t, err)
	}
}
