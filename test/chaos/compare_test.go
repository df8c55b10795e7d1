package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// entry is a write of worker 1 to a server, sent and answered at these milliseconds.
func entry(id uint64, server uint32, sent, answered int, told Outcome) Entry {
	return Entry{
		ID: id, Round: 1, Worker: 1, Seq: uint32(id), Server: server, Outcome: told, //nolint:gosec // small numbers
		Sent: time.Duration(sent) * time.Millisecond, Answered: time.Duration(answered) * time.Millisecond,
	}
}

func rowOf(e Entry) Row {
	return Row{ID: e.ID, Round: e.Round, Worker: e.Worker, Seq: e.Seq, Server: e.Server}
}

func TestTheLedgerIsHeldAgainstTheRows(t *testing.T) {
	a, b := entry(1, 17, 0, 5, Acknowledged), entry(2, 17, 5, 9, Acknowledged)
	unknown, refused := entry(3, 17, 9, 1009, Unknown), entry(4, 18, 9, 10, Refused)
	sent := []Entry{a, b, unknown, refused}
	changed := rowOf(b)
	changed.Seq++
	for name, c := range map[string]struct {
		rows []Row
		want Difference
	}{
		"as it should be":                  {rows: []Row{rowOf(a), rowOf(b)}},
		"an unknown one is there":          {rows: []Row{rowOf(a), rowOf(b), rowOf(unknown)}},
		"an acknowledged one is missing":   {rows: []Row{rowOf(a)}, want: Difference{Lost: []uint64{2}}},
		"everything is missing":            {want: Difference{Lost: []uint64{1, 2}}},
		"one is there twice":               {rows: []Row{rowOf(a), rowOf(b), rowOf(a)}, want: Difference{Duplicated: []uint64{1}}},
		"an unknown one is there twice":    {rows: []Row{rowOf(a), rowOf(b), rowOf(unknown), rowOf(unknown)}, want: Difference{Duplicated: []uint64{3}}},
		"a refused one is there":           {rows: []Row{rowOf(a), rowOf(b), rowOf(refused)}, want: Difference{Uncalled: []uint64{4}}},
		"one is there that nobody sent":    {rows: []Row{rowOf(a), rowOf(b), {ID: 99}}, want: Difference{Uncalled: []uint64{99}}},
		"one has other contents than sent": {rows: []Row{rowOf(a), changed}, want: Difference{Changed: []uint64{2}}},
	} {
		got := Compare(sent, c.rows)
		if got.String() != c.want.String() || got.Empty() != c.want.Empty() {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTwoThatAcknowledgeAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		entries []Entry
		found   bool
	}{
		"one primary": {entries: []Entry{entry(1, 17, 0, 5, Acknowledged), entry(2, 17, 5, 9, Acknowledged)}},
		"a failover":  {entries: []Entry{entry(1, 17, 0, 5, Acknowledged), entry(2, 33, 5000, 5005, Acknowledged), entry(3, 33, 5010, 5015, Acknowledged)}},
		"a failover and back": {entries: []Entry{
			entry(1, 17, 0, 5, Acknowledged), entry(2, 33, 5000, 5005, Acknowledged), entry(3, 17, 9000, 9005, Acknowledged),
		}},
		"by turns": {found: true, entries: []Entry{
			entry(1, 17, 0, 5, Acknowledged), entry(2, 33, 10, 15, Acknowledged), entry(3, 17, 20, 25, Acknowledged),
		}},
		"the other one refuses": {entries: []Entry{
			entry(1, 17, 0, 5, Acknowledged), entry(2, 33, 10, 15, Refused), entry(3, 17, 20, 25, Acknowledged),
		}},
		// The last answer of the old primary may arrive after the first of the new one.
		"late answers": {entries: []Entry{
			entry(1, 17, 0, 5, Acknowledged), entry(2, 17, 1, 600, Acknowledged), entry(3, 33, 500, 505, Acknowledged),
		}},
	} {
		slices.Reverse(c.entries)
		if _, _, found := Rivals(c.entries); found != c.found {
			t.Errorf("%s: found is %t", name, found)
		}
	}
}

func TestAStaleAcknowledgementIsFoundInTheHistory(t *testing.T) {
	first, second, third := entry(1, 17, 0, 5, Acknowledged), entry(2, 33, 100, 105, Acknowledged), entry(3, 17, 200, 205, Acknowledged)
	overlap := entry(4, 17, 90, 110, Acknowledged)
	for name, c := range map[string]struct {
		rows  []Entry
		found bool
	}{
		"two reigns":                    {rows: []Entry{first, second}},
		"there and back":                {rows: []Entry{first, second, third}},
		"under way while it was over":   {rows: []Entry{first, overlap, second}},
		"sent to the deposed, and kept": {rows: []Entry{first, third, second}, found: true},
	} {
		var rows []Row
		for _, e := range c.rows {
			rows = append(rows, rowOf(e))
		}
		if _, _, found := History(c.rows, rows); found != c.found {
			t.Errorf("%s: found is %t", name, found)
		}
	}
}

func TestTheGapIsTheLongestTimeWithoutAnAcknowledgement(t *testing.T) {
	direct := entry(9, 17, 2000, 2001, Acknowledged)
	direct.Worker = directWorkers
	entries := []Entry{
		entry(1, 17, 0, 10, Acknowledged), entry(2, 17, 0, 3010, Acknowledged), // before the fault
		entry(3, 17, 3020, 3100, Acknowledged), entry(4, 17, 3100, 4100, Unknown), direct,
		entry(5, 33, 5000, 5600, Acknowledged), entry(6, 33, 5600, 5700, Acknowledged),
	}
	if got := Gap(entries, nil, 3050*time.Millisecond); got != 2500*time.Millisecond {
		t.Errorf("gap %s", got)
	}
	pauses := []span{{0, time.Second}, {5 * time.Second, 5500 * time.Millisecond}}
	if got := Gap(entries, pauses, 3050*time.Millisecond); got != 2000*time.Millisecond {
		t.Errorf("gap %s without the pause", got)
	}
	if got := Gap(entries[:2], nil, 3050*time.Millisecond); got != 0 {
		t.Errorf("nothing was acknowledged afterwards, and the gap is %s", got)
	}
}

func TestTheFingerprintTellsRowsApart(t *testing.T) {
	row := Row{ID: 5, Round: 1, Worker: 2, Seq: 3, Server: 17}
	for _, other := range []Row{{ID: 6, Round: 1, Worker: 2, Seq: 3, Server: 17}, {ID: 5, Round: 2, Worker: 2, Seq: 3, Server: 17}, {ID: 5, Round: 1, Worker: 2, Seq: 3, Server: 33}} {
		if (digest{}).with([]Row{row}) == (digest{}).with([]Row{other}) {
			t.Errorf("%+v and %+v have one fingerprint", row, other)
		}
	}
	if (digest{}).with([]Row{row, row}) == (digest{}).with([]Row{row}) {
		t.Error("a row twice is like a row once")
	}
}

func TestTheTableHasARowForEachFaultAndASum(t *testing.T) {
	table := Table([]Result{
		{Fault: "power cut", Gap: 2 * time.Second, Ready: 20 * time.Second, Detect: time.Second, Acknowledged: 10, Unknown: 1, Uncovered: 2},
		{Fault: "freeze", Gap: 5 * time.Second, Promoting: 4500 * time.Millisecond, Ready: 9 * time.Second, Acknowledged: 5, Rebuilt: 1, Lost: 3, SoonAfter: true},
		{Fault: "freeze", Gap: 3 * time.Second, Ready: 700 * time.Second, Stuck: true, Lies: 2},
		{Fault: "power cut", Gap: 4 * time.Second, Ready: 30 * time.Second, Detect: 3 * time.Second, Acknowledged: 20},
	})
	for _, want := range []string{
		"| freeze | 2 | - | 5.0 | 5.0 | 5.0 | 4.5 | 1 | 9.0 | 9.0 | 1 | 5 | 0 | 1 | 0 | 3 | 0 | 2 |",
		"| power cut | 2 | 3.0 | 4.0 | 4.0 | 4.0 | - | 0 | 30.0 | 30.0 | 0 | 30 | 1 | 0 | 0 | 0 | 2 | 0 |",
		"| **all** | 4 | 3.0 | 4.0 | 5.0 | 5.0 | 4.5 | 1 | 20.0 | 30.0 | 1 | 35 | 1 | 1 | 0 | 3 | 2 | 2 |",
	} {
		if !strings.Contains(table, want+"\n") {
			t.Errorf("no row %q in\n%s", want, table)
		}
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("%q has other columns than the header %q", line, lines[0])
		}
	}
}

func TestAChangeInterruptsNoLongerThanItsSwitchovers(t *testing.T) {
	for _, c := range []struct {
		gap, promoting time.Duration
		excused        bool
	}{
		{gap: 300 * time.Millisecond, excused: true},
		{gap: 2100 * time.Millisecond},
		{gap: 3 * time.Second, promoting: 1200 * time.Millisecond, excused: true},
		{gap: 4 * time.Second, promoting: 1200 * time.Millisecond},
	} {
		if err := Interruption(Result{Gap: c.gap, Promoting: c.promoting}); (err == nil) != c.excused {
			t.Errorf("a gap of %s with a promotion of %s: %v", c.gap, c.promoting, err)
		}
	}
}
