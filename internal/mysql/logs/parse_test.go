package logs

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

const slowLog = `/usr/sbin/mysqld, Version: 9.7.4 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time                 Id Command    Argument
# Time: 2026-11-28T10:00:00.000001Z
# User@Host: app[app] @  [10.0.0.7]  Id:    12
# Query_time: 1.500000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 100
use shop;
SET timestamp=1795860000;
SELECT *
# not a header
FROM t;
# Time: 2026-11-28T10:00:01.000002Z
# User@Host: root[root] @ localhost []  Id:    13
# Query_time: 0.000100  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0 Thread_id: 13 Errno: 0 Killed: 0 Start: 2026-11-28T10:00:01.000000Z End: 2026-11-28T10:00:01.000002Z
SET timestamp=1795860001;
# administrator command: Ping;
`

// TestSlowEntries reads entries in whatever parts they come.
func TestSlowEntries(t *testing.T) {
	want := []Entry{
		{
			Time: "2026-11-28T10:00:00.000001Z",
			OfQueryLog: OfQueryLog{
				User: "app", Host: "10.0.0.7", Connection: 12, Database: "shop", Statement: "SELECT *\n# not a header\nFROM t",
				Figures: map[string]float64{"Query_time": 1.5, "Lock_time": 0.000002, "Rows_sent": 1, "Rows_examined": 100},
			},
		},
		{
			Time: "2026-11-28T10:00:01.000002Z",
			OfQueryLog: OfQueryLog{
				User: "root", Host: "localhost", Connection: 13, Command: "Ping",
				Figures: map[string]float64{"Query_time": 0.0001, "Lock_time": 0, "Rows_sent": 0, "Rows_examined": 0, "Thread_id": 13, "Errno": 0, "Killed": 0},
			},
		},
	}
	for size := 1; size <= len(slowLog); size++ {
		if got := inParts(slowLog, size, slowFormat); !reflect.DeepEqual(got, want) {
			t.Fatalf("in parts of %d bytes:\n%+v", size, got)
		}
	}
	if got := inParts("the end of what was not read\n"+slowLog, len(slowLog)*2, slowFormat); !reflect.DeepEqual(got, want) {
		t.Errorf("from the middle on: %+v", got)
	}
}

// TestSlowUsers: a name may have spaces, and what is in that line is no figure.
func TestSlowUsers(t *testing.T) {
	for line, want := range map[string][2]string{
		"# User@Host: app[app] @  [10.0.0.7]  Id:    12":             {"app", "10.0.0.7"},
		"# User@Host: night shift[night shift] @ desk []  Id:    12": {"night shift", "desk"},
		"# User@Host: [] @  []  Id:    12":                           {"", ""},
	} {
		var e Entry
		if e.header(line); e.User != want[0] || e.Host != want[1] || e.Connection != 12 || len(e.Figures) > 0 {
			t.Errorf("%s: %+v", line, e.OfQueryLog)
		}
	}
}

func TestGeneralEntries(t *testing.T) {
	const log = "2026-11-28T10:00:00.000001Z\t   12 Connect\tapp@10.0.0.7 on shop using SSL/TLS\n" +
		"2026-11-28T10:00:00.000002Z\t   12 Query\tSELECT 1,\n\t2\n2026-11-28T10:00:00.000003Z\t   12 Init DB\tshop\n2026-11-28T10:00:00.000004Z\t   12 Quit\t\n"
	want := []Entry{
		{Time: "2026-11-28T10:00:00.000001Z", OfQueryLog: OfQueryLog{Connection: 12, Command: "Connect", Statement: "app@10.0.0.7 on shop using SSL/TLS"}},
		{Time: "2026-11-28T10:00:00.000002Z", OfQueryLog: OfQueryLog{Connection: 12, Command: "Query", Statement: "SELECT 1,\n\t2"}},
		{Time: "2026-11-28T10:00:00.000003Z", OfQueryLog: OfQueryLog{Connection: 12, Command: "Init DB", Statement: "shop"}},
		{Time: "2026-11-28T10:00:00.000004Z", OfQueryLog: OfQueryLog{Connection: 12, Command: "Quit"}},
	}
	for size := 1; size <= len(log); size++ {
		if got := inParts(log, size, generalFormat); !reflect.DeepEqual(got, want) {
			t.Fatalf("in parts of %d bytes:\n%+v", size, got)
		}
	}
}

// TestLongEntriesAreCut: neither what is kept nor what is written grows without bound, and the next entry is read.
func TestLongEntriesAreCut(t *testing.T) {
	log := "2026-11-28T10:00:00.000001Z\t1 Query\t" + strings.Repeat("x", 10*entryLimit) + "\n2026-11-28T10:00:00.000002Z\t1 Quit\t\n"
	var left []byte
	var got []Entry
	emit := func(e Entry) { got = append(got, e) }
	for rest := []byte(log); len(rest) > 0; {
		n := min(len(rest), 1000)
		if left = generalFormat.entries(append(left, rest[:n]...), false, emit); len(left) > entryLimit+startLimit+2 {
			t.Fatalf("%d bytes are kept", len(left))
		}
		rest = rest[n:]
	}
	if len(got) != 1 || !got[0].Truncated || len(got[0].Statement) > entryLimit || string(left) != "2026-11-28T10:00:00.000002Z\t1 Quit\t\n" {
		t.Errorf("%d entries, %d bytes left", len(got), len(left))
	}
}

// TestStatementsThatLookLikeTheLog are printed whole, and forge nothing of their own entry.
func TestStatementsThatLookLikeTheLog(t *testing.T) {
	head := strings.Join(strings.Split(slowLog, "\n")[3:6], "\n") + "\nSET timestamp=1795860000;\n"
	for _, statement := range []string{
		"# Query_time: 99.0  Lock_time: 0\nDO SLEEP(1.5)", "# User@Host: root[root] @  [10.0.0.1]  Id: 1\nDO 1", "use shop", "SET timestamp=5", "SELECT 'a\n# Time: 2020-01-01T00:00:00Z\nb'",
	} {
		want := Entry{Time: "2026-11-28T10:00:00.000001Z", OfQueryLog: OfQueryLog{
			User: "app", Host: "10.0.0.7", Connection: 12, Statement: statement,
			Figures: map[string]float64{"Query_time": 1.5, "Lock_time": 0.000002, "Rows_sent": 1, "Rows_examined": 100},
		}}
		if got := inParts(head+statement+";\n", 7, slowFormat); !reflect.DeepEqual(got, []Entry{want}) {
			t.Errorf("%q: %+v", statement, got)
		}
	}
}

// TestACharacterIsNotCut at the end of an entry that is too long.
func TestACharacterIsNotCut(t *testing.T) {
	for shift := range 4 {
		got := inParts("2026-11-28T10:00:00.000001Z\t1 Query\t"+strings.Repeat("x", shift)+strings.Repeat("€", entryLimit/3+1), 1<<20, generalFormat)
		if len(got) != 1 || !got[0].Truncated || !utf8.ValidString(got[0].Statement) || !strings.HasSuffix(got[0].Statement, "€") {
			t.Errorf("shifted by %d it ends with %q", shift, got[0].Statement[len(got[0].Statement)-6:])
		}
	}
}

// inParts parses text that comes in parts of a size.
func inParts(text string, size int, f format) (got []Entry) {
	var left []byte
	emit := func(e Entry) { got = append(got, e) }
	for rest := text; rest != ""; {
		n := min(len(rest), size)
		left = f.entries(append(left, rest[:n]...), false, emit)
		rest = rest[n:]
	}
	f.entries(left, true, emit)
	return got
}
