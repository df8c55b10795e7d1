package logs

import (
	"reflect"
	"strings"
	"testing"
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
		if got := inParts(slowLog, size, slowEntries); !reflect.DeepEqual(got, want) {
			t.Fatalf("in parts of %d bytes:\n%+v", size, got)
		}
	}
	if entries, _ := slowEntries([]byte("the end of what was not read\n"+slowLog), true); !reflect.DeepEqual(entries, want) {
		t.Errorf("from the middle on: %+v", entries)
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
		if got := inParts(log, size, generalEntries); !reflect.DeepEqual(got, want) {
			t.Fatalf("in parts of %d bytes:\n%+v", size, got)
		}
	}
}

// TestLongEntriesAreCut: neither what is kept nor what is written grows without bound, and the next entry is read.
func TestLongEntriesAreCut(t *testing.T) {
	log := "2026-11-28T10:00:00.000001Z\t1 Query\t" + strings.Repeat("x", 10*entryLimit) + "\n2026-11-28T10:00:00.000002Z\t1 Quit\t\n"
	var left []byte
	var got []Entry
	for rest := []byte(log); len(rest) > 0; {
		n := min(len(rest), 1000)
		var found []Entry
		found, left = generalEntries(append(left, rest[:n]...), false)
		if got = append(got, found...); len(left) > entryLimit+lineLimit+2 {
			t.Fatalf("%d bytes are kept", len(left))
		}
		rest = rest[n:]
	}
	if len(got) != 1 || !got[0].Truncated || len(got[0].Statement) > entryLimit || string(left) != "2026-11-28T10:00:00.000002Z\t1 Quit\t\n" {
		t.Errorf("%d entries, %d bytes left", len(got), len(left))
	}
}

// inParts parses text that comes in parts of a size.
func inParts(text string, size int, parse func([]byte, bool) ([]Entry, []byte)) (got []Entry) {
	var left []byte
	for rest := text; rest != ""; {
		n := min(len(rest), size)
		var found []Entry
		found, left = parse(append(left, rest[:n]...), false)
		got, rest = append(got, found...), rest[n:]
	}
	found, _ := parse(left, true)
	return append(got, found...)
}
