package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestEveryNameHasOneDecision: what mysqld knows is decided about, once.
func TestEveryNameHasOneDecision(t *testing.T) {
	seen := map[string]int{}
	for _, g := range decisions() {
		for _, name := range strings.Fields(g.names) {
			seen[name]++
		}
		if (g.reason == "") != (g.class == Settable || g.class == Creation) {
			t.Errorf("the reason of %s is %q", g.class, g.reason)
		}
	}
	for name, times := range seen {
		if times > 1 {
			t.Errorf("%s is decided about %d times", name, times)
		}
	}
	for _, series := range Series {
		if n := len(Names(series)); n < 600 {
			t.Errorf("%s knows %d names", series, n)
		}
		for _, name := range Names(series) {
			if _, ok := Decide(name); !ok {
				t.Errorf("%s of %s has no decision: add it to decisions.go", name, series)
			}
		}
	}
}

// TestWhatIsTakenLasts: a setting that is a user's is a variable that MySQL persists, in every series that knows it, and is known
// to one.
func TestWhatIsTakenLasts(t *testing.T) {
	for _, name := range strings.Fields(settable) {
		known := false
		for _, series := range Series {
			fact, ok := Facts(series, name)
			known = known || ok
			if ok && !fact.Persistable {
				t.Errorf("%s is taken, and MySQL %s does not persist it", name, series)
			}
		}
		if !known {
			t.Errorf("%s is taken, and no series knows it", name)
		}
	}
}

func TestValuesAreOfSettings(t *testing.T) {
	for _, v := range values() {
		for _, name := range strings.Fields(v.names) {
			if d, _ := Decide(name); d.Class != Settable && d.Class != Creation {
				t.Errorf("the value of %s has a rule, and it is %s", name, d.Class)
			}
		}
	}
	for name := range inForce() {
		if _, owned := Owned(name); !owned {
			t.Errorf("%s is in force, and a user's", name)
		}
	}
	if !slices.IsSorted(Names("9.7")) {
		t.Error("names are not sorted")
	}
}

// TestReasonsAreRight compares what the reasons say of MySQL with what its servers do.
func TestReasonsAreRight(t *testing.T) {
	says := map[string]func(Fact) bool{
		"MySQL takes it from its command line only": func(f Fact) bool { return !f.Persistable },
		"MySQL does not persist it":                 func(f Fact) bool { return f.Variable && !f.Persistable },
		"it counts for one session":                 func(f Fact) bool { return f.Scope == "session_only" },
		"MySQL only shows it":                       func(f Fact) bool { return f.Variable && !f.Option && !f.Dynamic && !f.Persistable },
		"MySQL works out from the instance":         func(f Fact) bool { return !f.Persistable },
		"MySQL lets nobody persist another value":   func(f Fact) bool { return !f.Persistable },
	}
	checked := map[string]int{}
	for _, series := range Series {
		for _, name := range Names(series) {
			fact, _ := Facts(series, name)
			d, _ := Decide(name)
			for words, holds := range says {
				if strings.Contains(d.Reason, words) {
					checked[words]++
					if !holds(fact) {
						t.Errorf("%s of %s is refused because %q, and is %+v", name, series, words, fact)
					}
				}
			}
		}
	}
	for words := range says {
		if checked[words] == 0 {
			t.Errorf("no setting is refused because %q", words)
		}
	}
}

func TestWhatMembersAreGiven(t *testing.T) {
	spec := map[string]string{"max_connections": "500", "binlog_format": "ROW", "lower_case_table_names": "1", "time_zone": "Asia/Tokyo", "validate_password.length": "12"}
	for what, row := range map[string]struct {
		have map[string]string
		want string
	}{
		"over SQL":              {ForMembers(spec), "max_connections time_zone validate_password.length"},
		"at the launch":         {ForLaunch("9.7", spec), "max_connections"},
		"at the launch of 10.1": {ForLaunch(SeriesOf("10.1.0"), spec), ""},
		"at creation":           {AtCreation(spec), "lower_case_table_names"},
		"of none":               {ForMembers(nil), ""},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(row.have)), " "); got != row.want {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
}
