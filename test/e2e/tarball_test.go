//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/archive"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// smallest is the cluster of the sample that says least.
var smallest = client.ObjectKey{Namespace: "small", Name: "orders"}

// Test19: with a region, subnets, a version and the clients the operator launches Amazon Linux, which has no MySQL. The release has been
// moved to the archives, and what is there does not match its signature: no member starts, and status says why. Once it does, all start.
func Test19SmallestSampleInstallsMySQLBySignature(t *testing.T) {
	ctx := t.Context()
	site, err := archive.New(lab.Cloud.DownloadSite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	lap := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	tarball, err := archive.Pack(ctx, lab.Cloud.RootFS)
	if err != nil {
		t.Fatal(err)
	}
	key, err := site.Key(ctx, "release", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	path := archive.Archived(lab.Cloud.MySQLVersion)
	if err := site.Put(ctx, path, tarball, key, ""); err != nil {
		t.Fatal(err)
	}
	lap(fmt.Sprintf("the tarball of MySQL %s, %d MB, is at %s", lab.Cloud.MySQLVersion, len(tarball)/1e6, path))
	place := filepath.Join(lab.Cloud.DownloadSite, path)
	flipped := slices.Clone(tarball)
	flipped[len(flipped)/2] ^= 1
	if err := os.WriteFile(place, flipped, 0o644); err != nil { //nolint:gosec // what is served
		t.Fatal(err)
	}

	if err := lab.AllowLab(ctx, smallest.Namespace); err != nil {
		t.Fatal(err)
	}
	trust, err := site.PublicKeys(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	setPolicy(ctx, t, map[string]*string{policy.ReleaseKeysKey: &trust})
	t.Cleanup(func() { setPolicy(context.WithoutCancel(ctx), t, map[string]*string{policy.ReleaseKeysKey: nil}) })
	if err := lab.Apply(ctx, smallestSample(t)); err != nil {
		t.Fatal(err)
	}
	waitUpTo(t, readyTimeout, smallest, "status to say what is wrong with the tarball", func() bool {
		says := meta.FindStatusCondition(read(t, smallest).Status.Conditions, v1alpha1.ConditionProgressing)
		return says != nil && strings.Contains(says.Message, "cannot install MySQL") && strings.Contains(says.Message, "HTTP 404") && strings.Contains(says.Message, "does not match its signature")
	})
	c := read(t, smallest)
	lap("status says: " + meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing).Message)
	if c.Status.Phase != v1alpha1.PhaseProvisioning && c.Status.Phase != v1alpha1.PhaseEC2Ready {
		t.Errorf("meanwhile the phase is %s", c.Status.Phase)
	}

	if err := os.WriteFile(place, tarball, 0o644); err != nil { //nolint:gosec // what is served
		t.Fatal(err)
	}
	instances := instanceIDs(c)
	c, err = lab.WaitReady(ctx, smallest, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	lap("the cluster is Ready")
	if !slices.Equal(instances, instanceIDs(c)) {
		t.Errorf("the instances were %v and are %v", instances, instanceIDs(c))
	}
	if is := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionDegraded); is == nil || is.Status != metav1.ConditionFalse {
		t.Errorf("Degraded is %+v", is)
	}
	for _, id := range instanceIDs(c) {
		if said := console(t, id); !strings.Contains(said, "nairobi-mysql: download") {
			t.Errorf("%s has not installed MySQL; its console:\n%s", id, said)
		}
	}
	if err := lab.Client.Patch(ctx, c, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"deletionProtection":false,"storage":{"deletionPolicy":"Delete"}}}`))); err != nil {
		t.Fatal(err)
	}
	if err := lab.Delete(ctx, smallest, changeTimeout); err != nil {
		t.Fatal(err)
	}
	lap("the cluster is gone")
}

// smallestSample is the shipped file with what a user puts in: region, subnets and clients, and the version that the site has. Its settings
// are small, because an instance of the lab shows mysqld the memory of the whole machine.
func smallestSample(t *testing.T) *v1alpha1.MySQLCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(lab.Root, "config", "samples", "smallest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.MySQLCluster{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		t.Fatal(err)
	}
	c.Namespace, c.Name = smallest.Namespace, smallest.Name
	c.Spec.Version, c.Spec.AWS.Region, c.Spec.MySQLD = lab.Cloud.MySQLVersion, lab.Cloud.Region, deploy.SmallSettings()
	c.Spec.AWS.SubnetIDs, c.Spec.AWS.ClientCIDRs = lab.Cloud.SubnetIDs, []string{lab.Cloud.ClientCIDR}
	return c
}

// setPolicy changes keys of the administrator's policy; nil removes one.
func setPolicy(ctx context.Context, t *testing.T, data map[string]*string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.PolicyConfigMap}}
	if err := lab.Client.Patch(ctx, cm, client.RawPatch(client.Merge.Type(), patch)); err != nil {
		t.Fatal(err)
	}
}

func instanceIDs(c *v1alpha1.MySQLCluster) []string {
	var ids []string
	for _, m := range c.Status.Members {
		ids = append(ids, m.InstanceID)
	}
	return ids
}

// console reads what an instance printed.
func console(t *testing.T, id string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+cloud.ControlAddress+"/instances/"+id+"/console", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
