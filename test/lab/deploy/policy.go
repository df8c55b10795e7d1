package deploy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// policyKey is the key of the administrator's policy in its ConfigMap.
const policyKey = "policy.yaml"

// AllowLab writes the administrator's policy: the namespaces (patterns) may use the operator's credentials, the lab's
// subnets and its image, and nothing else.
func (l *Lab) AllowLab(ctx context.Context, namespaces ...string) error {
	allowed := map[string]any{}
	for _, namespace := range namespaces {
		allowed[namespace] = map[string]any{
			"operatorCredentials": true,
			"subnets":             l.Cloud.SubnetIDs,
			"images":              []string{l.Cloud.ImageID},
		}
	}
	policy, err := yaml.Marshal(map[string]any{"namespaces": allowed})
	if err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	manifest, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyConfigMap, Namespace: v1alpha1.SystemNamespace},
		Data:       map[string]string{policyKey: string(policy)},
	})
	if err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	if _, err := l.Kubectl(ctx, string(manifest), "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return fmt.Errorf("apply the policy: %w", err)
	}
	return nil
}
