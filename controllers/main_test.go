package controllers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// The tests of this package run the reconciler against a real API server and moto's EC2, pass by pass, without a
// manager: so a test can stop it between any two calls. All of them share one API server and one moto; each has
// namespaces, an AWS account and a clock of its own, so they run side by side.
var (
	shared *apiServer
	// kube is the administrator's client of the shared API server.
	kube   client.Client
	cloud  *moto.Server
	seeded moto.Seeded
)

const (
	// motoDelay is how long moto's things take from one state to the next, in real time.
	motoDelay = 30 * time.Millisecond
	// startTimeout bounds the start of the API server, four seconds on an idle machine, its end, and how long it takes to
	// serve our CRDs.
	startTimeout = 3 * time.Minute
	// sideBySide is how many tests run at the same time unless -parallel says otherwise. Most of their time they wait.
	sideBySide = 5
	// auditLogMiB is the size at which the API server would begin another audit log, in MiB.
	auditLogMiB = "1024"
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	if err := runSideBySide(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctrl.SetLogger(logr.Discard())
	var err error
	if shared, err = startAPIServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	kube = shared.kube
	code := runInCloud(m)
	var granted []check.Granted
	if code == 0 && everyTestRuns() {
		granted = shared.granted
	}
	if wrong := shared.end(granted); len(wrong) > 0 {
		// What fails in another way is run again by hack/test-servers.sh, which then finds that no test fails.
		panic("what the operator asks of Kubernetes and config/rbac differ:\n" + strings.Join(wrong, "\n"))
	}
	return code
}

// runInCloud runs the tests with a moto.
func runInCloud(m *testing.M) int {
	var err error
	if cloud, err = moto.Start(context.Background(), moto.Options{Delay: motoDelay}); err != nil {
		fmt.Fprintln(os.Stderr, "start moto:", err)
		return 1
	}
	defer func() { _ = cloud.Stop() }()
	if seeded, err = cloud.Seed(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "seed moto:", err)
		return 1
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "lab", "AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// apiServer is an API server with our CRDs, in which the operator has the grants of config/rbac and no others.
type apiServer struct {
	env    *envtest.Environment
	folder string // of its audit log
	// kube is the administrator's client, with which tests arrange and look.
	kube client.Client
	// operator is the operator's client, and cached the same with its manager's caches. config leads a manager to the API server.
	operator, cached client.Client
	config           *rest.Config
	granted          []check.Granted
}

// startAPIServer starts an API server.
func startAPIServer() (*apiServer, error) {
	s := &apiServer{}
	if err := s.start(context.Background()); err != nil {
		s.end(nil)
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	return s, nil
}

func (s *apiServer) start(ctx context.Context) error {
	assets, err := build.EnvtestAssets(ctx)
	if err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "audit"); err != nil {
		return err
	}
	policy := filepath.Join(s.folder, "policy.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	s.env = &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
	s.env.ControlPlane.GetAPIServer().Configure().
		// Every cluster has three Services and an address for each: those of all tests do not fit into envtest's /24.
		Set("service-cluster-ip-range", "10.0.0.0/16").
		Set("audit-policy-file", policy).Set("audit-log-path", s.auditLog()).Set("audit-log-maxsize", auditLogMiB).
		// As OpenShift does.
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	config, err := s.env.Start()
	if err != nil {
		return err
	}
	if s.kube, err = client.New(config, client.Options{Scheme: testScheme()}); err != nil {
		return err
	}
	if s.granted, err = grant(ctx, s.kube); err != nil {
		return err
	}
	user, err := s.env.AddUser(envtest.User{Name: operatorUser, Groups: []string{"system:serviceaccounts"}}, config)
	if err != nil {
		return err
	}
	s.config = user.Config()
	s.operator, err = client.New(s.config, client.Options{Scheme: testScheme()})
	s.cached = cached{Client: s.operator, kube: s.kube}
	return err
}

func (s *apiServer) auditLog() string { return filepath.Join(s.folder, "audit.log") }

// end ends the API server. It returns what the operator was denied, and which of the given grants it did not use.
func (s *apiServer) end(granted []check.Granted) []string {
	defer os.RemoveAll(s.folder)
	if s.env != nil {
		_ = s.env.Stop()
	}
	log, err := os.Open(s.auditLog())
	if err != nil {
		return []string{err.Error()}
	}
	defer log.Close()
	audit, err := check.ReadAudit(log, operatorUser)
	if err != nil {
		return []string{err.Error()}
	}
	return check.LeastPrivilege(granted, audit, usedByAdmission())
}

// runSideBySide sets how many tests run at the same time, if nobody else did.
func runSideBySide() error {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", fmt.Sprint(sideBySide))
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// amend changes what a pass knows of the records.
func amend(s *pass.Pass, change func(*topology.ClusterRecord)) {
	records := s.Records().Clone()
	change(&records)
	s.SetRecords(records)
}
