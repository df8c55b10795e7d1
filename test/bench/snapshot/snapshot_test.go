package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

const (
	// sizesVariable says how many GiB of rows are snapshotted, one data set after the other.
	sizesVariable, sizesDefault = "BENCH_SNAPSHOT_GIB", "1,5"
	// namespace is where the clusters are made.
	namespace = "bench"

	// A row has rowSize bytes, a statement writes pieceRows of them, and a client pod runs piecesAtOnce statements.
	rowSize, pieceRows, piecesAtOnce = 1 << 10, 64 << 10, 4
	// onVolume is how many times a data set is on its volume: as rows and in the binary log.
	onVolume = 2
	// roomFactor is how many times a data set must fit on the disk: on a volume, in a snapshot, and some air for mysqld.
	roomFactor = 2*onVolume + 1
	// spare is what a volume holds beside the data, in GiB.
	spare = 10

	readyTimeout  = 15 * time.Minute
	backupTimeout = 15 * time.Minute
	deleteTimeout = 5 * time.Minute
	pollInterval  = 200 * time.Millisecond
)

// BenchmarkSnapshot snapshots and restores data sets in the lab, which must be up.
func BenchmarkSnapshot(b *testing.B) {
	ctrllog.SetLogger(logr.Discard()) // it would tell of warnings of the API server, which are tested elsewhere
	ctx := b.Context()
	sizes, err := dataSets(os.Getenv(sizesVariable))
	if err != nil {
		b.Fatal(err)
	}
	lab, err := deploy.Open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := lab.Deploy(ctx, namespace); err != nil {
		b.Fatal(err)
	}
	var all []figures
	for _, gib := range sizes {
		if err := checkRoom(lab.Dir, gib); err != nil {
			b.Fatal(err)
		}
		f, err := measure(ctx, lab, gib)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, f)
	}
	first, last := all[0], all[len(all)-1]
	r := &report.Table{Title: "Snapshot and restore of a cluster of one member, in the lab"}
	for _, f := range all {
		r.Note(fmt.Sprintf("%d GiB of rows", f.gib), "written in %s (%d GiB on the volume, with the binary log); snapshot %s; restored and Ready after %s; both %s",
			report.Round(f.load), onVolume*f.gib, report.Round(f.snapshot), report.Round(f.restore), report.Round(f.both()))
	}
	if len(all) > 1 {
		r.Note(fmt.Sprintf("%d GiB beside %d GiB", last.gib, first.gib), "snapshot %.1f times as long, restore %.1f times, both %.1f times",
			ratio(last.snapshot, first.snapshot), ratio(last.restore, first.restore), ratio(last.both(), first.both()))
	}
	r.Note("of AWS this says nothing", "it completes snapshots late and loads volumes lazily; the lab copies files")
	r.Note("load average", "%s", report.Load())
	r.Print(os.Stdout)
	b.ReportMetric(ratio(last.both(), first.both()), "largest-of-smallest")
}

// figures are what was measured of one data set.
type figures struct {
	gib                     int
	load, snapshot, restore time.Duration
}

func (f figures) both() time.Duration { return f.snapshot + f.restore }

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// dataSets reads sizes in GiB, separated by commas; an empty text is the default.
func dataSets(text string) ([]int, error) {
	if text == "" {
		text = sizesDefault
	}
	var sizes []int
	for field := range strings.SplitSeq(text, ",") {
		gib, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || gib < 1 {
			return nil, fmt.Errorf("%s=%q: %q is not a number of GiB", sizesVariable, text, field)
		}
		sizes = append(sizes, gib)
	}
	return sizes, nil
}

// checkRoom makes sure that the disk of the lab has room for a data set.
func checkRoom(dir string, gib int) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free, need := int64(fs.Bavail)*fs.Bsize>>30, int64(roomFactor*gib+spare); free < need {
		return fmt.Errorf("%s has %d GiB free and %d GiB are needed; set NAIROBI_LAB or %s", dir, free, need, sizesVariable)
	}
	return nil
}

// measure fills a cluster, snapshots and deletes it, and restores another from the snapshot alone.
func measure(ctx context.Context, lab *deploy.Lab, gib int) (f figures, err error) {
	f.gib = gib
	name := fmt.Sprintf("source-%d", gib)
	want := ""
	err = with(ctx, lab, name, gib, nil, func(time.Duration) (err error) {
		began := time.Now()
		if err := fill(ctx, lab, name, gib); err != nil {
			return err
		}
		f.load = time.Since(began)
		if want, err = checksum(ctx, lab, name); err != nil {
			return err
		}
		began = time.Now()
		if err := snapshot(ctx, lab, name); err != nil {
			return err
		}
		f.snapshot = time.Since(began)
		return nil
	})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, discard(context.WithoutCancel(ctx), lab, name)) }()
	heir := fmt.Sprintf("heir-%d", gib)
	err = with(ctx, lab, heir, gib, &v1alpha1.RecoverySpec{BackupName: name}, func(took time.Duration) error {
		f.restore = took
		got, err := checksum(ctx, lab, heir)
		if err == nil && got != want {
			err = fmt.Errorf("%s holds %q and was to hold %q", heir, got, want)
		}
		return err
	})
	return f, err
}

// with makes a cluster of one member, says how long it took to become Ready, and takes it away in the end.
func with(ctx context.Context, lab *deploy.Lab, name string, gib int, recovery *v1alpha1.RecoverySpec, use func(took time.Duration) error) (err error) {
	cluster, err := lab.Sample()
	if err != nil {
		return err
	}
	cluster.Namespace, cluster.Name = namespace, name
	spec := &cluster.Spec
	spec.Replicas = ptr.To[int32](1)
	spec.DeletionProtection = ptr.To(false)
	spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	spec.Storage.Size = resource.NewQuantity(int64(onVolume*gib+spare)<<30, resource.BinarySI)
	// Half of the memory that a machine of the lab has, and a redo log for such data.
	spec.MySQLD["innodb_buffer_pool_size"], spec.MySQLD["innodb_redo_log_capacity"] = "512M", "2G"
	if recovery != nil {
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: recovery}
	}
	key := client.ObjectKeyFromObject(cluster)
	began := time.Now()
	if err := lab.Apply(ctx, cluster); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Delete(context.WithoutCancel(ctx), key, deleteTimeout)) }()
	if _, err := lab.WaitReady(ctx, key, readyTimeout, nil); err != nil {
		lab.Diagnose(ctx, os.Stderr, key)
		return err
	}
	return use(time.Since(began))
}

// fill writes rows that compress badly, through the Service, as an application would.
func fill(ctx context.Context, lab *deploy.Lab, name string, gib int) error {
	if _, err := run(ctx, lab, name, "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARBINARY("+fmt.Sprint(rowSize)+") NOT NULL)", 1); err != nil {
		return err
	}
	piece := fmt.Sprintf("SET SESSION cte_max_recursion_depth = %d; INSERT INTO t (v) "+
		"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT RANDOM_BYTES(%d) FROM n", pieceRows, pieceRows, rowSize)
	for range gib << 30 / (piecesAtOnce * pieceRows * rowSize) {
		if _, err := run(ctx, lab, name, piece, piecesAtOnce); err != nil {
			return err
		}
	}
	return nil
}

func checksum(ctx context.Context, lab *deploy.Lab, name string) (string, error) {
	return run(ctx, lab, name, "SELECT COUNT(*) FROM t; CHECKSUM TABLE t", 1)
}

// run lets a client pod run a statement on a cluster's primary some times.
func run(ctx context.Context, lab *deploy.Lab, name, statement string, times int) (string, error) {
	return lab.RunClient(ctx, client.ObjectKey{Namespace: namespace, Name: name},
		strings.Repeat(fmt.Sprintf("sql %s-primary.%s.svc '%s'\n", name, namespace, statement), times))
}

// snapshot takes a backup of the cluster's name and returns when it is complete.
func snapshot(ctx context.Context, lab *deploy.Lab, name string) error {
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{
		ClusterName: name, Method: v1alpha1.BackupMethodSnapshot, DeletionPolicy: v1alpha1.BackupDeletionDelete,
	}}
	if err := lab.Client.Create(ctx, b); err != nil {
		return fmt.Errorf("ask for a snapshot: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, backupTimeout, true, func(ctx context.Context) (bool, error) {
		if err := lab.Client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return false, err
		}
		if b.Status.Phase == v1alpha1.BackupFailed {
			return false, fmt.Errorf("%s: %s", b.Status.Reason, b.Status.Message)
		}
		return b.Status.Phase == v1alpha1.BackupCompleted, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the snapshot of %s: %w", name, err)
	}
	return nil
}

// discard deletes a backup with its snapshot.
func discard(ctx context.Context, lab *deploy.Lab, name string) error {
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := lab.Client.Delete(ctx, b); err != nil {
		return fmt.Errorf("delete the backup: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, deleteTimeout, true, func(ctx context.Context) (bool, error) {
		err := lab.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("wait until backup %s is gone: %w", name, err)
	}
	return nil
}
