package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/config/rbac"
	certificates "github.com/alx-ke/nairobi-mysql-operator/config/webhook-certificates"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// docsInstall is what to read about the objects of an installation.
const docsInstall = "apply the manifests of this release again (docs/install.md)"

// checkRBAC asks the API server about every rule of the roles that belong to this build. It speaks of whoever runs the doctor.
func checkRBAC(ctx context.Context, d *Doctor) Finding {
	files := [][]byte{rbac.Roles}
	if d.Webhook && d.OwnCertificates {
		files = append(files, certificates.Roles)
	}
	var missing []string
	asked := 0
	for _, file := range files {
		permissions, err := permissionsIn(file, d.SystemNamespace)
		if err != nil {
			return failed("report it: the build is broken", "the roles of this build cannot be read: %v", err)
		}
		for _, a := range permissions {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
			if err := d.Kubernetes.Create(ctx, review); err != nil {
				return notChecked("make the API server reachable", "the API server does not review permissions: %v", err)
			}
			if asked++; !review.Status.Allowed {
				missing = append(missing, permissionText(a))
			}
		}
	}
	if len(missing) > 0 {
		return failed("run as the operator's service account; if so, "+docsInstall, "Kubernetes does not permit: %s", strings.Join(missing, ", "))
	}
	return ok("all %d permissions of the operator are granted", asked)
}

// permissionsIn lists what the roles of a file grant; those of a Role in the operator's namespace.
func permissionsIn(file []byte, namespace string) ([]authorizationv1.ResourceAttributes, error) {
	var all []authorizationv1.ResourceAttributes
	for document := range strings.SplitSeq(string(file), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, err
		}
		in := ""
		if role.Kind == "Role" {
			in = namespace
		}
		for _, rule := range role.Rules {
			all = append(all, permissionsOf(rule, in)...)
		}
	}
	return all, nil
}

func permissionsOf(rule rbacv1.PolicyRule, namespace string) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			kind, part, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, authorizationv1.ResourceAttributes{
						Group: group, Resource: kind, Subresource: part, Verb: verb, Name: name, Namespace: namespace})
				}
			}
		}
	}
	return all
}

func permissionText(a authorizationv1.ResourceAttributes) string {
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if a.Group != "" {
		what += "." + a.Group
	}
	if a.Name != "" {
		what += " " + a.Name
	}
	if a.Namespace != "" {
		what += " in " + a.Namespace
	}
	return a.Verb + " " + what
}

// checkPolicy reads the administrator's policy.
func checkPolicy(ctx context.Context, d *Doctor) Finding {
	var cm corev1.ConfigMap
	where := fmt.Sprintf("ConfigMap %s/%s", d.SystemNamespace, v1alpha1.PolicyConfigMap)
	err := d.Kubernetes.Get(ctx, client.ObjectKey{Namespace: d.SystemNamespace, Name: v1alpha1.PolicyConfigMap}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return warning("create it (docs/security.md), unless every cluster has spec.aws.credentialsSecretRef", "there is no %s, so no namespace may use the operator's AWS identity", where)
	case err != nil:
		return notChecked("permit get configmaps", "%s cannot be read: %v", where, err)
	}
	if d.policy, err = policy.Parse(cm.Data); err != nil {
		return failed("correct the key "+policy.Key+", see config/samples/policy.yaml", "%s: %v", where, err)
	}
	if _, err := d.policy.Prices(); err != nil {
		return warning("correct the key "+policy.PricesKey+", see docs/aws.md", "no cluster shows what it costs: %s: %v", where, err)
	}
	return ok("%s is valid", where)
}

// checkReleaseKeys: instances must be able to verify what they download, and for some time to come.
func checkReleaseKeys(_ context.Context, d *Doctor) Finding {
	change := fmt.Sprintf("install a newer operator, or put MySQL's present key block into ConfigMap %s, key %s (docs/images.md)", v1alpha1.PolicyConfigMap, policy.ReleaseKeysKey)
	keys, now := d.policy.ReleaseKeys(), d.Clock.Now()
	if at, expired := keys.Expired(now); expired {
		return failed(change, "MySQL's release keys expired on %s, so instances verify no tarball", at.Format(time.DateOnly))
	}
	if at, expiring := keys.Expiring(now); expiring {
		return warning(change, "MySQL's release keys expire on %s, and instances verify no tarball from then on", at.Format(time.DateOnly))
	}
	if at, ends := keys.Expires(); ends {
		return ok("MySQL's release keys are valid until %s", at.Format(time.DateOnly))
	}
	return ok("MySQL's release keys are valid")
}

// checkClusters lists the clusters that the others check.
func checkClusters(ctx context.Context, d *Doctor) Finding {
	d.clusters = d.Manifests
	if len(d.Manifests) > 0 && d.Namespace == "" && len(d.Clusters) == 0 {
		return ok("%d clusters of manifests are checked", len(d.clusters))
	}
	var list v1alpha1.MySQLClusterList
	if err := d.Kubernetes.List(ctx, &list, client.InNamespace(d.Namespace)); err != nil {
		return failed("install the CRDs, and permit list mysqlclusters", "MySQLClusters cannot be listed: %v", err)
	}
	found := map[string]bool{}
	for _, c := range list.Items {
		full := c.Namespace + "/" + c.Name
		if len(d.Clusters) == 0 || slices.Contains(d.Clusters, c.Name) || slices.Contains(d.Clusters, full) {
			d.clusters = append(d.clusters, c)
			found[c.Name], found[full] = true, true
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(d.Clusters), func(name string) bool { return found[name] }); len(missing) > 0 {
		return failed("correct --cluster or --namespace", "there is no MySQLCluster %s", strings.Join(missing, ", "))
	}
	if len(d.clusters) == 0 {
		return notChecked("name a manifest by --manifest, to have checked what a cluster needs", "there is no MySQLCluster")
	}
	return ok("%d clusters are checked", len(d.clusters))
}

// ReadManifest reads the MySQLClusters of a file of YAML documents. Each gets a UID, by which the operator knows a cluster that is applied.
func ReadManifest(r io.Reader) ([]v1alpha1.MySQLCluster, error) {
	var all []v1alpha1.MySQLCluster
	for documents := yaml.NewYAMLReader(bufio.NewReader(r)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var of metav1.TypeMeta
		if err := yaml.Unmarshal(text, &of); err != nil {
			return nil, err
		}
		if of.Kind != "MySQLCluster" {
			continue
		}
		var c v1alpha1.MySQLCluster
		if err := yaml.UnmarshalStrict(text, &c); err != nil {
			return nil, err
		}
		if c.Namespace == "" {
			c.Namespace = metav1.NamespaceDefault
		}
		c.UID = uuid.NewUUID()
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no MySQLCluster in it")
	}
	return all, nil
}

// checkLease: an operator leads, and renews its lease.
func checkLease(ctx context.Context, d *Doctor) Finding {
	var lease coordinationv1.Lease
	where := fmt.Sprintf("lease %s/%s", d.SystemNamespace, leader.LeaseName)
	err := d.Kubernetes.Get(ctx, client.ObjectKey{Namespace: d.SystemNamespace, Name: leader.LeaseName}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return warning("look at the pods of Deployment nairobi-mysql-controller-manager, and at --system-namespace", "there is no %s: no operator with --leader-elect has run here", where)
	case err != nil:
		return notChecked("permit get leases", "%s cannot be read: %v", where, err)
	case lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		return failed("look at the pods of the operator and their logs", "nobody holds %s: no operator is at work", where)
	}
	if age := d.Clock.Since(lease.Spec.RenewTime.Time); age > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second {
		return failed("look at the pods of the operator and their logs", "%s was last renewed %s ago by %s: no operator is at work", where, age.Round(time.Second), *lease.Spec.HolderIdentity)
	}
	return ok("%s holds %s", *lease.Spec.HolderIdentity, where)
}

// checkOneInstallation: no operator in another namespace holds its lease. Both would act on all clusters, so one of them does nothing.
func checkOneInstallation(ctx context.Context, d *Doctor) Finding {
	var leases coordinationv1.LeaseList
	if err := d.Kubernetes.List(ctx, &leases, client.MatchingFields{metav1.ObjectNameField: leader.LeaseName}); err != nil {
		return notChecked("permit list leases", "leases cannot be listed: %v", err)
	}
	ask := func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error {
		return d.Kubernetes.Create(ctx, review)
	}
	var others []string
	for _, lease := range leases.Items {
		if lease.Namespace == d.SystemNamespace || ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
			continue
		}
		if d.Clock.Since(lease.Spec.RenewTime.Time) > leader.Lasts(&lease) {
			continue
		}
		switch of, err := leader.OfInstallation(ctx, ask, &lease); {
		case err != nil:
			return notChecked("make the API server reachable", "Lease %s in namespace %s: %v", lease.Name, lease.Namespace, err)
		case of:
			others = append(others, fmt.Sprintf("%s in namespace %s", *lease.Spec.HolderIdentity, lease.Namespace))
		}
	}
	if len(others) > 0 {
		return failed("remove one of the installations, or correct --system-namespace (docs/install.md)", "an operator leads in another namespace: %s. Only one installation works", strings.Join(others, ", "))
	}
	return ok("no operator leads in another namespace")
}

// probeAddress is of a range for documentation (RFC 5737), which no host has.
const probeAddress = "192.0.2.1"

// checkEndpointSlices has the API server judge the slices of a cluster, which admission policies may refuse.
func checkEndpointSlices(ctx context.Context, d *Doctor) Finding {
	c := sample(d.SystemNamespace)
	c.UID = "0b4d3f3e-0000-4000-8000-000000000000"
	for _, slice := range resources.EndpointSlices(c, []resources.Member{{Name: c.Name + "-0", Address: probeAddress, Ready: true, Primary: true}}) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(slice)
		object := &discoveryv1.EndpointSlice{}
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, object)
		}
		if err != nil {
			return failed("report it: the build is broken", "the EndpointSlice of a cluster cannot be made: %v", err)
		}
		object.OwnerReferences = nil // the cluster does not exist
		if err := d.Kubernetes.Create(ctx, object, client.DryRunAll); err != nil {
			return failed("permit create endpointslices, and exempt the operator from admission policies that refuse them", "a dry run of an EndpointSlice is refused: %v", err)
		}
	}
	return ok("EndpointSlices with addresses of instances are accepted")
}
