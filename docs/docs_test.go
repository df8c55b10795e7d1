// Package docs_test compares the documents with the code that they speak of.
package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
)

const (
	constants       = "../api/v1alpha1/constants.go"
	eventConstants  = "../api/v1alpha1/events.go"
	backupConstants = "../api/v1alpha1/mysqlbackup_types.go"
)

// mutants are the files with the simulation's mutants.
var mutants = []string{"../internal/simulation/mutants_test.go", "../internal/simulation/certificate_mutants_test.go"}

// parse returns the syntax of a file.
func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// text returns what a string literal says; it is empty for any other expression.
func text(t *testing.T, expression ast.Expr) string {
	t.Helper()
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// stringConstants returns the values of a file's string constants whose names begin with a prefix.
func stringConstants(t *testing.T, path, prefix string) []string {
	t.Helper()
	var values []string
	ast.Inspect(parse(t, path), func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if value := text(t, spec.Values[0]); value != "" {
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("no constant %s… in %s", prefix, path)
	}
	return values
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOperationsHasARowForEverythingTheStatusCanSay(t *testing.T) {
	document := read(t, "operations.md")
	for _, prefix := range []string{"Reason", "Condition", "Phase"} {
		for _, value := range stringConstants(t, constants, prefix) {
			if !strings.Contains(document, "\n| `"+value+"`") {
				t.Errorf("operations.md has no row for the %s %s", strings.ToLower(prefix), value)
			}
		}
	}
}

func TestBackupHasARowForEveryReasonOfAFailure(t *testing.T) {
	_, table, found := strings.Cut(read(t, "backup.md"), "\n## What goes wrong\n")
	if !found {
		t.Fatal("backup.md has no section What goes wrong")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[A-Za-z0-9`, ]+`) \\|").FindAllStringSubmatch(table, -1) {
		for reason := range strings.SplitSeq(row[1], ", ") {
			explained[strings.Trim(reason, "`")] = true
		}
	}
	known := map[string]bool{}
	for _, value := range stringConstants(t, backupConstants, "BackupReason") {
		if known[value] = true; !explained[value] {
			t.Errorf("backup.md has no row for the reason %s", value)
		}
	}
	for reason := range explained {
		if !known[reason] {
			t.Errorf("backup.md explains reason %s, which the code does not know", reason)
		}
	}
}

// update writes into the documents what the code says.
var update = flag.Bool("update", false, "write the schedules of the mutants into invariants.md")

var (
	// verdictRow is the beginning of a row with a mutant and the schedule or the unit test that notices it.
	verdictRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([0-9,]+|`Test[A-Za-z0-9]+`) \\|")
	// thousands finds where a number of at most six digits has its comma.
	thousands = regexp.MustCompile(`^([0-9]{1,3})([0-9]{3})$`)
)

// TestInvariantsHasTheVerdictOnEveryMutant that is not open, with the schedule or the unit test that notices it.
func TestInvariantsHasTheVerdictOnEveryMutant(t *testing.T) {
	const heading = "\n## The verdicts\n"
	rules, table, found := strings.Cut(read(t, "invariants.md"), heading)
	if !found {
		t.Fatal("invariants.md has no section The verdicts")
	}
	told := map[string]string{}
	for _, row := range verdictRow.FindAllStringSubmatch(table, -1) {
		told[row[1]] = row[2]
	}
	noticed := map[string]string{} // by mutant, what notices it as the table writes it
	look := func(node ast.Node) bool {
		composite, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		name, at, open := "", "0", false
		for _, element := range composite.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := pair.Key.(*ast.Ident)
			if !ok {
				return true
			}
			switch key.Name {
			case "name":
				name = text(t, pair.Value)
			case "at":
				if literal, ok := pair.Value.(*ast.BasicLit); ok {
					at = literal.Value
				}
			case "unit":
				_, test, _ := strings.Cut(text(t, pair.Value), " ")
				at = "`" + test + "`"
			case "open":
				open = true
			}
		}
		if name == "" || open {
			return true
		}
		noticed[name] = thousands.ReplaceAllString(at, "$1,$2")
		if told[name] != "" && told[name] != noticed[name] && !*update {
			t.Errorf("invariants.md says that %q notices the mutant %q; the code says %s: run this test with -update", told[name], name, noticed[name])
		}
		return true
	}
	for _, file := range mutants {
		ast.Inspect(parse(t, file), look)
	}
	for name := range told {
		if noticed[name] == "" {
			t.Errorf("invariants.md has a verdict on %q, which is no mutant or is open", name)
		}
	}
	for name := range noticed {
		if told[name] == "" {
			t.Errorf("invariants.md has no verdict on %q: add a row with what notices it and what breaks", name)
		}
	}
	if *update {
		table = verdictRow.ReplaceAllStringFunc(table, func(row string) string {
			name := verdictRow.FindStringSubmatch(row)[1]
			return fmt.Sprintf("| %s | %s |", name, cmp.Or(noticed[name], told[name]))
		})
		if err := os.WriteFile("invariants.md", []byte(rules+heading+table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOperationsHasNoRowForAReasonThatIsGone(t *testing.T) {
	_, table, found := strings.Cut(read(t, "operations.md"), "\n## Reasons\n")
	if !found {
		t.Fatal("operations.md has no section Reasons")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	known := map[string]bool{}
	for _, value := range stringConstants(t, constants, "Reason") {
		known[value] = true
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1) {
		if !known[row[1]] {
			t.Errorf("operations.md explains reason %s, which the code does not know", row[1])
		}
	}
}

func TestOperationsHasARowForEveryEvent(t *testing.T) {
	_, table, found := strings.Cut(read(t, "operations.md"), "\n## Events\n")
	if !found {
		t.Fatal("operations.md has no section Events")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)(?:<phase>)?` \\|").FindAllStringSubmatch(table, -1) {
		explained[row[1]] = true
	}
	for _, value := range stringConstants(t, eventConstants, "Event") {
		if !explained[value] {
			t.Errorf("operations.md has no row for the event %s", value)
		}
		delete(explained, value)
	}
	for reason := range explained {
		t.Errorf("operations.md explains the event %s, which the code does not know", reason)
	}
}

func TestLinksBetweenDocumentsLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	runbooks, err := filepath.Glob("runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range slices.Concat(documents, runbooks, []string{"../README.md", "../CHANGELOG.md"}) {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			target, anchor := filepath.Join(filepath.Dir(document), match[1]), match[2]
			if match[1] == "" {
				target = document
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", document, target)
			} else if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s links to %s#%s: no heading there has this anchor", document, target, anchor)
			}
		}
	}
}

// anchors returns those of a document's headings, as GitHub makes them.
func anchors(t *testing.T, document string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(read(t, document), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return all
}

// TestAWSHasThePoliciesOfTheFiles that the tests and the lab read, byte for byte and in the same number.
func TestAWSHasThePoliciesOfTheFiles(t *testing.T) {
	shown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(read(t, "aws.md"), -1) {
		if strings.Contains(block[1], `"Statement"`) {
			shown[block[1]] = true
		}
	}
	files, err := filepath.Glob("../config/aws/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !shown[read(t, file)] {
			t.Errorf("aws.md does not show %s as it is", file)
		}
	}
	if len(files) == 0 || len(files) != len(shown) {
		t.Errorf("aws.md shows %d policies, config/aws holds %d", len(shown), len(files))
	}
}

// TestConformanceNamesTestsThatExist in the packages that it says.
func TestConformanceNamesTestsThatExist(t *testing.T) {
	rows := 0
	for line := range strings.SplitSeq(read(t, "aws-conformance.md"), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| fact") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		named := regexp.MustCompile("((?:`Test[A-Za-z0-9]+` ?)+)\\(`([a-z0-9/]+)`\\)").FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("no test shows this row: %s", line)
		}
		for _, match := range named {
			files, err := filepath.Glob(filepath.Join("..", match[2], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			var code strings.Builder
			for _, file := range files {
				code.WriteString(read(t, file))
			}
			for _, name := range regexp.MustCompile("Test[A-Za-z0-9]+").FindAllString(match[1], -1) {
				if !strings.Contains(code.String(), "\nfunc "+name+"(t *testing.T)") {
					t.Errorf("aws-conformance.md names %s of %s, which is not there", name, match[2])
				}
			}
		}
	}
	if rows == 0 {
		t.Error("aws-conformance.md has no rows")
	}
}

func TestMakeTargetsInTheDocumentsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets[match[1]] = true
	}
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, "../README.md") {
		for _, match := range regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)").FindAllStringSubmatch(read(t, document), -1) {
			if !targets[match[1]] {
				t.Errorf("%s names `make %s`, which the Makefile does not have", document, match[1])
			}
		}
	}
}

// TestKubectlNamesOurKinds: what is shown to people to type names our kinds as their CRDs do, in documents and in what the tools print.
func TestKubectlNamesOurKinds(t *testing.T) {
	names := map[string]bool{}
	crds, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, path := range crds {
		crd := read(t, path)
		for _, match := range regexp.MustCompile(`(?m)^    (?:- |plural: |singular: )(\w+)$`).FindAllStringSubmatch(crd, -1) {
			names[match[1]] = true
		}
		names[strings.TrimSuffix(filepath.Base(path), ".yaml")] = true
	}
	command := regexp.MustCompile(`kubectl(?: -n \S+)* (?:get|describe|annotate|patch|edit|delete|label|wait|explain) ([a-z.,/-]+)`)
	shown := 0
	for _, root := range []string{"../README.md", ".", "../config", "../internal", "../test"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".go") {
				return err
			}
			for _, match := range command.FindAllStringSubmatch(read(t, path), -1) {
				for kind := range strings.SplitSeq(match[1], ",") {
					kind, _, _ = strings.Cut(kind, "/")
					group, isOurs := strings.CutSuffix(kind, ".mysql.alx.ke")
					if !strings.Contains(group, "mysql") {
						continue
					}
					shown++
					if !names[kind] && (!isOurs || !names[group]) {
						t.Errorf("%s shows %q: kubectl knows no %s", path, match[0], kind)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if shown == 0 {
		t.Error("no command was found")
	}
}

// metricRow is a row of metrics.md.
var metricRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z]+) \\| ?([`a-z_, ]*) \\| (.+) \\|$")

// TestMetricsHasARowForEveryMetricOfMembers and none for another. That real servers export all of them is a test of
// internal/mysql/exporter; those of the operator are compared in internal/manager.
func TestMetricsHasARowForEveryMetricOfMembers(t *testing.T) {
	_, section, found := strings.Cut(read(t, "metrics.md"), "\n## Metrics of members\n")
	if !found {
		t.Fatal("metrics.md has no section Metrics of members")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for part := range strings.SplitSeq(section, "\n### ") {
		collector, _, _ := strings.Cut(part, "\n")
		for _, row := range metricRow.FindAllStringSubmatch(part, -1) {
			documented[row[1]] = strings.Join([]string{strings.Trim(collector, "`"), row[2], strings.ReplaceAll(row[3], "`", ""), row[4]}, " | ")
		}
	}
	exported, err := exporter.Documented()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range exported {
		want := strings.Join([]string{cmp.Or(m.Collector, "Always"), m.Type, strings.Join(m.Labels, ", "), m.Help}, " | ")
		if documented[m.Name] != want {
			t.Errorf("metrics.md says of %s: %q, want %q", m.Name, documented[m.Name], want)
		}
		delete(documented, m.Name)
	}
	for name := range documented {
		t.Errorf("metrics.md has %s, which is not exported", name)
	}
}

// memberRow is a row of the table of status.members, with what each of its columns says.
var memberRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestOperationsHasARowForEveryFieldOfAMember in the order of the type, and none for another.
func TestOperationsHasARowForEveryFieldOfAMember(t *testing.T) {
	_, section, found := strings.Cut(read(t, "operations.md"), "\n## Members\n")
	if !found {
		t.Fatal("operations.md has no section Members")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, fields []string
	for _, row := range memberRow.FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	member := reflect.TypeFor[v1alpha1.MemberStatus]()
	for i := range member.NumField() {
		name, _, _ := strings.Cut(member.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	if !slices.Equal(documented, fields) {
		t.Errorf("operations.md has rows for %v, and a member has the fields %v", documented, fields)
	}
}
