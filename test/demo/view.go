package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// narrowest is the width that a terminal of unknown size is taken to have, in columns.
const narrowest = 80

// phases are those that a cluster goes through on its way to Ready, in order.
var phases = []v1alpha1.Phase{
	v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady,
}

// view shows a cluster's way to Ready: in a terminal as a picture that is redrawn in place, elsewhere as one line for
// each thing that changed.
type view struct {
	out     io.Writer
	now     func() time.Time
	columns int // of the terminal; 0: not a terminal
	drawn   int // lines on the screen that belong to the picture
	started time.Time
	// spent says how long the cluster was seen in each phase. A cluster may come back to an earlier one.
	spent map[v1alpha1.Phase]time.Duration
	// phase is where it was seen last, and seen when.
	phase v1alpha1.Phase
	seen  time.Time
	// said is what was last printed of each member, and of the cluster under the empty name.
	said map[string]string
}

func newView(out io.Writer, now func() time.Time) *view {
	v := &view{
		out: out, now: now, started: now(), said: map[string]string{},
		spent: map[v1alpha1.Phase]time.Duration{},
	}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		v.columns = narrowest
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			v.columns = columns
		}
	}
	return v
}

// show takes a new look at the cluster.
func (v *view) show(cluster *v1alpha1.MySQLCluster) error {
	now := v.now()
	if v.phase != "" {
		v.spent[v.phase] += now.Sub(v.seen)
	}
	v.phase, v.seen = cluster.Status.Phase, now
	if v.columns > 0 {
		v.redraw(cluster)
	} else {
		v.sayChanges(cluster)
	}
	return nil
}

// finish prints how long the cluster stayed in each phase.
func (v *view) finish() {
	var spent []string
	for _, phase := range phases {
		if took := v.spent[phase]; took > 0 && phase != v1alpha1.PhaseReady {
			spent = append(spent, fmt.Sprintf("%s %s", phase, seconds(took)))
		}
	}
	spent = append(spent, "in all "+seconds(v.now().Sub(v.started)))
	v.print("time in phases: " + strings.Join(spent, ", "))
}

func (v *view) sayChanges(cluster *v1alpha1.MySQLCluster) {
	v.sayOnce("", fmt.Sprintf("%s: %s, %s members ready, primary %s", cluster.Name, orDash(string(cluster.Status.Phase)),
		orDash(cluster.Status.ReadyMembers), orDash(cluster.Status.Primary)))
	for _, m := range cluster.Status.Members {
		v.sayOnce(m.Name, fmt.Sprintf("%s: %s %s %s %s", m.Name, m.Phase, m.Role, m.InstanceID, m.Message))
	}
}

func (v *view) sayOnce(about, text string) {
	text = strings.TrimSpace(text)
	if v.said[about] == text {
		return
	}
	v.said[about] = text
	v.print(fmt.Sprintf("%7s  %s", seconds(v.now().Sub(v.started)), text))
}

func (v *view) redraw(cluster *v1alpha1.MySQLCluster) {
	lines := v.picture(cluster)
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.out, "\x1b[%dA\x1b[J", v.drawn)
	}
	for _, line := range lines {
		v.print(cut(line, v.columns-1))
	}
	v.drawn = len(lines)
}

func (v *view) picture(cluster *v1alpha1.MySQLCluster) []string {
	status := cluster.Status
	lines := []string{v.trail(cluster), "", fmt.Sprintf("%-12s %-13s %-8s %-6s %-20s %s", "MEMBER", "PHASE", "ROLE",
		"VOTER", "INSTANCE", "MESSAGE")}
	for _, m := range status.Members {
		voter := ""
		if m.Voter {
			voter = "yes"
		}
		lines = append(lines, fmt.Sprintf("%-12s %-13s %-8s %-6s %-20s %s", m.Name, orDash(string(m.Phase)),
			orDash(string(m.Role)), voter, orDash(m.InstanceID), m.Message))
	}
	return append(lines, "", fmt.Sprintf("%s: %s members ready, primary %s, %s", cluster.Name,
		orDash(status.ReadyMembers), orDash(status.Primary), seconds(v.now().Sub(v.started))))
}

// trail draws the phases in a row, each with the time spent in it so far.
func (v *view) trail(cluster *v1alpha1.MySQLCluster) string {
	var row []string
	for _, phase := range phases {
		text := string(phase)
		if took, been := v.spent[phase]; phase != v1alpha1.PhaseReady && (been || phase == v.phase) {
			text += " " + seconds(took)
		}
		if phase == v.phase && (phase != v1alpha1.PhaseReady || deploy.IsReady(cluster)) {
			text = "[" + text + "]"
		}
		row = append(row, text)
	}
	return strings.Join(row, " > ")
}

func (v *view) print(line string) {
	_, _ = fmt.Fprintln(v.out, line)
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func cut(line string, columns int) string {
	if runes := []rune(line); len(runes) > columns {
		return string(runes[:max(columns, 0)])
	}
	return line
}
