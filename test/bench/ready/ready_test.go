package ready

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// roundsVariable says how many clusters are made, one after the other.
	roundsVariable, roundsDefault = "BENCH_READY_ROUNDS", 3
	// namespace is where they are made.
	namespace = "bench"
	// aimOverhead is what is aimed for.
	aimOverhead = 3 * time.Second

	readyTimeout  = 10 * time.Minute
	deleteTimeout = 5 * time.Minute
)

// BenchmarkReady makes clusters in the lab, which must be up, and prints what the operator adds to their own time.
func BenchmarkReady(b *testing.B) {
	ctrllog.SetLogger(logr.Discard()) // it would tell of warnings of the API server, which are tested elsewhere
	ctx := b.Context()
	lab, err := deploy.Open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := setUp(ctx, lab); err != nil {
		b.Fatal(err)
	}
	var overheads []time.Duration
	for n := range rounds(b) {
		overhead, err := measure(ctx, lab, fmt.Sprintf("ready-%d", n+1))
		if err != nil {
			b.Fatal(err)
		}
		overheads = append(overheads, overhead)
	}
	slices.Sort(overheads)
	r := &report.Table{Title: "What the operator adds to a cluster's way to Ready, all rounds"}
	middle := report.Quantile(overheads, .5)
	r.Add("p50", report.Round(middle).String(), "<= "+aimOverhead.String(), middle <= aimOverhead)
	r.Note("longest", "%s", report.Round(overheads[len(overheads)-1]))
	r.Print(os.Stdout)
	b.ReportMetric(middle.Seconds(), "overhead-s")
}

func rounds(b *testing.B) int {
	b.Helper()
	text := os.Getenv(roundsVariable)
	if text == "" {
		return roundsDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%q is not a positive number", roundsVariable, text)
	}
	return n
}

// setUp puts the operator of this tree into the lab, and the namespace.
func setUp(ctx context.Context, lab *deploy.Lab) error {
	if err := lab.Deploy(ctx, namespace); err != nil {
		return err
	}
	err := lab.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	return nil
}

// measure makes one cluster, takes it away again, and returns what the operator added to its time.
func measure(ctx context.Context, lab *deploy.Lab, name string) (overhead time.Duration, err error) {
	cluster, err := lab.Sample()
	if err != nil {
		return 0, err
	}
	cluster.Namespace, cluster.Name = namespace, name
	cluster.Spec.DeletionProtection = ptr.To(false)
	cluster.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	key := client.ObjectKeyFromObject(cluster)
	applied := time.Now()
	if err := lab.Client.Create(ctx, cluster); err != nil {
		return 0, fmt.Errorf("write the cluster: %w", err)
	}
	defer func() {
		if gone := lab.Delete(context.WithoutCancel(ctx), key, deleteTimeout); err == nil {
			err = gone
		}
	}()
	waiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ready, err := awaitReady(waiting, lab, cluster)
	if err != nil {
		lab.Diagnose(ctx, os.Stderr, key)
		return 0, err
	}
	members, err := askMembers(ctx, lab, cluster)
	if err != nil {
		return 0, err
	}
	own, err := longestChain(members)
	if err != nil {
		return 0, err
	}
	tell(name, members, own, applied, ready)
	return ready.Sub(applied) - own.took(), nil
}

// tell prints one round.
func tell(name string, members []member, own chain, applied, ready time.Time) {
	r := &report.Table{Title: fmt.Sprintf("From apply to Ready: %s, %d members, in the lab", name, len(members))}
	since := func(at time.Time) time.Duration { return report.Round(at.Sub(applied)) }
	for _, m := range members {
		r.Note(m.name, "has power after %s; boots %s, waits for its volume %s, initialises %s, starts mysqld %s; serves after %s", since(m.power),
			report.Round(m.boot()), report.Round(m.waited()), report.Round(m.initialised()), report.Round(m.start()), since(m.started))
		if c := m.clone; c != nil {
			r.Note("", "CLONE from %s begins after %s, takes %s (the donor's part %s), ends after %s", c.donor, since(c.began),
				report.Round(c.took), report.Round(c.held), since(c.began.Add(c.took)))
		}
	}
	r.Note("the longest chain of their own work", "%s", report.Round(own.took()))
	for _, p := range own {
		r.Note("    "+p.what, "%s", report.Round(p.took))
	}
	total := ready.Sub(applied)
	added := total - own.took()
	r.Note("from apply to Ready", "%s", report.Round(total))
	r.Add("so the operator, Kubernetes and EC2 add", fmt.Sprintf("%s, %.0f %% of their own time", report.Round(added), 100*added.Seconds()/own.took().Seconds()),
		"<= "+aimOverhead.String(), added <= aimOverhead)
	r.Note("load average", "%s", report.Load())
	r.Print(os.Stdout)
}
