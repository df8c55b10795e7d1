package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	pollEvery = 500 * time.Millisecond
	// leaveLimit bounds the end of a cluster of which nothing is in AWS.
	leaveLimit = time.Minute
)

// protectionRefusesDeletion makes a protected cluster that is to be hibernated, so that nothing of it is made in AWS whatever
// the operator may do there, and tries to delete it.
func protectionRefusesDeletion(ctx context.Context, s *scene) (wrong []string, err error) {
	cluster, err := s.protectedCluster()
	if err != nil {
		return nil, err
	}
	if err := s.client.Create(ctx, cluster); err != nil {
		return nil, fmt.Errorf("make a protected cluster: %w", explain(err))
	}
	defer func() {
		if left := s.takeAway(context.WithoutCancel(ctx), cluster); left != nil && err == nil {
			err = left
		}
	}()
	switch err := s.client.Delete(ctx, cluster, client.DryRunAll); {
	case err == nil:
		wrong = append(wrong, "a protected cluster may be deleted: the webhook does not answer for DELETE; look at the ValidatingWebhookConfigurations of the operator and at its log")
	case !strings.Contains(err.Error(), "deletionProtection"):
		wrong = append(wrong, fmt.Sprintf("the refusal does not say how to go on: %v", err))
	default:
		s.say("the deletion is refused: %v", err)
	}
	return wrong, nil
}

// protectedCluster is the bundle's sample, hibernated.
func (s *scene) protectedCluster() (*v1alpha1.MySQLCluster, error) {
	samples, err := s.examples()
	if err != nil {
		return nil, err
	}
	for _, sample := range samples {
		if sample.GetKind() != "MySQLCluster" {
			continue
		}
		cluster := &v1alpha1.MySQLCluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sample.Object, cluster); err != nil {
			return nil, fmt.Errorf("read the sample: %w", err)
		}
		cluster.Name, cluster.GenerateName = "", "scorecard-"
		cluster.Spec.Hibernate = true
		cluster.Spec.DeletionProtection = ptr.To(true)
		return cluster, nil
	}
	return nil, fmt.Errorf("the bundle has no sample of kind MySQLCluster")
}

// takeAway does what the refusal says, and waits until the cluster is gone. The operator may have no credentials to ask AWS
// with; nothing was made there, so it is told to let go.
func (s *scene) takeAway(ctx context.Context, cluster *v1alpha1.MySQLCluster) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}},"spec":{"deletionProtection":false}}`, v1alpha1.AnnotationAbandonCloudResources)
	if err := s.client.Patch(ctx, cluster, client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		return fmt.Errorf("lift the protection: %w", err)
	}
	if err := s.client.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the cluster: %w", err)
	}
	return s.waitGone(ctx, cluster, leaveLimit)
}

func (s *scene) waitGone(ctx context.Context, cluster *v1alpha1.MySQLCluster, limit time.Duration) error {
	key := client.ObjectKeyFromObject(cluster)
	err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, key, cluster)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("cluster %s is not gone; what it waits for is in its conditions %+v: %w", key, cluster.Status.Conditions, err)
	}
	return nil
}
