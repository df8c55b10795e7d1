// Package olm runs a real Operator Lifecycle Manager in the lab, and what its users run: opm, operator-sdk and scorecard.
// All of it is built from pinned Go modules; images are made without Docker and pushed to the lab's registry.
package olm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// Namespace is where OLM itself runs, and where its global catalogs are.
	Namespace = "olm"

	pollEvery = 500 * time.Millisecond
	// startLimit bounds the start of OLM: two pods, and the package server that it installs itself.
	startLimit = 4 * time.Minute
)

// OLM is a running OLM.
type OLM struct {
	*deploy.Lab
	// Client knows OLM's kinds beside Kubernetes' and ours.
	Client client.Client

	builds build.Config
	// version is that of OLM, with its v; source the folder of its module.
	version, source string
	busybox         string
}

// Install installs OLM into the lab, from the CRDs and the chart of its own module, and waits until it works.
func Install(ctx context.Context, lab *deploy.Lab) (*OLM, error) {
	o := &OLM{Lab: lab}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"connect to the lab", o.connect},
		{"find OLM's sources", o.findSources},
		{"push OLM's images", o.pushImages},
		{"apply OLM", o.apply},
		{"wait for OLM", o.waitForPackageServer},
	} {
		if err := step.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return o, nil
}

func (o *OLM) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if o.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if o.builds, err = build.NewConfig(os.Stderr); err != nil {
		return err
	}
	node, err := build.Ensure(ctx, o.builds, build.Node)
	o.busybox = node["busybox"]
	return err
}

// findSources has Go fetch the module that hack/tools/olm pins, unless it is there, and say where it is.
func (o *OLM) findSources(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/operator-framework/operator-lifecycle-manager")
	cmd.Dir = filepath.Join(o.Root, "hack", "tools", "olm")
	out, err := run(cmd)
	if err != nil {
		return err
	}
	var module struct{ Version, Dir string }
	if err := json.Unmarshal([]byte(out), &module); err != nil || module.Dir == "" {
		return fmt.Errorf("go mod download says %q", out)
	}
	o.version, o.source = module.Version, module.Dir
	return nil
}

func (o *OLM) apply(ctx context.Context) error {
	if _, err := o.Kubectl(ctx, "", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(o.source, "deploy", "chart", "crds")); err != nil {
		return err
	}
	if _, err := o.Kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return err
	}
	image := values{"ref": o.image(), "pullPolicy": "IfNotPresent"}
	manifests, err := renderChart(o.source, strings.TrimPrefix(o.version, "v"), values{
		"olm":     values{"image": image},
		"catalog": values{"image": image},
		"package": values{"image": image, "replicaCount": 1},
	})
	if err != nil {
		return err
	}
	_, err = o.Kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

func (o *OLM) waitForPackageServer(ctx context.Context) error {
	_, err := o.WaitForCSV(ctx, client.ObjectKey{Namespace: Namespace, Name: "packageserver"}, startLimit)
	return err
}

// WaitForCSV returns a ClusterServiceVersion once it has succeeded. The error says what it waits for or why it failed.
func (o *OLM) WaitForCSV(ctx context.Context, key client.ObjectKey, limit time.Duration) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	var csv operatorsv1alpha1.ClusterServiceVersion
	last := "not there"
	err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(ctx context.Context) (bool, error) {
		if err := o.Client.Get(ctx, key, &csv); err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // OLM makes it; the last error is reported
		}
		last = fmt.Sprintf("%s (%s): %s", csv.Status.Phase, csv.Status.Reason, csv.Status.Message)
		return csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded, nil
	})
	if err != nil {
		return &csv, fmt.Errorf("ClusterServiceVersion %s: %s: %w", key, last, err)
	}
	return &csv, nil
}

// tool returns the path of a program that hack/tools pins; the first time it is built.
func (o *OLM) tool(ctx context.Context, name string, program ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.Root, "hack", "tool.sh"), append([]string{name}, program...)...) //nolint:gosec // our own script
	out, err := run(cmd)
	return strings.TrimSpace(out), err
}

// run runs a command and returns what it printed; the error holds what it complained of.
func run(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), fmt.Errorf("%s: %w: %s%s", filepath.Base(cmd.Path), err, out, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return string(out), nil
}
