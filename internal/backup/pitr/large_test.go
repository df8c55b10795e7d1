package pitr

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

// enormous are transactions that a pod's memory would not hold: compressed, of rows of many megabytes between small ones, and
// both.
var enormous = []string{
	"SET binlog_transaction_compression = ON; BEGIN; INSERT INTO shop.big SELECT seq.n, REPEAT(CHAR(65 + seq.n % 26), 1048576) FROM (SELECT ROW_NUMBER() OVER () AS n FROM information_schema.COLLATIONS LIMIT 100) seq; UPDATE shop.big SET v = CONCAT(v, 'x') WHERE n < 50; COMMIT",
	"INSERT INTO shop.big VALUES (1001, 'before'), (1002, REPEAT('large', 8000000)), (1003, 'between'), (1004, REPEAT('r', 30000000)), (1005, 'after')",
	"UPDATE shop.big SET v = CONCAT('u', v) WHERE n IN (1002, 1003)",
	"SET binlog_transaction_compression = ON; INSERT INTO shop.big VALUES (2001, 'before'), (2002, REPEAT('large', 8000000)), (2003, 'after')",
	"DELETE FROM shop.big WHERE n IN (1004, 2002)",
}

// TestTransactionsLargerThanMemory are archived and replayed as they are, in little memory.
func TestTransactionsLargerThanMemory(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY); CREATE TABLE shop.big (n INT PRIMARY KEY, v LONGBLOB)")
	c.dump(c.replica, "before")
	measured := heap()
	stop := c.archiver(t.TempDir(), nil)
	for _, statements := range enormous {
		sql(t, c.primary, statements)
	}
	last := c.write(c.primary, 1)
	c.write(c.primary, 2)
	c.archived()
	stop()
	if peak := measured(); peak > 160<<20 {
		t.Errorf("archiving took %d MiB", peak>>20)
	}
	plan, err := NewPlan(t.Context(), c.folder, "", Point{Time: last.at})
	must(t, err)
	to := c.server()
	measured = heap()
	must(t, c.restore(plan, to))
	peak := measured()
	t.Logf("restoring took %d MiB", peak>>20)
	if peak > 256<<20 {
		t.Errorf("restoring took %d MiB", peak>>20)
	}
	if got := executed(t, to); !got.Equal(plan.Result) {
		t.Errorf("it has %s instead of %s", got, plan.Result)
	}
	const sums = "SELECT COUNT(*), SUM(CRC32(v)), SUM(LENGTH(v)) FROM shop.big"
	if got, want := sql(t, to, sums), sql(t, c.primary, sums); got != want {
		t.Errorf("it holds %s instead of %s", got, want)
	}
}

// heap measures the most memory that is in use until it is asked.
func heap() (peak func() uint64) {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(context.Background())
	var most uint64
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() uint64 {
		cancel()
		group.Wait()
		return most - min(before.HeapInuse, most)
	}
}

// TestARowThatNoStatementHolds is refused by name, and so is a statement that is read in parts.
func TestARowThatNoStatementHolds(t *testing.T) {
	for name, row := range map[string]struct {
		kind replication.EventType
		size uint32
		says string
	}{
		"a row":       {replication.WRITE_ROWS_EVENTv2, 900 << 20, "needs a statement of"},
		"a statement": {replication.QUERY_EVENT, 20 << 20, "for rows only"},
	} {
		header := make(binlog.Event, replication.EventHeaderSize)
		header[4] = byte(row.kind)
		header.SetSize(row.size)
		log := io.MultiReader(strings.NewReader(binlog.Magic), strings.NewReader(string(formatEvent())), strings.NewReader(string(header)), endless{})
		r, err := binlog.NewReader(log)
		must(t, err)
		e, err := r.Next()
		must(t, err)
		a := newApplier(&recorder{})
		a.format = r.Format
		if err := a.event(t.Context(), e, r.Body()); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// formatEvent begins a log of 9.7.4 with checksums.
func formatEvent() binlog.Event {
	const body = 2 + 50 + 4 + 1 + 40 + 1
	e := make(binlog.Event, replication.EventHeaderSize+body, replication.EventHeaderSize+body+4)
	e[4] = byte(replication.FORMAT_DESCRIPTION_EVENT)
	copy(e[replication.EventHeaderSize+2:], "9.7.4")
	e[len(e)-1] = byte(replication.BINLOG_CHECKSUM_ALG_CRC32)
	e.SetSize(uint32(cap(e)))
	return binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
}

// endless gives zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestEncodingIsBase64, whatever the length.
func TestEncodingIsBase64(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 48<<10 - 1, 48 << 10, 48<<10 + 1, 100_000} {
		content := strings.Repeat("a\xff", n)[:n]
		got, err := io.ReadAll(&encoding{r: strings.NewReader(content)})
		must(t, err)
		if want := base64.StdEncoding.EncodeToString([]byte(content)); string(got) != want || base64Length(int64(n)) != int64(len(want)) {
			t.Errorf("%d bytes became %d instead of %d", n, len(got), len(want))
		}
	}
	if _, err := io.ReadAll(&encoding{r: io.MultiReader(strings.NewReader("abc"), broken{})}); !errors.Is(err, binlog.ErrDamaged) {
		t.Errorf("what cannot be read: %v", err)
	}
}

// broken cannot be read.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, binlog.ErrDamaged }
