package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

var boards = []board{fleet, cluster, member, backups}

// TestExpressionsAreValid by Prometheus' own judgement.
func TestExpressionsAreValid(t *testing.T) {
	var rules []any
	for _, b := range boards {
		for _, q := range b.all() {
			rules = append(rules, map[string]any{"record": fmt.Sprintf("panel:%d", len(rules)), "expr": insights.Fill(q)})
		}
	}
	content, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool, err := exec.CommandContext(t.Context(), "../prometheus.sh", "promtool").Output()
	if err != nil {
		t.Fatalf("get promtool: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(promtool)), "check", "rules", "--lint=none", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPanelsShowMetricsThatExist: every metric is in docs/metrics.md, but for Prometheus' own.
func TestPanelsShowMetricsThatExist(t *testing.T) {
	docs, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`\b(mysql[a-z0-9_]*|process_[a-z_]+|ALERTS)\b`)
	for _, b := range boards {
		seen := 0
		for _, q := range b.all() {
			for _, name := range metric.FindAllString(q, -1) {
				seen++
				known := strings.Contains(string(docs), "`"+strings.TrimSuffix(name, "_bucket")+"`")
				if !known && !slices.Contains([]string{"ALERTS", "process_resident_memory_bytes"}, name) {
					t.Errorf("%s: no metric %s", b.title, name)
				}
			}
		}
		if seen < 10 {
			t.Errorf("%s: %d metrics found, so this test looks at the wrong thing", b.title, seen)
		}
	}
}

// TestPanelsCanBeRead: each says in a sentence what it shows, and no row is wider than the page.
func TestPanelsCanBeRead(t *testing.T) {
	for _, b := range boards {
		for _, r := range b.rows {
			line := uint32(0)
			for _, p := range r.panels {
				if !strings.HasSuffix(p.description, ".") {
					t.Errorf("%s, %q says %q", b.title, p.title, p.description)
				}
				if line+p.span() > 24 {
					t.Errorf("%s, %q does not fit beside what is left of it", b.title, p.title)
				}
				line = (line + p.span()) % 24
			}
		}
	}
}

// all returns the expressions of a dashboard.
func (b board) all() []string {
	var all []string
	for _, v := range b.variables {
		all = append(all, v.metric)
	}
	for _, r := range b.rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				all = append(all, q.expr)
			}
		}
	}
	return all
}
