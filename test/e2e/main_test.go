//go:build e2e

// Package e2e runs the operator on the lab: a real API server and node, an EC2 API whose instances really boot, real
// mysqld. The scenarios share one cluster and run in the order of their names; `make e2e` brings the lab up around them.
package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

const (
	// readyTimeout bounds a whole cluster's way to Ready; it takes well under a minute on two quiet cores.
	readyTimeout = 8 * time.Minute
	// changeTimeout bounds one change to a running cluster.
	changeTimeout = 5 * time.Minute
)

// lab and orders are the stack and the cluster that the scenarios share, and watch the Prometheus that looks on.
var (
	lab    *deploy.Lab
	watch  *insights.Watch
	orders = client.ObjectKey{Namespace: "shop", Name: "orders"}
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	ctrllog.SetLogger(logr.Discard()) // it would tell of warnings of the API server, which are tested elsewhere
	if err := setUp(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "set up:", err)
		if lab != nil {
			lab.Diagnose(ctx, os.Stderr, orders)
		}
		return 1
	}
	code := m.Run()
	if err := watch.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "end Prometheus:", err)
		code = 1
	}
	if code != 0 {
		lab.Diagnose(ctx, os.Stderr, orders)
	}
	return code
}

func setUp(ctx context.Context) (err error) {
	if err := deploy.Up(ctx); err != nil {
		return err
	}
	if lab, err = deploy.Open(ctx); err != nil {
		return err
	}
	kstatus.Watch(ctx, lab.Client, misread.add)
	if err := lab.Deploy(ctx, orders.Namespace); err != nil {
		return err
	}
	watch, err = insights.Start(ctx, lab, insights.Options{})
	return err
}

// findings is a list that several goroutines add to.
type findings struct {
	mu    sync.Mutex
	found []string
}

// misread are the statuses that kstatus, and with it Flux, gets wrong.
var misread findings

func (f *findings) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, text)
}

func (f *findings) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.found)
}

// aws connects to the lab's EC2, as a person with other tools would.
func aws(t *testing.T) *ec2.Cloud {
	t.Helper()
	c, err := ec2.NewFactory(ec2.Options{Config: awsapi.Config{Endpoint: "http://" + cloud.EndpointAddress, CallTimeout: time.Minute}}).Cloud(t.Context(), awsapi.Account{
		Region: lab.Cloud.Region, Static: &awsapi.StaticCredentials{AccessKeyID: iam.AdministratorKeyID, SecretAccessKey: "lab"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inventoryOf reads what the lab's EC2 holds of a cluster.
func inventoryOf(t *testing.T, uid string) inventory.Inventory {
	t.Helper()
	found, err := aws(t).Inventory.Observe(t.Context(), uid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// current reads the shared cluster.
func current(t *testing.T) *v1alpha1.MySQLCluster {
	t.Helper()
	return read(t, orders)
}

// read reads a cluster.
func read(t *testing.T, key client.ObjectKey) *v1alpha1.MySQLCluster {
	t.Helper()
	c, err := lab.Read(t.Context(), key, changeTimeout)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// change patches the shared cluster's spec and waits until it is Ready with it, or fails.
func change(t *testing.T, patch string) *v1alpha1.MySQLCluster {
	t.Helper()
	c := current(t)
	if err := lab.Client.Patch(t.Context(), c, client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
	return ready(t)
}

// ready waits until the shared cluster is Ready.
func ready(t *testing.T) *v1alpha1.MySQLCluster {
	t.Helper()
	c, err := lab.WaitReady(t.Context(), orders, changeTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	return c
}

func conditions(c *v1alpha1.MySQLCluster) string {
	text := ""
	for _, cond := range c.Status.Conditions {
		text += fmt.Sprintf("%s=%s %s: %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
	}
	for _, m := range c.Status.Members {
		text += fmt.Sprintf("%s %s %s: %s\n", m.Name, m.Phase, m.Role, m.Message)
	}
	return text
}

// sql runs statements in a client pod as the application and returns what they print.
func sql(t *testing.T, script string) string {
	t.Helper()
	out, err := lab.RunClient(t.Context(), orders, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
