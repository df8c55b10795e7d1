// Command scorecard is the image of our own scorecard tests. operator-sdk runs it once for each test, in a pod with the
// bundle under /bundle, and reads a TestStatus from what it prints. Every failure says what to do.
//
// The suite default needs the operator, installed by OLM, and the service account of config/scorecard/access, and no AWS. The suite aws makes a cluster in AWS from the
// manifest in the ConfigMap nairobi-mysql-scorecard of its own namespace, and takes it away again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/scorecard/check"
)

// bundleFolder is where operator-sdk puts the bundle, and namespaceVariable what it tells the test's namespace by.
const (
	bundleFolder      = "/bundle"
	namespaceVariable = "SCORECARD_NAMESPACE"
)

// test is one scorecard test: what is wrong, and a log of what was seen.
type test func(context.Context, *scene) ([]string, error)

// tests are the tests by the names of config/scorecard.
var tests = map[string]test{
	"samples-are-accepted": samplesAreAccepted,
	"status-is-described": func(_ context.Context, s *scene) ([]string, error) {
		return check.Described(s.bundle, "status"), nil
	},
	"permissions-are-narrow":      func(_ context.Context, s *scene) ([]string, error) { return check.Narrow(s.bundle.CSV), nil },
	"permissions-suffice":         permissionsSuffice,
	"protection-refuses-deletion": protectionRefusesDeletion,
	"cluster-lives-and-leaves":    clusterLivesAndLeaves,
}

// access is what a test says when the API server denies it something.
const access = "the test's service account may not do that: apply config/scorecard/access of the operator's repository, and run with --namespace=nairobi-mysql-scorecard --service-account=scorecard"

// explain adds to an error of the API server what is missing: the service account's permissions, or the operator itself.
func explain(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w", access, err)
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf("the kind is not there: install the operator of this bundle by OLM first, for example with `operator-sdk run bundle`: %w", err)
	}
	return err
}

// scene is what a test works with.
type scene struct {
	bundle    *manifests.Bundle
	namespace string
	config    *rest.Config
	scheme    *runtime.Scheme
	client    client.WithWatch
	log       strings.Builder
}

// say adds a line to the log of the result.
func (s *scene) say(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	name := ""
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	err := report(os.Stdout, name, play(ctx, name))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

// outcome is what came of a test.
type outcome struct {
	wrong []string
	err   error
	log   string
}

func play(ctx context.Context, name string) outcome {
	run, known := tests[name]
	if !known {
		return outcome{err: fmt.Errorf("there is no test %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(tests)), ", "))}
	}
	s, err := newScene()
	if err != nil {
		return outcome{err: err}
	}
	wrong, err := run(ctx, s)
	return outcome{wrong: wrong, err: err, log: s.log.String()}
}

func newScene() (*scene, error) {
	s := &scene{namespace: os.Getenv(namespaceVariable), scheme: runtime.NewScheme()}
	if s.namespace == "" {
		return nil, fmt.Errorf("%s is empty: run this through operator-sdk scorecard", namespaceVariable)
	}
	var err error
	if s.bundle, err = manifests.GetBundleFromDir(bundleFolder); err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, operatorsv1alpha1.AddToScheme} {
		if err := add(s.scheme); err != nil {
			return nil, err
		}
	}
	if s.config, err = ctrlconfig.GetConfig(); err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	if s.client, err = client.NewWithWatch(s.config, client.Options{Scheme: s.scheme}); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return s, nil
}

// report prints a TestStatus.
func report(out io.Writer, name string, o outcome) error {
	result := v1alpha3.TestResult{Name: name, State: v1alpha3.PassState, Log: o.log, Errors: o.wrong}
	if o.err != nil {
		result.State = v1alpha3.ErrorState
		result.Errors = append(result.Errors, o.err.Error())
	} else if len(o.wrong) > 0 {
		result.State = v1alpha3.FailState
	}
	text, err := json.MarshalIndent(v1alpha3.TestStatus{Results: []v1alpha3.TestResult{result}}, "", "  ")
	if err != nil {
		return errors.Join(err, o.err)
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}
