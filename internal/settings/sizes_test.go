package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestTooLarge(t *testing.T) {
	small := Room{Memory: 8 << 30, Volume: 20 << 30}
	for name, row := range map[string]struct {
		spec map[string]string
		room Room
		want string // the names, and a part of the first one's words
		says string
	}{
		"no sizes":                 {map[string]string{"max_connections": "100000"}, small, "", ""},
		"all fits":                 {map[string]string{"innodb_buffer_pool_size": "6G", "sort_buffer_size": "4M", redoLog: "4G"}, small, "", ""},
		"the pool":                 {map[string]string{"innodb_buffer_pool_size": "900G"}, small, "innodb_buffer_pool_size", "innodb_buffer_pool_size=900G is more than the 7.2 GiB that mysqld may take of the instance's 8.0 GiB"},
		"in bytes":                 {map[string]string{"innodb_buffer_pool_size": "8589934592"}, small, "innodb_buffer_pool_size", ""},
		"more than 64 bits":        {map[string]string{"sort_buffer_size": "99999999999999999999"}, small, "sort_buffer_size", ""},
		"more than 64 bits with G": {map[string]string{"tmp_table_size": "99999999999999G"}, small, "tmp_table_size", ""},
		"two that do not fit":      {map[string]string{"innodb_buffer_pool_size": "4G", "key_buffer_size": "5G"}, small, "key_buffer_size", "key_buffer_size=5G and what else mysqld holds are 9.0 GiB"},
		"a session's":              {map[string]string{"join_buffer_size": "64g"}, small, "join_buffer_size", ""},
		"the log":                  {map[string]string{redoLog: "15G"}, small, redoLog, "more than half of the volume's 20 GiB"},
		"several":                  {map[string]string{redoLog: "15G", "innodb_buffer_pool_size": "1T"}, small, "innodb_buffer_pool_size " + redoLog, ""},
		"memory is not known":      {map[string]string{"innodb_buffer_pool_size": "900G"}, Room{}, "", ""},
		"no number":                {map[string]string{"innodb_buffer_pool_size": "lots", "sort_buffer_size": "1GG"}, small, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := TooLarge(row.spec, row.room)
			names := slices.Sorted(maps.Keys(found))
			if strings.Join(names, " ") != row.want {
				t.Fatalf("%v, want %s", found, row.want)
			}
			if len(names) > 0 && !strings.Contains(found[names[0]], row.says) {
				t.Errorf("%s, want %s", found[names[0]], row.says)
			}
		})
	}
}

func TestInRange(t *testing.T) {
	for _, row := range []struct {
		name, value string
		in, known   bool
	}{
		{"max_connections", "500", true, true},
		{"max_connections", "0", false, true},
		{"max_connections", "100001", false, true},
		{"max_connections", "-1", false, true},
		{"innodb_redo_log_capacity", "8M", true, true},
		{"innodb_redo_log_capacity", "7m", false, true},
		{"innodb_redo_log_capacity", "1T", false, true},
		{"long_query_time", "0.5", true, true},
		{"performance_schema_hosts_size", "-1", true, true},
		{"performance_schema_hosts_size", "-2", false, true},
		{"max_connections", "many", false, false},
		{"max_connections", "0x10", false, false},
		{"slow_query_log", "1", false, false},
		{"sql_mode", "5", false, false},
		{"no_such_variable", "5", false, false},
	} {
		if in, known := InRange(row.name, row.value); in != row.in || known != row.known {
			t.Errorf("%s=%s: %t, known %t", row.name, row.value, in, known)
		}
	}
}

// TestSizesAreSettable: what is compared is a user's, a number, and of some series.
func TestSizesAreSettable(t *testing.T) {
	for _, name := range append(append(slices.Clone(held), taken...), redoLog) {
		fact, known := Facts("9.7", name)
		if d, _ := Decide(name); d.Class != Settable || !known || fact.Type != "integer" || !HasSizes(map[string]string{name: "1"}) {
			t.Errorf("%s is %s, %+v", name, d.Class, fact)
		}
	}
	if HasSizes(map[string]string{"max_connections": "1"}) {
		t.Error("max_connections is a size")
	}
}
