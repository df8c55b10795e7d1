package main

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// permissionsSuffice asks the API server, in the name of the installed operator, whether it may do all that its code lists:
// the markers that the CSV's permissions are generated from.
func permissionsSuffice(ctx context.Context, s *scene) ([]string, error) {
	namespace, err := s.operatorNamespace(ctx)
	if err != nil {
		return nil, err
	}
	var wrong []string
	asked := 0
	for _, granted := range check.Permissions(s.bundle.CSV) {
		operator, err := s.as(namespace, granted.ServiceAccount)
		if err != nil {
			return nil, err
		}
		for _, question := range granted.Reviews(namespace) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &question}}
			if err := operator.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("ask in the name of the operator: %w", explain(err))
			}
			asked++
			if !review.Status.Allowed {
				wrong = append(wrong, fmt.Sprintf("%s/%s may not %s %s %s in %q: look at the ClusterServiceVersion's status and at its roles; was it installed from another bundle?",
					namespace, granted.ServiceAccount, question.Verb, question.Group, question.Resource, question.Namespace))
			}
		}
	}
	s.say("the operator in namespace %s was asked about in %d reviews", namespace, asked)
	return wrong, nil
}

// operatorNamespace is where the bundle's ClusterServiceVersion is installed.
func (s *scene) operatorNamespace(ctx context.Context) (string, error) {
	var all operatorsv1alpha1.ClusterServiceVersionList
	if err := s.client.List(ctx, &all); err != nil {
		return "", fmt.Errorf("look for the installed ClusterServiceVersion: %w", explain(err))
	}
	for _, csv := range all.Items {
		if csv.Name == s.bundle.CSV.Name && !csv.IsCopied() {
			return csv.Namespace, nil
		}
	}
	return "", fmt.Errorf("no ClusterServiceVersion %s is installed: install this bundle first, for example with `operator-sdk run bundle`", s.bundle.CSV.Name)
}

// as is a client in the name of a service account.
func (s *scene) as(namespace, account string) (client.Client, error) {
	config := rest.CopyConfig(s.config)
	// The API server itself adds the groups of a service account.
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
	return client.New(config, client.Options{Scheme: s.scheme})
}
