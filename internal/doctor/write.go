package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

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
