package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocsFollowTheTable holds docs/settings.md to the table.
func TestDocsFollowTheTable(t *testing.T) {
	const path = "../../docs/settings.md"
	if *Update {
		if err := os.WriteFile(path, []byte(table()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != table() {
		t.Errorf("%s is not what internal/settings says: run this test with -update", path)
	}
}

// table is docs/settings.md: every name of every series with what becomes of it.
func table() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, v := range values() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(strings.Fields(v.names), "`, `"), v.words)
	}
	for _, p := range pairs() {
		fmt.Fprintf(&b, "| `%s` beside `%s` | %s |\n", p.ignored, p.other, p.words)
	}
	b.WriteString(beforeReasons)
	var reasons []string
	for _, g := range decisions() {
		if g.reason != "" {
			reasons = append(reasons, g.reason)
			fmt.Fprintf(&b, "| %d | %s | %s |\n", len(reasons), g.class, g.reason)
		}
	}
	b.WriteString(beforeNames)
	for _, name := range everyName() {
		b.WriteString(row(name, reasons))
	}
	return b.String()
}

const introduction = `# Settings of mysqld

Which variables and options of MySQL ` + "`spec.mysqld`" + ` takes. This page is generated from ` + "`internal/settings`" + `: ` + "`go test ./internal/settings -run TestDocs -update`" + `.

- **settable**: persisted on every member with ` + "`SET PERSIST`" + `, so it is in force after a restart, on a new member and after a failover. A dynamic variable counts at once, a static one after a rolling restart, and so do ` + "`replica_parallel_workers`, `replica_pending_jobs_size_max` and `tls_ciphersuites`" + `.
- **at creation**: taken when the cluster is made, and fixed from then on.
- **the operator's** and **refused**: the API server refuses it, with the reason below. The value that an operator's setting has anyway is accepted, with a warning.

A name that is not listed may belong to a component or plug-in. It is accepted with a warning, and each member's mysqld decides.

The names of 9.7 come from a server of that series. Those of 8.4 were compiled by hand from published lists of its options: no server of that series was asked, and how they are set is taken over from 9.7.

## Values

MySQL takes more values than the operator for these.

| setting | value |
| --- | --- |
`

const beforeReasons = `
Sizes are compared with the memory of the instance type and with the volume: see [operations.md](operations.md#settings).

## Reasons

| no. | class | why, and what to do instead |
| --- | --- | --- |
`

const beforeNames = `
## Names

| name | 8.4 | 9.7 | class | no. |
| --- | --- | --- | --- | --- |
`

// everyName is each name that some series knows, once.
func everyName() []string {
	var names []string
	for _, series := range Series {
		names = append(names, Names(series)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func row(name string, reasons []string) string {
	d, _ := Decide(name)
	var b strings.Builder
	fmt.Fprintf(&b, "| `%s` |", name)
	for _, series := range Series {
		fmt.Fprintf(&b, " %s |", manner(series, name))
	}
	number := ""
	if d.Reason != "" {
		number = fmt.Sprint(slices.Index(reasons, d.Reason) + 1)
	}
	fmt.Fprintf(&b, " %s | %s |\n", d.Class, number)
	return b.String()
}

// manner is how the servers of a series take a name, in a word or two.
func manner(series, name string) string {
	fact, known := Facts(series, name)
	switch {
	case !known:
		return "–"
	case !fact.Variable:
		return "option"
	case fact.Scope == "session_only":
		return "session only"
	case fact.Dynamic && fact.Persistable:
		return "dynamic"
	case fact.Dynamic:
		return "dynamic, not persisted"
	case fact.Persistable:
		return "static"
	}
	return "not persisted"
}
