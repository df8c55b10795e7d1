//go:build e2e

package olm_test

import "github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"

// ofMonitoring are requests that only clusters with spec.monitoring cause. There is none here: TestMonitoring of controllers compares
// them with the operator's role.
func ofMonitoring() map[check.Use]string {
	unseen := map[check.Use]string{}
	for resource, verbs := range map[check.Use][]string{
		{Group: "apps", Resource: "deployments"}:                      {"create", "patch", "delete"},
		{Group: "monitoring.coreos.com", Resource: "podmonitors"}:     {"get", "create", "patch", "delete"},
		{Group: "monitoring.coreos.com", Resource: "prometheusrules"}: {"get", "create", "patch", "delete"},
	} {
		for _, verb := range verbs {
			unseen[check.Use{Group: resource.Group, Resource: resource.Resource, Verb: verb}] = "only monitored clusters cause it: controllers TestMonitoring"
		}
	}
	return unseen
}
