//go:build e2e

package olm_test

import "github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"

// ofBackups are requests that only clusters with spec.backup or spec.bootstrap.recovery cause. There is none here: what
// OLM's permissions allow of it is what config/rbac allows, under which test/e2e Test15 runs.
func ofBackups() map[check.Use]string {
	const why = "only clusters with backups cause it: test/e2e Test15"
	unseen := map[check.Use]string{
		{Group: "mysql.alx.ke", Resource: "mysqlbackups/status", Verb: "patch"}:      why,
		{Group: "mysql.alx.ke", Resource: "mysqlbackups/finalizers", Verb: "update"}: "asked for by an admission plug-in that OpenShift has, not by a request",
		{Resource: "pods", Verb: "get"}:                                              why,
	}
	for resource, verbs := range map[check.Use][]string{
		{Group: "mysql.alx.ke", Resource: "mysqlbackups"}:              {"get", "create", "patch", "delete"},
		{Resource: "serviceaccounts"}:                                  {"create", "patch"},
		{Group: "rbac.authorization.k8s.io", Resource: "roles"}:        {"create", "patch"},
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}: {"create", "patch"},
		{Group: "batch", Resource: "cronjobs"}:                         {"create", "patch", "delete"},
		{Group: "batch", Resource: "jobs"}:                             {"get", "create", "delete"},
		{Group: "apps", Resource: "statefulsets"}:                      {"create", "patch", "delete"},
		{Resource: "persistentvolumeclaims"}:                           {"get", "patch"},
	} {
		for _, verb := range verbs {
			unseen[check.Use{Group: resource.Group, Resource: resource.Resource, Verb: verb}] = why
		}
	}
	return unseen
}
