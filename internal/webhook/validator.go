// Package webhook is what the API server asks about a MySQLCluster beyond the CRD's own rules: warnings about what is
// permitted but unwise or will not be served, and the refusal to delete a protected cluster.
// The contract itself is in the CRD, so that create and update work while the operator is down (failurePolicy Ignore);
// a delete does not (Fail).
//
// +kubebuilder:webhookconfiguration:mutating=false,name=nairobi-mysql-validating-webhook-configuration
package webhook

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
)

// Two entries lead to the same handler, because one that is not reached must not hold up a create, but must hold up a
// delete. The time-out is short: the handler reads its cache at most.
//
// +kubebuilder:webhook:path=/validate-mysql-alx-ke-v1alpha1-mysqlcluster,mutating=false,failurePolicy=ignore,groups=mysql.alx.ke,resources=mysqlclusters,verbs=create;update,versions=v1alpha1,name=advice.mysqlcluster.mysql.alx.ke,admissionReviewVersions=v1,sideEffects=None,timeoutSeconds=5,serviceName=nairobi-mysql-webhook-service,serviceNamespace=nairobi-mysql-system
// +kubebuilder:webhook:path=/validate-mysql-alx-ke-v1alpha1-mysqlcluster,mutating=false,failurePolicy=fail,groups=mysql.alx.ke,resources=mysqlclusters,verbs=delete,versions=v1alpha1,name=protection.mysqlcluster.mysql.alx.ke,admissionReviewVersions=v1,sideEffects=None,timeoutSeconds=5,serviceName=nairobi-mysql-webhook-service,serviceNamespace=nairobi-mysql-system

// Validator answers the API server. It refuses nothing but the deletion of a protected cluster.
type Validator struct {
	// Policy reads the administrator's policy, to warn of what it does not allow; nil for no such warnings.
	// The reconciler, not this warning, is what enforces the policy.
	Policy func(context.Context) (policy.Policy, error)
}

var _ admission.Validator[*v1alpha1.MySQLCluster] = (*Validator)(nil)

// ValidateCreate warns of what is unwise in a new cluster and of what the policy will not allow.
func (v *Validator) ValidateCreate(ctx context.Context, cluster *v1alpha1.MySQLCluster) (admission.Warnings, error) {
	if cluster == nil {
		return nil, nil
	}
	return append(advice(cluster), v.refusals(ctx, cluster)...), nil
}

// ValidateUpdate warns like ValidateCreate, of what the change brings: what was so before was said before.
func (v *Validator) ValidateUpdate(ctx context.Context, before, after *v1alpha1.MySQLCluster) (admission.Warnings, error) {
	if after == nil || !after.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	now, _ := v.ValidateCreate(ctx, after)
	if before == nil {
		return now, nil
	}
	said, _ := v.ValidateCreate(ctx, before)
	now = slices.DeleteFunc(now, func(warning string) bool { return slices.Contains(said, warning) })
	return append(now, retired(before, after)...), nil
}

// ValidateDelete refuses to delete a protected cluster and says how to go on.
func (v *Validator) ValidateDelete(_ context.Context, cluster *v1alpha1.MySQLCluster) (admission.Warnings, error) {
	if cluster == nil {
		return nil, nil
	}
	kept := cluster.Spec.Storage.EffectiveDeletionPolicy()
	if cluster.IsProtected() {
		return nil, fmt.Errorf("MySQLCluster %s is protected against deletion. To delete it, lift the protection first: "+
			`kubectl patch mysqlclusters.mysql.alx.ke %s --namespace %s --type merge --patch '{"spec":{"deletionProtection":false}}'. `+
			"What becomes of its volumes is decided by spec.storage.deletionPolicy, which is %s",
			cluster.Name, cluster.Name, cluster.Namespace, kept)
	}
	if kept == v1alpha1.DeletionPolicyDelete {
		return admission.Warnings{"storage.deletionPolicy is Delete: nothing is kept of the data"}, nil
	}
	return nil, nil
}

// refusals are the policy's violations as warnings. Trouble in reading the policy is the reconciler's to tell.
func (v *Validator) refusals(ctx context.Context, cluster *v1alpha1.MySQLCluster) admission.Warnings {
	if v == nil || v.Policy == nil {
		return nil
	}
	rules, err := v.Policy(ctx)
	if err != nil {
		return nil
	}
	var warnings admission.Warnings
	for _, violation := range rules.Check(cluster.Namespace, cluster.Spec) {
		warnings = append(warnings, "will not be served: "+violation.Field+": "+violation.Message)
	}
	return warnings
}
