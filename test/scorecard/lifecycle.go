package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// settings is the ConfigMap whose key cluster.yaml holds the manifest of the cluster to make.
	settings, settingsKey = "nairobi-mysql-scorecard", "cluster.yaml"

	// readyLimit and deletionLimit are generous: EC2 takes minutes, the final snapshot as long as the data is large.
	readyLimit    = 20 * time.Minute
	deletionLimit = 20 * time.Minute
	// leavePatience bounds what is asked for after the test was told to end; its pod has 30 s then.
	leavePatience = 20 * time.Second
)

// order is the way of a new cluster. A phase may be passed too quickly to be seen, but never walked back to.
var order = []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady}

// clusterLivesAndLeaves makes a cluster, follows it through its phases to Ready, deletes it, and looks for what is left.
func clusterLivesAndLeaves(ctx context.Context, s *scene) (wrong []string, err error) {
	cluster, err := s.wantedCluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.client.Create(ctx, cluster); err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", cluster.Name, explain(err))
	}
	seen, waitErr := s.followPhases(ctx, cluster)
	s.say("phases seen: %v", seen)
	if waitErr != nil {
		wrong = append(wrong, waitErr.Error())
	}
	wrong = append(wrong, outOfOrder(seen)...)
	if err := s.leave(ctx, cluster); err != nil {
		return wrong, err
	}
	if err := s.waitGone(ctx, cluster, deletionLimit); err != nil {
		return wrong, err
	}
	left, err := s.residue(ctx, cluster.Name)
	return append(wrong, left...), err
}

// leave has the operator take the cluster away, also when the test itself is told to end: a cluster that stays behind costs
// money, and keeps its namespace from being deleted.
func (s *scene) leave(ctx context.Context, cluster *v1alpha1.MySQLCluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer cancel()
	patch := []byte(`{"spec":{"deletionProtection":false}}`)
	if err := s.client.Patch(ctx, cluster, client.RawPatch(client.Merge.Type(), patch)); err != nil {
		return fmt.Errorf("lift the protection; the cluster %s is left behind: %w", cluster.Name, err)
	}
	if err := s.client.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("delete the cluster; %s is left behind: %w", cluster.Name, err)
	}
	return nil
}

func (s *scene) wantedCluster(ctx context.Context) (*v1alpha1.MySQLCluster, error) {
	var cm corev1.ConfigMap
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: settings}, &cm); err != nil {
		return nil, fmt.Errorf("the suite aws needs a manifest to make a cluster from: put one under %s into ConfigMap %s of namespace %s, "+
			"with your region and subnets, and allow that namespace in the policy: %w", settingsKey, settings, s.namespace, err)
	}
	cluster := &v1alpha1.MySQLCluster{}
	if err := yaml.UnmarshalStrict([]byte(cm.Data[settingsKey]), cluster); err != nil {
		return nil, fmt.Errorf("read %s of ConfigMap %s: %w", settingsKey, settings, err)
	}
	cluster.Namespace = s.namespace
	return cluster, nil
}

// followPhases notes each phase as it comes until the cluster is Ready.
func (s *scene) followPhases(ctx context.Context, cluster *v1alpha1.MySQLCluster) ([]v1alpha1.Phase, error) {
	var seen []v1alpha1.Phase
	key := client.ObjectKeyFromObject(cluster)
	err := wait.PollUntilContextTimeout(ctx, pollEvery, readyLimit, true, func(ctx context.Context) (bool, error) {
		if err := s.client.Get(ctx, key, cluster); err != nil {
			return false, err
		}
		if phase := cluster.Status.Phase; phase != "" && (len(seen) == 0 || seen[len(seen)-1] != phase) {
			seen = append(seen, phase)
		}
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady), nil
	})
	if err != nil {
		return seen, fmt.Errorf("the cluster is not Ready after %s; what it waits for is in its conditions and members: %+v: %w",
			readyLimit, cluster.Status, err)
	}
	return seen, nil
}

// outOfOrder says which phase came before one that it follows.
func outOfOrder(seen []v1alpha1.Phase) []string {
	var wrong []string
	reached := -1
	for _, phase := range seen {
		at := slices.Index(order, phase)
		if at < reached {
			wrong = append(wrong, fmt.Sprintf("phase %s came after %s: see the events of the cluster for what was lost on the way", phase, order[reached]))
		}
		reached = max(reached, at)
	}
	if len(seen) == 0 || seen[0] != order[0] {
		wrong = append(wrong, fmt.Sprintf("the first phase is not %s but one of %v: did the cluster exist before?", order[0], seen))
	}
	return wrong
}

// residue looks for what Kubernetes still has of a deleted cluster. What AWS has, the finalizer has waited for.
func (s *scene) residue(ctx context.Context, name string) ([]string, error) {
	var left []string
	own := []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelCluster: name}}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, leaveLimit, true, func(ctx context.Context) (bool, error) {
		left = nil
		for _, list := range []client.ObjectList{&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &discoveryv1.EndpointSliceList{}} {
			if err := s.client.List(ctx, list, own...); err != nil {
				return false, err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return false, err
			}
			for _, item := range items {
				object, err := meta.Accessor(item)
				if err != nil {
					return false, err
				}
				left = append(left, fmt.Sprintf("%T %s is left behind: has it an ownerReference to the cluster, and does the garbage collector run?", item, object.GetName()))
			}
		}
		return len(left) == 0, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return left, nil
	}
	return left, err
}
