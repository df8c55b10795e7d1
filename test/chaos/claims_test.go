package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// clusterOf is a cluster with a status in JSON.
func clusterOf(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(`{"status":`+status+`}`), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func TestClaimsAreReadFromTheConditions(t *testing.T) {
	for status, want := range map[string][2]bool{
		`{}`: {},
		`{"conditions":[{"type":"Available","status":"True"},{"type":"Degraded","status":"False"}]}`:      {true, true},
		`{"conditions":[{"type":"Available","status":"False"},{"type":"Degraded","status":"True"}]}`:      {},
		`{"conditions":[{"type":"Available","status":"Unknown"},{"type":"Degraded","status":"Unknown"}]}`: {},
		`{"conditions":[{"type":"Available","status":"True"}]}`:                                           {true, false},
	} {
		available, healthy := claims(conditionsOf(clusterOf(t, status)))
		if want != [2]bool{available, healthy} {
			t.Errorf("%s claims available %t, healthy %t", status, available, healthy)
		}
	}
}

func TestAPromotionIsReadWithAndWithoutTheNewFields(t *testing.T) {
	for status, want := range map[string]promotion{
		`{}`: {},
		`{"lastPromotion":{"kind":"Failover","from":"a-0","to":"a-1","at":"2026-11-26T10:00:00Z","total":"4.2s","lostTransactions":0}}`: {
			Kind: "Failover", From: "a-0", To: "a-1", At: "2026-11-26T10:00:00Z", Total: "4.2s", KeptAll: true,
		},
		`{"lastPromotion":{"to":"a-1","lostTransactions":3}}`:                          {To: "a-1"},
		`{"lastPromotion":{"to":"a-1","lostTransactions":null,"uncovered":"because"}}`: {To: "a-1", Uncovered: "because"},
		`{"lastPromotion":{"to":"a-1","uncovered":"because"}}`:                         {To: "a-1", Uncovered: "because"},
	} {
		if got := promotionOf(clusterOf(t, status)); got != want {
			t.Errorf("%s is %+v, want %+v", status, got, want)
		}
	}
}

func TestMissingWritesAreComparedWithWhatStatusSays(t *testing.T) {
	zero := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	began := zero.Add(20 * time.Second)
	at := func(second int) time.Time { return zero.Add(time.Duration(second) * time.Second) }
	event := func(second int) statement { return statement{at: at(second), text: "Failover: " + nothingLost} }
	promoted := func(second int, to, uncovered string, kept bool) statement {
		text := "lostTransactions is 0"
		if !kept {
			text = "uncovered"
		}
		return statement{at: at(second), promotion: &promotion{To: to, KeptAll: kept, Uncovered: uncovered}, text: text}
	}
	missing := []Entry{entry(1, 17, 15000, 15001, Acknowledged), entry(2, 17, 30000, 30001, Acknowledged)}
	for name, row := range map[string]struct {
		said      []statement
		uncovered []uint64
		lies      int
	}{
		"nobody said anything":                      {},
		"nothing was lost":                          {said: []statement{promoted(40, "a-1", "", true), event(40)}, lies: 2},
		"only the event says that nothing was lost": {said: []statement{event(40)}, lies: 1},
		"it was said before":                        {said: []statement{promoted(10, "a-1", "", true), event(10)}},
		"uncovered, since the fault":                {said: []statement{promoted(40, "a-1", "semi-sync was off", false)}, uncovered: []uint64{2}},
		"uncovered, since a time":                   {said: []statement{promoted(40, "a-1", "semi-sync was off since 2026-11-26T10:00:15Z", false)}, uncovered: []uint64{1, 2}},
		"uncovered, since too late a time":          {said: []statement{promoted(40, "a-1", "semi-sync was off since 2026-11-26T10:00:35Z", false)}},
		"uncovered since a time or earlier":         {said: []statement{promoted(40, "a-1", "since 2026-11-26T10:00:35Z or earlier: semi-sync is off", false)}, uncovered: []uint64{2}},
		"uncovered, and the event denies it": {
			said: []statement{promoted(40, "a-1", "since 2026-11-26T10:00:15Z", false), event(41)}, uncovered: []uint64{1, 2}, lies: 1,
		},
		"uncovered, and a later failover lost nothing": {
			said:      []statement{promoted(40, "a-1", "since 2026-11-26T10:00:15Z", false), promoted(60, "a-0", "", true), event(60)},
			uncovered: []uint64{1, 2},
		},
		"a later failover is uncovered": {
			said: []statement{promoted(40, "a-1", "", true), promoted(60, "a-0", "since 2026-11-26T10:00:15Z", false)}, lies: 1,
		},
	} {
		uncovered, lies := judgeMissing(missing, zero, began, row.said)
		if !slices.Equal(uncovered, row.uncovered) || len(lies) != row.lies {
			t.Errorf("%s: uncovered %v, lies %v", name, uncovered, lies)
		}
	}
}

func TestWhatIsUncoveredMayBeThereOrNot(t *testing.T) {
	ledger, err := NewLedger(t.TempDir() + "/ledger.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ledger.Close() }()
	kept, missing := entry(1, 17, 0, 5, Acknowledged), entry(2, 17, 5, 9, Acknowledged)
	ledger.record(kept)
	ledger.record(missing)
	ledger.uncover([]uint64{2})
	for _, rows := range [][]Row{{rowOf(kept)}, {rowOf(kept), rowOf(missing)}} {
		if d := Compare(ledger.round(1), rows); !d.Empty() {
			t.Errorf("of %v: %s", rows, d)
		}
	}
	if last := ledger.lastAck(); last != missing.Answered {
		t.Errorf("the client was answered at %s, and the ledger says %s", missing.Answered, last)
	}
}

func TestTheVerdict(t *testing.T) {
	loss := &Loss{Member: "a-0", Difference: Difference{Lost: []uint64{1}}}
	stuck := fmt.Errorf("%w: nothing happens", ErrNotReady)
	lies := []Lie{{Claim: claimHealthy}}
	for name, row := range map[string]struct {
		err      error
		lies     []Lie
		findings []error
		fails    bool // as a lost row does
	}{
		"all is well":            {},
		"not Ready":              {err: stuck},
		"a loss":                 {err: loss, fails: true},
		"a lie":                  {lies: lies, fails: true},
		"a broken promise":       {findings: []error{errors.New("late")}, fails: true},
		"not Ready, and a lie":   {err: stuck, lies: lies, fails: true},
		"a loss, and a lie":      {err: loss, lies: lies, fails: true},
		"not Ready, and is late": {err: stuck, findings: []error{errors.New("late")}, fails: true},
	} {
		err := verdict(row.err, row.lies, row.findings)
		if fails := err != nil && !errors.Is(err, ErrNotReady); fails != row.fails {
			t.Errorf("%s: %v", name, err)
		}
		if found := new(Loss); errors.As(row.err, &found) && !errors.As(err, &found) {
			t.Errorf("%s: the loss is not in %v", name, err)
		}
	}
}
