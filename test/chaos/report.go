package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// line is a result as it is printed while the run goes on.
func (r Result) line() string {
	text := fmt.Sprintf("     noticed %s, writable again after %s, Ready after %s; %d acknowledged, %d unknown, %d promoted, %d rebuilt, %d snapshots; load %.0f",
		seconds(r.Detect), seconds(r.Gap), seconds(r.Ready), r.Acknowledged, r.Unknown, r.Promotions, r.Rebuilt, r.Snapshots, r.Load)
	if r.Promoting > 0 {
		text += fmt.Sprintf("; promotion in %s (%s)", seconds(r.Promoting), r.Steps)
	}
	if r.SoonAfter {
		text += "; soon after the promotion before"
	}
	if r.Uncovered > 0 {
		text += fmt.Sprintf("; %d missing writes were reported as uncovered", r.Uncovered)
	}
	if r.Stuck {
		text += "; NOT READY"
	}
	if r.Lies > 0 {
		text += fmt.Sprintf("; %d STATUS LIES", r.Lies)
	}
	return text
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

// quantile returns the value below which a share of the values lies; of few values it is the next larger one.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// Table is the results by kind of fault, as Markdown.
func Table(results []Result) string {
	byFault := map[string][]Result{}
	var names []string
	for _, r := range results {
		if byFault[r.Fault] == nil {
			names = append(names, r.Fault)
		}
		byFault[r.Fault] = append(byFault[r.Fault], r)
	}
	slices.Sort(names)
	var text strings.Builder
	text.WriteString("| fault | times | noticed p50 | gap p50 | gap p95 | gap max | promotion max | soon after | Ready p50 | Ready max | not Ready | acknowledged | unknown | rebuilt | snapshots | lost | uncovered | status lies |\n")
	text.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, name := range names {
		row(&text, name, byFault[name])
	}
	row(&text, "**all**", results)
	return text.String()
}

func row(text *strings.Builder, name string, results []Result) {
	var noticed, gaps, promotions, ready []time.Duration
	var sum Result
	soonAfter, stuck := 0, 0
	for _, r := range results {
		if r.Detect > 0 {
			noticed = append(noticed, r.Detect)
		}
		gaps, promotions = append(gaps, r.Gap), append(promotions, r.Promoting)
		if r.SoonAfter {
			soonAfter++
		}
		if r.Stuck {
			stuck++
		} else {
			ready = append(ready, r.Ready)
		}
		sum.Acknowledged += r.Acknowledged
		sum.Unknown += r.Unknown
		sum.Rebuilt += r.Rebuilt
		sum.Snapshots += r.Snapshots
		sum.Lost += r.Lost
		sum.Uncovered += r.Uncovered
		sum.Lies += r.Lies
	}
	fmt.Fprintf(text, "| %s | %d | %s | %s | %s | %s | %s | %d | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, len(results),
		seconds(quantile(noticed, 0.5)), seconds(quantile(gaps, 0.5)), seconds(quantile(gaps, 0.95)), seconds(quantile(gaps, 1)), seconds(quantile(promotions, 1)), soonAfter,
		seconds(quantile(ready, 0.5)), seconds(quantile(ready, 1)), stuck, sum.Acknowledged, sum.Unknown, sum.Rebuilt, sum.Snapshots, sum.Lost, sum.Uncovered, sum.Lies)
}

// legend explains the columns about what status says. It stands beside the table, so that it always fits it.
var legend = fmt.Sprintf("*Uncovered* are acknowledged writes that are missing, and of which the operator reported that nobody knows what was kept. "+
	"*Status lies* are claims that the ledger disproves, at any moment of the run: Available=True or Degraded=False while no write was acknowledged for more than %.0f s, "+
	"or that nothing was lost. One fails the run, as a lost write does.", statusAllowance.Seconds())

// Summary says in a few lines how a run went, when and where, and with which command.
func Summary(results []Result, command string, seed uint64, began time.Time) string {
	var loads []time.Duration // as times, for the quantile
	incomplete := 0
	for _, r := range results {
		loads = append(loads, time.Duration(r.Load*float64(time.Second)))
		if r.Incomplete != "" {
			incomplete++
		}
	}
	text := fmt.Sprintf("%s; %s; %d in %s (`%s NAIROBI_SEED=%d`). Load average of a minute: p50 %.1f, max %.1f.",
		began.UTC().Format("2006-01-02 15:04 UTC"), Machine(), len(results), time.Since(began).Round(time.Second), command, seed,
		quantile(loads, 0.5).Seconds(), quantile(loads, 1).Seconds())
	if incomplete > 0 {
		text += fmt.Sprintf(" Of %d not every part could be done, for example because the operator was quicker; they count all the same.", incomplete)
	}
	return text + " Times are in seconds. " + legend + "\n"
}
