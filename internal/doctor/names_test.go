package doctor

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// TestDocsHaveEveryCheck, in the order in which they run.
func TestDocsHaveEveryCheck(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?s)## The checks\n(.*?)\n## ").FindSubmatch(text)
	if section == nil {
		t.Fatal("docs/doctor.md has no section with the checks")
	}
	var documented, all []string
	for _, row := range regexp.MustCompile("(?m)^[|] `([a-z0-9-]+)` [|]").FindAllSubmatch(section[1], -1) {
		documented = append(documented, string(row[1]))
	}
	for _, c := range installation {
		all = append(all, c.name)
	}
	for _, c := range slices.Concat(ofAccount, ofCluster) {
		all = append(all, c.name)
	}
	if !slices.Equal(documented, all) {
		t.Errorf("docs/doctor.md has\n%v\nthe checks are\n%v", documented, all)
	}
	sample := regexp.MustCompile("(?m)^([0-9]+) checks: ").FindSubmatch(text)
	if want := strconv.Itoa(len(all) - len(spending)); sample == nil || string(sample[1]) != want {
		t.Errorf("the sample of docs/doctor.md has the summary %q, but without --spend a cluster gets %s checks", sample, want)
	}
}

// TestProblemsHaveChecks: each part of the preflight has a check that runs, and says what it looked at.
func TestProblemsHaveChecks(t *testing.T) {
	for _, row := range preflightChecks {
		if !slices.ContainsFunc(ofCluster, func(c clusterCheck) bool { return c.name == row.check }) {
			t.Errorf("no check %s reports %s", row.check, row.field)
		}
	}
	for name := range shown {
		if !slices.ContainsFunc(ofCluster, func(c clusterCheck) bool { return c.name == name }) {
			t.Errorf("there is no check %s", name)
		}
	}
}
