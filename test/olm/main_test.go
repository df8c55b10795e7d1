//go:build e2e

// Package olm_test installs, upgrades and removes the operator through a real OLM in the lab, and judges it as OperatorHub's
// users do, with scorecard. The scenarios share one installation and run in the order of their names.
package olm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

const (
	// installLimit bounds what OLM needs to install or replace an operator: it waits for pods, jobs and back-offs.
	installLimit = 5 * time.Minute
	// readyLimit bounds a cluster's way to Ready, changeLimit a change to it.
	readyLimit, changeLimit = 5 * time.Minute, 3 * time.Minute
)

// What the scenarios share.
var (
	// first is the version of the tree, the others are those after it. All three are made of the same tree.
	first, second, third string

	lab     *deploy.Lab
	manager *olm.OLM
	// bundles are the folders of the releases' bundles, images the operator's image in each.
	bundles, images = map[string]string{}, map[string]string{}

	orders       = client.ObjectKey{Namespace: "shop", Name: "orders"}
	catalog      = client.ObjectKey{Namespace: olm.Namespace, Name: "nairobi-mysql"}
	subscription = client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: olm.Package}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	ctrl.SetLogger(logr.Discard())
	work, err := os.MkdirTemp("", "nairobi-olm-")
	if err == nil {
		defer func() { _ = os.RemoveAll(work) }()
		err = setUp(ctx, work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up:", err)
		diagnose(ctx)
		return 1
	}
	code := m.Run()
	if code != 0 {
		diagnose(ctx)
	}
	return code
}

// setUp brings OLM into the lab, and what the releases consist of into the lab's registry.
func setUp(ctx context.Context, work string) (err error) {
	if err := deploy.Up(ctx); err != nil {
		return err
	}
	if lab, err = deploy.Open(ctx); err != nil {
		return err
	}
	if manager, err = olm.Install(ctx, lab); err != nil {
		return err
	}
	if err := nameReleases(ctx); err != nil {
		return err
	}
	if err := makeReleases(ctx, work); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for version, folder := range bundles {
		group.Go(func() error { return olm.PushBundle(ctx, olm.BundleImage(version), folder) })
	}
	group.Go(func() error { return pushCatalogs(ctx, work) })
	return group.Wait()
}

// nameReleases finds the version of the tree, and the minor versions after it.
func nameReleases(ctx context.Context) (err error) {
	if first, err = olm.TreeVersion(ctx, lab.Root); err != nil {
		return err
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(first, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return fmt.Errorf("read the version %q: %w", first, err)
	}
	second, third = fmt.Sprintf("%d.%d.0", major, minor+1), fmt.Sprintf("%d.%d.0", major, minor+2)
	return nil
}

// makeReleases makes the bundles and the images that they name. The first is the one that is committed, but that it goes by its image's
// tag also when the committed one names a published digest, and replaces nothing; the others go by their digests, as published ones do.
func makeReleases(ctx context.Context, work string) (err error) {
	if images[first], _, err = lab.PushOperatorRelease(ctx, first); err != nil {
		return err
	}
	if bundles[first], err = manager.MakeBundle(ctx, filepath.Join(work, first), first, images[first], ""); err != nil {
		return err
	}
	replaces := first
	for _, version := range []string{second, third} {
		if _, images[version], err = lab.PushOperatorRelease(ctx, version); err != nil {
			return err
		}
		folder := filepath.Join(work, version)
		if bundles[version], err = manager.MakeBundle(ctx, folder, version, images[version], replaces); err != nil {
			return err
		}
		if err := addField(bundles[version]); err != nil {
			return err
		}
		replaces = version
	}
	return nil
}

// pushCatalogs pushes the catalog as it is after each release.
func pushCatalogs(ctx context.Context, work string) error {
	releases := []olm.Release{
		{Version: first, Bundle: bundles[first]}, {Version: second, Replaces: first, Bundle: bundles[second]}, {Version: third, Replaces: second, Bundle: bundles[third]},
	}
	for count := range releases {
		folder := filepath.Join(work, "catalog-of-"+releases[count].Version)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		if err := manager.MakeCatalog(ctx, folder, releases[:count+1]...); err != nil {
			return err
		}
		if err := manager.PushCatalog(ctx, catalogImage(releases[count].Version), filepath.Join(folder, "catalog")); err != nil {
			return err
		}
	}
	return nil
}

func catalogImage(newest string) string {
	return "ghcr.io/alx-ke/nairobi-mysql-operator-catalog:with-" + newest
}

// subscribe is what an administrator applies: docs/install.md.
func subscribe(t *testing.T) {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: subscription.Namespace}},
		&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: subscription.Namespace, Name: olm.Package}},
		&operatorsv1alpha1.CatalogSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: catalog.Namespace, Name: catalog.Name},
			Spec: operatorsv1alpha1.CatalogSourceSpec{
				SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: catalogImage(first), DisplayName: "Nairobi MySQL Operator",
				GrpcPodConfig: &operatorsv1alpha1.GrpcPodConfig{SecurityContextConfig: operatorsv1alpha1.Restricted},
			},
		},
		&operatorsv1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: subscription.Namespace, Name: subscription.Name},
			Spec: &operatorsv1alpha1.SubscriptionSpec{
				CatalogSource: catalog.Name, CatalogSourceNamespace: catalog.Namespace, Package: olm.Package, Channel: olm.Channel,
				InstallPlanApproval: operatorsv1alpha1.ApprovalAutomatic, Config: &operatorsv1alpha1.SubscriptionConfig{Env: labEnv()},
			},
		},
	} {
		if err := manager.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// labEnv points the operator at the lab's EC2, as an administrator would at a private endpoint.
func labEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "AWS_REGION", Value: lab.Cloud.Region}, {Name: "AWS_ENDPOINT_URL", Value: "http://" + cloud.EndpointAddress},
		{Name: "AWS_ACCESS_KEY_ID", Value: "lab"}, {Name: "AWS_SECRET_ACCESS_KEY", Value: "lab"}, {Name: "AWS_EC2_METADATA_DISABLED", Value: "true"},
	}
}

// diagnose prints what a person would look at.
func diagnose(ctx context.Context) {
	if lab == nil {
		return
	}
	for _, args := range [][]string{
		{"get", "csv,subscription,installplan,operatorcondition,catalogsource", "--all-namespaces", "--output=wide"},
		{"get", "pods", "--all-namespaces", "--output=wide"},
		{"get", "events", "--namespace=" + olm.Namespace},
		{"get", "events", "--namespace=" + v1alpha1.SystemNamespace},
		{"get", "subscription", "--all-namespaces", "--output=jsonpath={.items[*].status.conditions}"},
		{"logs", "--namespace=" + olm.Namespace, "deployment/catalog-operator", "--tail=30"},
		{"logs", "--namespace=" + olm.Namespace, "deployment/olm-operator", "--tail=30"},
	} {
		out, err := lab.Kubectl(ctx, "", args...)
		fmt.Fprintf(os.Stderr, "\n$ kubectl %v\n%s", args, out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	lab.Diagnose(ctx, os.Stderr, orders)
}

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:" + v1alpha1.SystemNamespace + ":" + deploy.Deployment

func auditLog() string { return kube.AuditLog(lab.Dir) }
