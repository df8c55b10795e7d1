package chaos

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

const (
	// nothingLost is what the event of a promotion says when every acknowledged transaction was kept.
	nothingLost = "no acknowledged transaction was lost"
	// uncoveredSlack is the rounding of a time in a status, which has whole seconds.
	uncoveredSlack = time.Second
)

// condition is a condition of a status.
type condition struct{ Type, Status, Reason, Message string }

// String is the condition in a line.
func (c condition) String() string {
	return fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
}

// conditionsOf returns the conditions by type.
func conditionsOf(cluster *unstructured.Unstructured) map[string]condition {
	found := map[string]condition{}
	list, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions") // none, if it is no list
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string {
			value, _ := fields[name].(string)
			return value
		}
		found[text("type")] = condition{text("type"), text("status"), text("reason"), text("message")}
	}
	return found
}

// claims says whether a status claims that the cluster is available, and that nothing is wrong with it.
func claims(conditions map[string]condition) (available, healthy bool) {
	return conditions[v1alpha1.ConditionAvailable].Status == "True", conditions[v1alpha1.ConditionDegraded].Status == "False"
}

// promotion is status.lastPromotion. It is read from the JSON, so that a field which the API's types do not have yet, or have
// no longer, is no reason not to compile.
type promotion struct {
	Kind, From, To, At, Total string
	// Steps are its times step by step.
	Steps string
	// KeptAll says that lostTransactions is there and 0: no acknowledged transaction was lost.
	KeptAll bool
	// Uncovered says why, and since when, nobody knows whether what was acknowledged was kept; empty: it is known.
	Uncovered string
}

// promotionOf returns the last promotion of a status; the zero value without any.
func promotionOf(cluster *unstructured.Unstructured) promotion {
	fields, _, _ := unstructured.NestedMap(cluster.Object, "status", "lastPromotion") // none, if it is no object
	text := func(name string) string {
		value, _ := fields[name].(string)
		return value
	}
	lost, known := fields["lostTransactions"]
	var steps []string
	for _, name := range []string{"detect", "fence", "promote", "publish"} {
		if took := text(name); took != "" {
			steps = append(steps, name+" "+took)
		}
	}
	return promotion{
		Kind: text("kind"), From: text("from"), To: text("to"), At: text("at"), Total: text("total"), Steps: strings.Join(steps, ", "),
		KeptAll: known && fmt.Sprint(lost) == "0", Uncovered: text("uncovered"),
	}
}

// beginning is since when writes are uncovered, as status and messages show it.
var beginning = regexp.MustCompile(`since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))( or earlier)?`)

// uncoveredSince returns since when writes are uncovered by a text, and the other time where the text does not know.
func uncoveredSince(text string, otherwise time.Time) time.Time {
	found := beginning.FindStringSubmatch(text)
	if found == nil || found[2] != "" {
		return otherwise
	}
	at, err := time.Parse(time.RFC3339Nano, found[1])
	if err != nil {
		return otherwise
	}
	return at.Add(-uncoveredSlack)
}

// statement is what the operator published about acknowledged transactions, and when a client saw it.
type statement struct {
	at time.Time
	// promotion is nil for an event.
	promotion *promotion
	text      string
}

// sameAs says whether two reports are about the same promotion: a status may be completed later.
func (p promotion) sameAs(other promotion) bool {
	return p.From == other.From && p.To == other.To && p.At == other.At
}

// judgeMissing sorts acknowledged writes that a member lacks. Those that the next promotion called uncovered are no failure;
// about all of them nobody may claim that nothing was lost. The ledger's time 0 is zero. Uncovered writes without a time in
// the status are those since the fault began.
func judgeMissing(missing []Entry, zero, began time.Time, said []statement) (uncovered []uint64, lies []Lie) {
	disproved := map[int]int{} // the number of missing writes by statement
	for _, e := range missing {
		acknowledged := zero.Add(e.Answered)
		excused := false
		var next *promotion // which answers for this write
		for i, s := range said {
			if s.at.Before(acknowledged) {
				continue
			}
			if p := s.promotion; p != nil {
				if next == nil {
					next = p
				} else if !next.sameAs(*p) {
					break
				}
				excused = excused || p.Uncovered != "" && !acknowledged.Before(uncoveredSince(p.Uncovered, began))
			}
			if s.promotion == nil || s.promotion.KeptAll {
				disproved[i]++
			}
		}
		if excused {
			uncovered = append(uncovered, e.ID)
		}
	}
	for i, s := range said {
		if disproved[i] > 0 {
			at := s.at.Sub(zero)
			lies = append(lies, Lie{Claim: s.text, Reason: fmt.Sprintf("%d acknowledged writes are missing", disproved[i]), From: at, Until: at})
		}
	}
	return uncovered, lies
}

// statementsOf returns what sights say about acknowledged transactions.
func statementsOf(sights []Sight) []statement {
	var said []statement
	for _, s := range sights {
		switch {
		case s.promotion != nil:
			text := "lostTransactions is 0"
			if !s.promotion.KeptAll {
				text = "uncovered: " + s.promotion.Uncovered
			}
			said = append(said, statement{at: s.At, promotion: s.promotion, text: text})
		case s.Kind == kindEvent && strings.Contains(s.Text, nothingLost):
			said = append(said, statement{at: s.At, text: s.Text})
		}
	}
	return said
}
