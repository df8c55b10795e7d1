package v1alpha1_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
)

// startTimeout bounds the start of the API server, four seconds on an idle machine, its end, and how long it takes to serve the
// CRDs. The defaults of envtest, 20 and 10 seconds, are too short where everything else is built and tested meanwhile.
const startTimeout = 3 * time.Minute

// apiServer is a real kube-apiserver with the CRD as it ships. It starts with the first test that asks for it.
type apiServer struct {
	once   sync.Once
	env    envtest.Environment
	config *rest.Config
	client client.Client
	err    error
}

var server apiServer

func TestMain(m *testing.M) {
	code := m.Run()
	if server.config != nil {
		if err := server.env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// api returns a client of the API server.
func api(t *testing.T) client.Client {
	t.Helper()
	server.once.Do(server.start)
	if server.err != nil {
		t.Fatalf("start the API server: %v", server.err)
	}
	return server.client
}

func (s *apiServer) start() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if s.err = add(scheme); s.err != nil {
			return
		}
	}
	if s.env.BinaryAssetsDirectory, s.err = build.EnvtestAssets(context.Background()); s.err != nil {
		return
	}
	s.env.Scheme = scheme
	s.env.CRDDirectoryPaths = []string{filepath.Join("..", "..", "config", "crd", "bases")}
	s.env.ErrorIfCRDPathMissing = true
	s.env.ControlPlaneStartTimeout, s.env.ControlPlaneStopTimeout = startTimeout, startTimeout
	s.env.CRDInstallOptions.MaxTime = startTimeout
	if s.config, s.err = s.env.Start(); s.err != nil {
		return
	}
	s.client, s.err = client.New(s.config, client.Options{Scheme: scheme})
}

// valid is a spec that every test begins with: small, and with every optional part that the rules speak of left out.
const valid = `
replicas: 3
version: 9.7.1
aws:
  region: us-east-1
  instanceType: r7g.large
  subnetIDs: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
  clientCIDRs: [10.20.0.0/16]
`

// change sets (or, with nil, removes) a field of the spec by its dotted path.
type change struct {
	path  string
	value any
}

func set(path string, value any) change { return change{path, value} }

// cluster makes a MySQLCluster from the valid spec and changes, as a user would send it.
func cluster(t *testing.T, name string, changes ...change) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(valid), &spec); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLCluster"))
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	apply(t, object, changes...)
	return object
}

func apply(t *testing.T, object *unstructured.Unstructured, changes ...change) {
	t.Helper()
	for _, c := range changes {
		path := append([]string{"spec"}, strings.Split(c.path, ".")...)
		if c.value == nil {
			unstructured.RemoveNestedField(object.Object, path...)
			continue
		}
		if err := unstructured.SetNestedField(object.Object, runtime.DeepCopyJSONValue(c.value), path...); err != nil {
			t.Fatal(err)
		}
	}
}
