package announce

import (
	"os"
	"strings"
	"testing"
)

// TestOperationsNamesTheConditionsWithEvents: the text above the table of events names each condition whose turn is reported, and the reason of
// the event when it is well again.
func TestOperationsNamesTheConditionsWithEvents(t *testing.T) {
	document, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(document), "\n## Events\n")
	text, _, found := strings.Cut(text, "\n| reason |")
	if !found {
		t.Fatal("operations.md has no table of events")
	}
	for condition, e := range conditionEvents {
		for _, name := range []string{condition, e.goodReason} {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the text above the table of events does not name %s", name)
			}
		}
	}
}
