package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/internal/alerts"
)

// severities returns those of all alerts, by name.
func severities(t *testing.T) map[string]string {
	t.Helper()
	data, err := yaml.Marshal(alerts.All())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule.Labels["severity"]
			if url := rule.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/runbooks/"+rule.Alert+".md") {
				t.Errorf("%s leads to %s", rule.Alert, url)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestEveryAlertHasARunbook, every runbook its alert, and the table of them a row for each.
func TestEveryAlertHasARunbook(t *testing.T) {
	table, _, _ := strings.Cut(read(t, "runbooks/README.md"), "\n## ") // a later one has what a run on the lab saw
	all := severities(t)
	pages, err := filepath.Glob("runbooks/MySQL*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); all[name] == "" {
			t.Errorf("%s is about an alert that does not exist", page)
		}
	}
	if rows := strings.Count(table, "\n| [MySQL"); rows != len(all) {
		t.Errorf("the table has %d rows for %d alerts", rows, len(all))
	}
	for name, severity := range all {
		if !strings.Contains(table, fmt.Sprintf("\n| [%s](%s.md) | %s | ", name, name, severity)) {
			t.Errorf("the table has no row for %s, %s", name, severity)
		}
		page := read(t, filepath.Join("runbooks", name+".md"))
		if !strings.HasPrefix(page, "# "+name+"\n\nSeverity: "+severity+". Fires ") {
			t.Errorf("the page of %s does not begin with its name and severity", name)
		}
		var sections []string
		for _, section := range regexp.MustCompile(`(?m)^## (.*)\n\n(\S)?`).FindAllStringSubmatch(page, -1) {
			if section[2] == "" {
				t.Errorf("%s: section %s is empty", name, section[1])
			}
			sections = append(sections, section[1])
		}
		if want := []string{"Meaning", "Impact", "Diagnosis", "Mitigation", "Escalation"}; !slices.Equal(sections, want) {
			t.Errorf("%s has the sections %v, want %v", name, sections, want)
		}
	}
}

// TestRunbooksUseNamesThatExist: commands, kinds, conditions, annotations and labels.
func TestRunbooksUseNamesThatExist(t *testing.T) {
	constants, kinds := read(t, constants), read(t, "../config/crd/bases/mysql.alx.ke_mysqlclusters.yaml")+read(t, "../config/crd/bases/mysql.alx.ke_mysqlbackups.yaml")
	known := func(page, what, text, in string) {
		if !strings.Contains(in, text) {
			t.Errorf("%s: there is no %s %s", page, what, text)
		}
	}
	for name := range severities(t) {
		page := read(t, filepath.Join("runbooks", name+".md"))
		for _, match := range regexp.MustCompile(`mysql\.alx\.ke/([a-zA-Z-]+)`).FindAllStringSubmatch(page, -1) {
			known(name, "annotation, label or tag", `Prefix + "`+match[1]+`"`, constants)
		}
		for _, match := range regexp.MustCompile(`@\.type=="([A-Za-z]+)"`).FindAllStringSubmatch(page, -1) {
			known(name, "condition", ` = "`+match[1]+`"`, constants)
		}
		for _, match := range regexp.MustCompile(`\bnmy[a-z]+`).FindAllString(page, -1) {
			known(name, "short name", "    - "+match+"\n", kinds)
		}
		for _, match := range regexp.MustCompile("(?:nmysql.*\\.|`)(?:status|spec)\\.([a-zA-Z]+)").FindAllStringSubmatch(page, -1) {
			known(name, "field", match[1]+":\n", kinds)
		}
		for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(page, -1) {
			for command := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
				if !strings.HasPrefix(command, "kubectl ") && !strings.HasPrefix(command, "aws ") {
					t.Errorf("%s: %q is no command of kubectl or aws", name, command)
				}
			}
		}
	}
}
