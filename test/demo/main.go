// Command demo shows the operator at work on this instance, from nothing to a table that was written through one
// Service and read through the other: it brings up the lab, installs the operator, applies the sample cluster,
// shows the phases until Ready, and talks to MySQL from a pod. It leaves everything up to look around in.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// readyTimeout bounds the wait for the cluster; on two cores it takes a fraction of this.
	readyTimeout = 10 * time.Minute
	// diagnoseTimeout bounds the look at what went wrong.
	diagnoseTimeout = 20 * time.Second
)

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// run is the demo's table of contents.
func run(ctx context.Context, out io.Writer) error {
	d := &demo{out: out, started: time.Now()}
	d.heading("The lab: a Kubernetes, an EC2 API, a hypervisor")
	if err := deploy.Up(ctx); err != nil {
		return err
	}
	lab, err := deploy.Open(ctx)
	if err != nil {
		return err
	}
	d.lab = lab
	if err := d.installOperator(ctx); err != nil {
		return err
	}
	cluster, err := d.createCluster(ctx)
	if err != nil {
		return d.explain(ctx, cluster, err)
	}
	if err := d.useCluster(ctx, cluster); err != nil {
		return d.explain(ctx, cluster, err)
	}
	return d.farewell(ctx, cluster)
}

// demo is one showing.
type demo struct {
	out     io.Writer
	lab     *deploy.Lab
	started time.Time
}

func (d *demo) installOperator(ctx context.Context) error {
	d.heading("The operator: image, CRDs, manifests as shipped")
	image, err := d.lab.PushOperatorImage(ctx)
	if err != nil {
		return err
	}
	d.print("image %s", image)
	if err := d.lab.InstallOperator(ctx, image); err != nil {
		return err
	}
	d.print("deployment %s/%s is ready", v1alpha1.SystemNamespace, deploy.Deployment)
	return nil
}

// createCluster applies the sample and shows its way to Ready. It returns the cluster's name even when that fails.
func (d *demo) createCluster(ctx context.Context) (client.ObjectKey, error) {
	d.heading("A MySQLCluster: from kubectl apply to Ready")
	cluster, err := d.lab.Sample()
	if err != nil {
		return client.ObjectKey{}, err
	}
	key := client.ObjectKeyFromObject(cluster)
	if err := d.lab.AllowLab(ctx, key.Namespace); err != nil {
		return key, err
	}
	if err := d.lab.Apply(ctx, cluster); err != nil {
		return key, err
	}
	d.print("applied mysqlcluster %s\n", key)
	view := newView(d.out, time.Now)
	_, err = d.lab.WaitReady(ctx, key, readyTimeout, view.show)
	view.finish()
	return key, err
}

// useCluster writes through the primary's Service and reads through the replicas', from a pod with the app Secret.
func (d *demo) useCluster(ctx context.Context, key client.ObjectKey) error {
	d.heading("MySQL, from a pod, with the Secret " + key.Name + "-app and VERIFY_IDENTITY")
	hosts := fmt.Sprintf("primary=%[1]s-primary.%[2]s.svc replicas=%[1]s-replicas.%[2]s.svc\n", key.Name, key.Namespace)
	output, err := d.lab.RunClient(ctx, key, hosts+tour)
	if err != nil {
		return err
	}
	d.print("%s", strings.TrimSpace(output))
	return nil
}

// tour runs in the client pod. A replica may answer a moment before it has applied the row: then it is asked again.
const tour = `
echo "at $primary:"
sql "$primary" "SELECT CONCAT('  server ', @@report_host, ', MySQL ', @@version, ', read_only=', @@read_only)"
sql "$primary" "CREATE TABLE IF NOT EXISTS greeting (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(80) NOT NULL)"
sql "$primary" "INSERT INTO greeting (words) VALUES ('Habari from Nairobi')"
echo "  created table greeting, inserted a row"
echo "at $replicas:"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  row=$(sql "$replicas" "SELECT CONCAT(words, ' (read from ', @@report_host, ', read_only=', @@read_only, ')')
    FROM greeting ORDER BY id DESC LIMIT 1" 2>/tmp/error) && [ -n "$row" ] && break
  sleep 0.5
done
[ -n "$row" ] || { cat /tmp/error; exit 1; }
echo "  $row"
`

// explain prints what to look at after a failure and returns the error.
func (d *demo) explain(ctx context.Context, key client.ObjectKey, err error) error {
	if ctx.Err() != nil || key.Name == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	d.heading("What was seen")
	d.lab.Diagnose(ctx, d.out, key)
	d.print("\nThe lab is still up: KUBECONFIG=%s. `make lab-down` takes it away.", d.lab.Kubeconfig)
	return err
}

// farewell shows the cluster as kubectl does, and what else there is to see.
func (d *demo) farewell(ctx context.Context, key client.ObjectKey) error {
	d.heading("Look around")
	get := []string{"-n", key.Namespace, "get", "nmysql", "-o", "wide"}
	table, err := d.lab.Kubectl(ctx, "", get...)
	if err != nil {
		return err
	}
	d.print("  export KUBECONFIG=%s PATH=%s:$PATH", d.lab.Kubeconfig, filepath.Dir(d.lab.KubectlPath()))
	d.print("  kubectl %s\n\n%s", strings.Join(get, " "), table)
	d.print("  kubectl -n %s describe nmysql %s", key.Namespace, key.Name)
	d.print("  kubectl -n %s logs deploy/%s", v1alpha1.SystemNamespace, deploy.Deployment)
	d.print("  make lab-status                     what runs; each instance with its id")
	d.print("  go run ./test/lab console <id>      what an instance printed while it booted")
	d.print("  make lab-down                       takes everything away")
	d.print("\nDone in %s.", time.Since(d.started).Round(time.Second))
	return nil
}

func (d *demo) heading(text string) {
	d.print("\n== %s", text)
}

func (d *demo) print(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format+"\n", args...)
}
