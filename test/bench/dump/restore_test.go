package dump

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/report"
)

// Environment of the benchmark of restores, with what `make bench-restore` uses when it is not set.
const (
	// How many GiB of rows are restored, in how many tables, and how often each way.
	restoreSizeVariable, restoreSizeDefault     = "BENCH_RESTORE_GIB", 1.0
	restoreTablesVariable, restoreTablesDefault = "BENCH_RESTORE_TABLES", 20
	restoreRoundsVariable, restoreRoundsDefault = "BENCH_RESTORE_ROUNDS", 1
)

// What is aimed for.
const (
	aimRestore       = 3.0
	aimRestoreMemory = 256 << 20
)

// BenchmarkRestore restores a dump in turns: in one stream, as releases before sessions side by side did and as backups of the first
// format are still restored; as it is restored now; and by `mysql <` by hand, which compares nothing.
func BenchmarkRestore(b *testing.B) {
	ctx := b.Context()
	size := int64(positive(b, restoreSizeVariable, restoreSizeDefault) * (1 << 30))
	n, rounds := int(positive(b, restoreTablesVariable, restoreTablesDefault)), int(positive(b, restoreRoundsVariable, restoreRoundsDefault))
	w := startWorld(b, size)
	source, err := w.source(ctx, size, many(n))
	if err != nil {
		b.Fatal(err)
	}
	_, backup, err := w.backUp(ctx, source, "many-tables")
	if err != nil {
		b.Fatal(err)
	}
	if err := w.farm.Discard(source.server); err != nil {
		b.Fatal(err)
	}
	manifest, err := firstFormat(ctx, w, backup)
	if err != nil {
		b.Fatal(err)
	}
	var r restores
	for i := range rounds {
		if err := r.round(ctx, w, backup, manifest); err != nil {
			b.Fatal(err)
		}
		fmt.Printf("round %d: one stream %s, now %s, by hand %s; load average %s\n", i+1, report.Round(r.stream[i]), report.Round(r.now[i]), report.Round(r.byHand[i]), report.Load())
	}
	r.print(b, n, backup)
}

// many are n tables of the usual kinds, of one size each.
func many(n int) []table {
	var all []table
	for i := range n {
		t := tables[i%len(tables)]
		t.name, t.share = fmt.Sprintf("%s_%d", t.name, i), 1/float64(n)
		all = append(all, t)
	}
	return all
}

// manifests are a backup's manifest as it is and in the first format.
type manifests struct{ now, first []byte }

// firstFormat makes a manifest of the first format, by which everything is restored in one stream.
func firstFormat(ctx context.Context, w *world, t taken) (manifests, error) {
	var m manifests
	body, err := w.place.Store.Get(ctx, manifestKey(w, t))
	if err != nil {
		return m, err
	}
	defer body.Close()
	var now bytes.Buffer
	if _, err := now.ReadFrom(body); err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	first := t.manifest
	first.FormatVersion = 1
	text, err := json.Marshal(first)
	if err != nil {
		return m, fmt.Errorf("write the manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	m.first, err = json.Marshal(map[string]any{"sha256": hex.EncodeToString(sum[:]), "manifest": json.RawMessage(text)})
	m.now = now.Bytes()
	return m, err
}

func manifestKey(w *world, t taken) string {
	return path.Join(w.place.Folder(filepath.Base(t.path)), "manifest.json")
}

// restores are what was measured of restores.
type restores struct {
	stream, now, byHand []time.Duration
	most                memory
}

// round restores once each way, each time into a new server.
func (r *restores) round(ctx context.Context, w *world, t taken, m manifests) error {
	for _, way := range []struct {
		manifest []byte
		into     *[]time.Duration
		restore  func(context.Context, *machine) (spent, error)
	}{
		{m.first, &r.stream, func(ctx context.Context, p *machine) (spent, error) { return w.restore(ctx, p, t) }},
		{m.now, &r.now, func(ctx context.Context, p *machine) (spent, error) {
			s, err := w.restore(ctx, p, t)
			r.most = memory{max(r.most.resident, s.resident), max(r.most.anonymous, s.anonymous)}
			return s, err
		}},
		{m.now, &r.byHand, func(ctx context.Context, p *machine) (spent, error) { return w.restoreByHand(ctx, p, t) }},
	} {
		if _, err := w.place.Store.Put(ctx, manifestKey(w, t), bytes.NewReader(way.manifest)); err != nil {
			return err
		}
		target, err := w.target(ctx)
		if err != nil {
			return err
		}
		s, err := way.restore(ctx, target)
		if err != nil {
			return err
		}
		*way.into = append(*way.into, s.took)
		if err := w.farm.Discard(target.server); err != nil {
			return err
		}
	}
	return nil
}

// restoreByHand has the mysql client read the dump, over the server's socket.
func (w *world) restoreByHand(ctx context.Context, p *machine, t taken) (spent, error) {
	if _, err := p.server.SQL(ctx, "SET GLOBAL super_read_only = OFF"); err != nil {
		return spent{}, err
	}
	stream, err := w.place.Unpack(ctx, filepath.Base(t.path), t.manifest.Dump)
	if err != nil {
		return spent{}, err
	}
	defer stream.Close()
	client := p.server.Program(ctx, "mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock", "--binary-mode", "--max-allowed-packet=1G")
	client.Stdin = stream
	began := time.Now()
	if out, err := client.CombinedOutput(); err != nil {
		return spent{}, fmt.Errorf("restore by hand: %w: %s", err, out)
	}
	return spent{took: time.Since(began)}, nil
}

func (r *restores) print(b *testing.B, n int, t taken) {
	b.Helper()
	median := func(of []time.Duration) time.Duration {
		slices.Sort(of)
		return report.Quantile(of, .5)
	}
	stream, now, byHand := median(r.stream), median(r.now), median(r.byHand)
	f := figures{taken: t}
	out := &report.Table{Title: "A restore beside the same in one stream and by hand"}
	out.Note("machine", "%d CPUs for everything: mysqld, mysql, S3 (moto); load average %s", runtime.NumCPU(), report.Load())
	out.Note("data set", "%s as mysqldump writes it, in %d tables", report.Mebibytes(float64(t.manifest.Dump.Bytes)), n)
	out.Note("in one stream, counted", "%s", f.rate(stream))
	out.Note("now, counted and compared", "%s", f.rate(now))
	out.Note("mysql < by hand, not even counted", "%s", f.rate(byHand))
	out.Note("throughput beside by hand", "%.2f times", byHand.Seconds()/now.Seconds())
	ratio := stream.Seconds() / now.Seconds()
	out.Add("throughput beside one stream", fmt.Sprintf("%.2f times", ratio), fmt.Sprintf(">= %.0f times", aimRestore), ratio >= aimRestore)
	addMemory(out, r.most, aimRestoreMemory)
	out.Print(os.Stdout)
	b.ReportMetric(ratio, "of-one-stream")
}
