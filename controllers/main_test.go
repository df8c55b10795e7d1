package controllers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
)

// The tests of this package run the reconciler against a real API server and moto's EC2, pass by pass, without a
// manager: so a test can stop it between any two calls. All of them share one API server and one moto; each has
// namespaces, an AWS account and a clock of its own, so they run side by side.
var (
	kube client.Client
	// kubeConfig leads a manager to the same API server.
	kubeConfig *rest.Config
	cloud      *moto.Server
	seeded     moto.Seeded
)

const (
	// motoDelay is how long moto's things take from one state to the next, in real time.
	motoDelay = 30 * time.Millisecond
	// startTimeout bounds the start of the API server, four seconds on an idle machine, its end, and how long it takes to
	// serve our CRDs.
	startTimeout = 3 * time.Minute
	// sideBySide is how many tests run at the same time unless -parallel says otherwise. Most of their time they wait.
	sideBySide = 5
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	if err := runSideBySide(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctrl.SetLogger(logr.Discard())
	var stop func()
	var err error
	if kube, kubeConfig, stop, err = startAPIServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
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

// startAPIServer starts an API server with our CRDs and returns a client of it, what leads others to it, and what ends it.
func startAPIServer() (client.Client, *rest.Config, func(), error) {
	assets, err := build.EnvtestAssets(context.Background())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("find the API server: %w", err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
	// Every cluster has three Services and an address for each: those of all tests do not fit into envtest's /24.
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	config, err := env.Start()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("start the API server: %w", err)
	}
	stop := func() { _ = env.Stop() }
	c, err := client.New(config, client.Options{Scheme: testScheme()})
	if err != nil {
		stop()
		return nil, nil, nil, fmt.Errorf("reach the API server: %w", err)
	}
	return c, config, stop, nil
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
