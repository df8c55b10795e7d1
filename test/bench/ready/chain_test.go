package ready

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// began is the moment from which the recorded members count.
var began = time.Unix(1795267800, 0)

func at(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * float64(time.Second))).Round(time.Millisecond)
}

// recorded reads what three members said: orders-0 is the first, the others were seeded from it, one after the other.
func recorded(t *testing.T) []member {
	t.Helper()
	var members []member
	for _, m := range []struct {
		name, address, shown, plugged string
	}{
		{"orders-0", "10.77.1.4:3306", "UserspaceTimestamp=Sat 2026-11-21 13:30:01.302000 UTC\n", "1795267805.002000000\n"},
		{"orders-1", "10.77.2.4:3306", "UserspaceTimestamp=Sat 2026-11-21 13:30:01.400000 UTC\n", "1795267803.100000000\n"},
		{"orders-2", "10.77.3.4:3306", "UserspaceTimestamp=Sat 2026-11-21 13:30:01.900000 UTC\n", "1795267803.200000000\n"},
	} {
		power, err := readBootTime(m.shown)
		if err != nil {
			t.Fatal(err)
		}
		plugged, err := readSeconds(m.plugged)
		if err != nil {
			t.Fatal(err)
		}
		moments, err := readJournal(read(t, m.name+".journal"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := readClone(string(read(t, m.name+".clone")))
		if err != nil {
			t.Fatal(err)
		}
		one, err := understand(m.name, m.address, power, plugged, moments, c)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, one)
	}
	return members
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatMembersSay(t *testing.T) {
	members := recorded(t)
	for _, c := range []struct {
		of   string
		got  time.Duration
		want time.Duration
	}{
		// From 1.302 to 5.602, less the time from 4.102, when it looked for its volume, to 5.002, when that was there.
		{"boot of orders-0", members[0].boot(), 3400 * time.Millisecond},
		{"wait of orders-0", members[0].waited(), 900 * time.Millisecond},
		{"initialise of orders-0", members[0].initialised(), 3500 * time.Millisecond},
		{"start of orders-0", members[0].start(), 1200 * time.Millisecond},
		// Its volume was there before it looked.
		{"wait of orders-1", members[1].waited(), 0},
		{"boot of orders-1", members[1].boot(), 3300 * time.Millisecond},
		// The first start counts, not the one at the end of the CLONE.
		{"start of orders-1", members[1].start(), 1200 * time.Millisecond},
		{"CLONE of orders-1", members[1].clone.took, 4500 * time.Millisecond},
		{"the donor's part", members[1].clone.held, 1300 * time.Millisecond},
		{"CLONE of orders-2", members[2].clone.took, 4600 * time.Millisecond},
	} {
		if d := c.got - c.want; d.Abs() > time.Millisecond {
			t.Errorf("%s: %s, want %s", c.of, c.got, c.want)
		}
	}
	if members[0].clone != nil {
		t.Error("the first member was seeded")
	}
	if want := at(11.5); members[1].clone.began.Sub(want).Abs() > time.Millisecond {
		t.Errorf("CLONE of orders-1 began %s, want %s", members[1].clone.began, want)
	}
}

// TestLongestChain: orders-1 takes 8.5 s to be up, longer than its donor; the donor is then busy for 1.3 s, and orders-2
// is seeded in 4.6 s.
func TestLongestChain(t *testing.T) {
	c, err := longestChain(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"orders-1 boots", "orders-1 initialises", "orders-1 starts mysqld", "the donor of orders-1 is busy", "orders-2 is seeded by CLONE"}
	var got []string
	for _, p := range c {
		got = append(got, p.what)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the chain is %q, want %q", got, want)
	}
	if d := c.took() - 14400*time.Millisecond; d.Abs() > 5*time.Millisecond {
		t.Errorf("the chain takes %s", c.took())
	}
}

// work makes a member that is up after a time of its own.
func work(name string, up time.Duration, c *clone) member {
	m := member{name: name, address: name + ":3306", power: began, volume: began, plugged: began, clone: c}
	m.initialise, m.starting, m.started = began.Add(up), began.Add(up), began.Add(up)
	return m
}

func TestChains(t *testing.T) {
	seed := func(donor string, order int, took, held time.Duration) *clone {
		return &clone{donor: donor + ":3306", began: began.Add(time.Duration(order)), took: took, held: held}
	}
	for _, c := range []struct {
		what    string
		members []member
		want    time.Duration
	}{
		{"one member", []member{work("a", 9, nil)}, 9},
		{"a slow first member holds up all", []member{work("a", 20, nil), work("b", 5, seed("a", 1, 3, 3))}, 23},
		{"a slow second member holds up only itself", []member{work("a", 5, nil), work("b", 20, seed("a", 1, 3, 3))}, 23},
		{"a donor serves one at a time", []member{work("a", 5, nil), work("b", 5, seed("a", 1, 6, 4)), work("c", 5, seed("a", 2, 6, 4))}, 15},
		{"a member that was seeded is a donor when it serves", []member{work("a", 5, nil), work("b", 5, seed("a", 1, 6, 4)), work("c", 5, seed("b", 2, 6, 4))}, 17},
		{"the order is that in which they began", []member{work("a", 5, nil), work("b", 5, seed("a", 2, 6, 4)), work("c", 30, seed("a", 1, 6, 4))}, 40},
		{"without a CLONE the slowest counts", []member{work("a", 5, nil), work("b", 7, nil)}, 7},
	} {
		got, err := longestChain(c.members)
		if err != nil || got.took() != c.want {
			t.Errorf("%s: %d, %v, want %d", c.what, got.took(), err, c.want)
		}
	}
	if _, err := longestChain([]member{work("b", 5, seed("a", 1, 1, 1))}); !errors.Is(err, errNoDonor) {
		t.Errorf("a donor that nobody knows: %v", err)
	}
	if _, err := longestChain(nil); err == nil {
		t.Error("there is a chain of nothing")
	}
}

// TestWhatIsMissingIsSaid: a figure that was made from half of the words would look better than the truth.
func TestWhatIsMissingIsSaid(t *testing.T) {
	moments := []moment{{stageVolume, began}, {stageStarting, began}, {stageStarted, began}}
	if _, err := understand("orders-0", "", began, began, moments, nil); !errors.Is(err, errIncomplete) || !strings.Contains(err.Error(), stageInitialise) {
		t.Errorf("a member that never initialised: %v", err)
	}
	for what, text := range map[string]string{
		"a CLONE that runs":             "CLONE\tIn Progress\t10.77.1.4:3306\t1795267811.500\tNULL\n",
		"a CLONE that failed":           "CLONE\tFailed\t10.77.1.4:3306\t1795267811.500\t1795267812.500\n",
		"a CLONE without its stages":    "CLONE\tCompleted\t10.77.1.4:3306\t1795267811.500\t1795267816.000\n",
		"a stage that never ended":      "REDO COPY\tIn Progress\t\t1795267811.500\tNULL\n",
		"a line that is not a row":      "ERROR 1045 (28000): Access denied\n",
		"a time that is none":           "CLONE\tCompleted\t10.77.1.4:3306\tyesterday\t1795267816.000\n",
		"an end that is none":           "CLONE\tCompleted\t10.77.1.4:3306\t1795267816.000\tNULL\n",
		"a fraction that is no number ": "CLONE\tCompleted\t10.77.1.4:3306\t1795267816.x\t1795267816.000\n",
	} {
		if c, err := readClone(text); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
	for _, text := range []string{"", "UserspaceTimestamp=", "UserspaceTimestamp=n/a\n", "Failed to connect to bus\n"} {
		if power, err := readBootTime(text); err == nil {
			t.Errorf("%q says %s", text, power)
		}
	}
	if _, err := readJournal([]byte("-- No entries --\n")); err == nil {
		t.Error("a journal that is none was read")
	}
	if _, err := readJournal([]byte(`{"__REALTIME_TIMESTAMP":"soon","MESSAGE":"nairobi-mysql: volume"}`)); err == nil {
		t.Error("a stage without a time was read")
	}
}
