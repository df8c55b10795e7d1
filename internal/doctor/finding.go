package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Verdict is what a check concludes.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Failed  Verdict = "failed"
	// NotChecked: something is missing that the check needs, such as a permission. Change says what.
	NotChecked Verdict = "not checked"
)

// Finding is the outcome of one check. Its JSON is documented in docs/doctor.md.
type Finding struct {
	Check string `json:"check"`
	// Cluster is namespace/name, empty for a check of the installation.
	Cluster string  `json:"cluster,omitempty"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
	// Change is what to change, empty when nothing has to be.
	Change string `json:"change,omitempty"`
}

// Report has the findings of all checks, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	// Failed and Warnings count the findings with these verdicts.
	Failed   int `json:"failed"`
	Warnings int `json:"warnings"`
}

func (r *Report) add(ctx context.Context, name, cluster string, run func() Finding) {
	if ctx.Err() != nil {
		return
	}
	f := run()
	f.Check, f.Cluster = name, cluster
	f.Seen, f.Change = oneLine(f.Seen), oneLine(f.Change)
	r.Findings = append(r.Findings, f)
	switch f.Verdict {
	case Failed:
		r.Failed++
	case Warning:
		r.Warnings++
	case OK, NotChecked:
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func ok(format string, a ...any) Finding {
	return Finding{Verdict: OK, Seen: fmt.Sprintf(format, a...)}
}

func failed(change, format string, a ...any) Finding {
	return Finding{Verdict: Failed, Seen: fmt.Sprintf(format, a...), Change: change}
}

func warning(change, format string, a ...any) Finding {
	return Finding{Verdict: Warning, Seen: fmt.Sprintf(format, a...), Change: change}
}

func notChecked(change, format string, a ...any) Finding {
	return Finding{Verdict: NotChecked, Seen: fmt.Sprintf(format, a...), Change: change}
}

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes one line a finding: verdict, check, cluster, what was seen, and what to change.
func (r Report) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		cluster, text := f.Cluster, f.Seen
		if cluster == "" {
			cluster = "-"
		}
		if f.Change != "" {
			text += ". To do: " + f.Change
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Verdict, f.Check, cluster, text)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d checks: %d failed, %d warnings\n", len(r.Findings), r.Failed, r.Warnings)
	return err
}
