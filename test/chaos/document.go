package chaos

import (
	"fmt"
	"os"
	"strings"
)

// The parts of docs/reliability.md that runs write.
const (
	PartChaos = "chaos"
	PartPower = "power"
	PartBench = "bench-failover"
	// PartAlarms is in docs/runbooks/README.md.
	PartAlarms = "alarms"
	// PartChanges begins the names of the tables of changes: plain, and with power cuts.
	PartChanges = "changes-"
)

// Document replaces a part of a document, which lies between two comments that name it.
func Document(path, part, text string) error {
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", part), fmt.Sprintf("<!-- end %s -->\n", part)
	whole, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	before, rest, found := strings.Cut(string(whole), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no part %q", path, part)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+after), 0o644)
}
