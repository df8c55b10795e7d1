package chaos

import (
	"context"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// sceneOf is a scene whose primary is a real server, which no operator attends.
func sceneOf(t *testing.T) (*Scene, *mysqld.Server) {
	t.Helper()
	farm, err := mysqld.NewFarm(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := farm.Close(); err != nil {
			t.Error(err)
		}
	})
	server, err := farm.Start(t.Context(), mysqld.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	key := client.ObjectKey{Namespace: "shop", Name: "orders"}
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name, cluster.Status.Primary = key.Namespace, key.Name, server.Name
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = key.Namespace, key.Name+"-operator-tls"
	authorityPEM, certificate, privateKey := farm.OperatorIdentity()
	secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: privateKey}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(authorityPEM)
	w := &World{
		lab: &deploy.Lab{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, secret).Build()}, key: key, out: t.Output(),
		access: access{network: nodeNetwork{pid: os.Getpid()}, authority: authority}, watch: &watcher{},
	}
	return &Scene{World: w, Primary: v1alpha1.MemberStatus{Name: server.Name, Address: server.IP()}}, server
}

// Value returns a global variable of a server.
func value(t *testing.T, server *mysqld.Server, variable string) string {
	t.Helper()
	out, err := server.SQL(t.Context(), "SELECT IF(@@global."+variable+", 'ON', 'OFF')")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestASettingIsPutBackAtTheEndOfItsFault on a real server, whoever does it: the operator in time, or the fault itself.
func TestASettingIsPutBackAtTheEndOfItsFault(t *testing.T) {
	s, server := sceneOf(t)
	for _, change := range []settingChange{semiSyncOff, readOnly, offlineMode} {
		if err := s.setOn(t.Context(), s.Primary, "super_read_only", "OFF"); err != nil {
			t.Fatal(err)
		}
		if err := s.setOn(t.Context(), s.Primary, change.variable, change.proper); err != nil {
			t.Fatal(err)
		}
		if err := change.set(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := value(t, server, change.variable); got != change.value {
			t.Errorf("%s is %s, and the fault sets it to %s", change.variable, got, change.value)
		}
		if err := s.heal(t.Context()); err != nil {
			t.Error(err)
		}
		if got := value(t, server, change.variable); got != change.proper {
			t.Errorf("%s is %s after the fault", change.variable, got)
		}
	}
	if len(s.findings) > 0 {
		t.Errorf("findings: %v", s.findings)
	}
}

// TestAnOperatorHasToPutASettingBackAndToReportIt in time.
func TestAnOperatorHasToPutASettingBackAndToReportIt(t *testing.T) {
	s, server := sceneOf(t)
	for name, row := range map[string]struct {
		reports bool
		finding string
	}{
		"in time":  {reports: true},
		"silently": {finding: "no Warning and no condition named it"},
	} {
		s.findings, s.watch = nil, &watcher{}
		operator, stop := context.WithCancel(t.Context())
		go func() {
			_ = pause(operator, time.Second)
			if row.reports {
				s.watch.mu.Lock()
				s.watch.note(Sight{Kind: kindEvent, Warning: true, Text: "offline_mode was ON"})
				s.watch.mu.Unlock()
			}
			_, _ = server.SQL(operator, "SET GLOBAL offline_mode = OFF") // the fault finds out
		}()
		if err := offlineMode.fault(t.Context(), s); err != nil {
			t.Error(err)
		}
		stop()
		switch {
		case row.finding == "" && len(s.findings) > 0:
			t.Errorf("%s: %v", name, s.findings)
		case row.finding != "" && (len(s.findings) != 1 || !strings.Contains(s.findings[0].Error(), row.finding)):
			t.Errorf("%s: the findings are %v, want %q", name, s.findings, row.finding)
		}
	}
}
