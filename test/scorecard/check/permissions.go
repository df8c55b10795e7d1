package check

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Granted is a rule and where it holds.
type Granted struct {
	ServiceAccount string
	// Cluster is true for a rule that holds in all namespaces.
	Cluster bool
	Rule    rbacv1.PolicyRule
}

// Permissions lists the rules of a ClusterServiceVersion.
func Permissions(csv *operatorsv1alpha1.ClusterServiceVersion) []Granted {
	var all []Granted
	strategy := csv.Spec.InstallStrategy.StrategySpec
	for _, permission := range strategy.ClusterPermissions {
		for _, rule := range permission.Rules {
			all = append(all, Granted{ServiceAccount: permission.ServiceAccountName, Cluster: true, Rule: rule})
		}
	}
	for _, permission := range strategy.Permissions {
		for _, rule := range permission.Rules {
			all = append(all, Granted{ServiceAccount: permission.ServiceAccountName, Rule: rule})
		}
	}
	return all
}

// Narrow looks for wildcards.
func Narrow(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	var wrong []string
	for _, granted := range Permissions(csv) {
		rule := granted.Rule
		for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
			if slices.Contains(list, rbacv1.VerbAll) {
				wrong = append(wrong, fmt.Sprintf("the rule %v holds a wildcard: list what the code uses in a +kubebuilder:rbac marker, and run `make bundle`", rule))
				break
			}
		}
	}
	return wrong
}

// Reviews are the questions to the API server whether a rule is in force: one for each group, resource, verb and name.
// namespace is the operator's; a rule that holds in all namespaces is asked about in all of them.
func (g Granted) Reviews(namespace string) []authorizationv1.ResourceAttributes {
	if g.Cluster {
		namespace = ""
	}
	names := g.Rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var questions []authorizationv1.ResourceAttributes
	for _, group := range g.Rule.APIGroups {
		for _, resource := range g.Rule.Resources {
			resource, subresource := splitResource(resource)
			for _, verb := range g.Rule.Verbs {
				for _, name := range names {
					questions = append(questions, authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
					})
				}
			}
		}
	}
	return questions
}
