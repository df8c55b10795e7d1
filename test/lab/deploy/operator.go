package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// Deployment is the operator's, in v1alpha1.SystemNamespace.
	Deployment = "nairobi-mysql-controller-manager"

	// labOverlay is the kustomization that points the shipped manifests at the lab's EC2.
	labOverlay = "config/overlays/lab"
	crds       = "config/crd"

	// pollInterval is how often a state is read that nothing can be watched for cheaply.
	pollInterval = 250 * time.Millisecond
	// operatorTimeout bounds the wait for the operator's pod: pulling the image and winning the lease take seconds.
	operatorTimeout = 4 * time.Minute
)

// Deploy puts the operator of this tree into the lab and lets namespaces (patterns) use what the lab has.
func (l *Lab) Deploy(ctx context.Context, namespaces ...string) error {
	image, err := l.PushOperatorImage(ctx)
	if err != nil {
		return err
	}
	if err := l.InstallOperator(ctx, image); err != nil {
		return err
	}
	return l.AllowLab(ctx, namespaces...)
}

// InstallOperator applies the CRDs and the operator as shipped, with the image given, and waits until it is ready.
// Doing it again with another image is an upgrade.
func (l *Lab) InstallOperator(ctx context.Context, image string) error {
	for _, part := range []struct{ folder, image string }{{crds, ""}, {labOverlay, image}} {
		manifests, err := l.render(ctx, part.folder, part.image)
		if err != nil {
			return fmt.Errorf("render %s: %w", part.folder, err)
		}
		if _, err := l.Kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			return fmt.Errorf("apply %s: %w", part.folder, err)
		}
	}
	if err := l.WaitForOperator(ctx); err != nil {
		return fmt.Errorf("wait for the operator: %w", err)
	}
	return nil
}

// render prints a kustomization through the same script as `make dist`.
func (l *Lab) render(ctx context.Context, folder, image string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.Root, "hack", "render.sh"), folder, image)
	cmd.Env = append(os.Environ(), "KUBECTL="+l.kubectl)
	return output(cmd)
}

// WaitForOperator returns when the Deployment runs what was last applied and every pod of it is ready.
func (l *Lab) WaitForOperator(ctx context.Context) error {
	key := types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: Deployment}
	last := "not there"
	err := wait.PollUntilContextTimeout(ctx, pollInterval, operatorTimeout, true, func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		if err := l.Client.Get(ctx, key, &d); err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // The API server may be busy for a moment; the last error is reported.
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		s := d.Status
		last = fmt.Sprintf("%d of %d pods ready, %d updated", s.ReadyReplicas, want, s.UpdatedReplicas)
		return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.ReadyReplicas == want &&
			s.Replicas == want, nil
	})
	if err != nil {
		return fmt.Errorf("deployment %s: %s: %w", Deployment, last, err)
	}
	return nil
}

// RestartOperator kills the pods of the operator without a word, and waits until others run in their place.
func (l *Lab) RestartOperator(ctx context.Context) error {
	before, err := l.OperatorPods(ctx)
	if err != nil {
		return err
	}
	old := map[types.UID]bool{}
	for _, pod := range before {
		old[pod.UID] = true
		if err := l.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("kill pod %s: %w", pod.Name, err)
		}
	}
	// The Deployment's status tells of the old ones for a moment.
	err = wait.PollUntilContextTimeout(ctx, pollInterval, operatorTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := l.OperatorPods(ctx)
		if err != nil {
			return false, unlessItPasses(err)
		}
		return len(now) > 0 && !slices.ContainsFunc(now, func(pod corev1.Pod) bool { return old[pod.UID] || !ready(&pod) }), nil
	})
	if err != nil {
		return fmt.Errorf("wait for other pods of the operator: %w", err)
	}
	return l.WaitForOperator(ctx)
}

// ready says whether a pod is.
func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// OperatorPods lists the pods of the operator.
func (l *Lab) OperatorPods(ctx context.Context) ([]corev1.Pod, error) {
	var d appsv1.Deployment
	key := types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: Deployment}
	if err := l.Client.Get(ctx, key, &d); err != nil {
		return nil, fmt.Errorf("read the operator's deployment: %w", err)
	}
	var pods corev1.PodList
	err := l.Client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels))
	if err != nil {
		return nil, fmt.Errorf("list the operator's pods: %w", err)
	}
	return pods.Items, nil
}

// OperatorLogs returns the last lines of the logs of every pod of the operator.
func (l *Lab) OperatorLogs(ctx context.Context, lines int64) (string, error) {
	pods, err := l.OperatorPods(ctx)
	if err != nil {
		return "", err
	}
	var all string
	for _, pod := range pods {
		logs, err := l.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err != nil {
			logs = []byte("no logs: " + err.Error() + "\n")
		}
		all += "--- " + pod.Name + " (" + string(pod.Status.Phase) + ")\n" + string(logs)
	}
	return all, nil
}
