package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
)

type file struct {
	Groups []struct{ Rules []rule }
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alertsOf returns the alerts of a file of rules, by name.
func alertsOf(t *testing.T, spec any) map[string]rule {
	t.Helper()
	var f file
	if err := yaml.Unmarshal(marshal(t, spec), &f); err != nil {
		t.Fatal(err)
	}
	all := map[string]rule{}
	for _, group := range f.Groups {
		for _, r := range group.Rules {
			if _, twice := all[r.Alert]; twice {
				t.Errorf("%s is there twice", r.Alert)
			}
			all[r.Alert] = r
		}
	}
	return all
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// story is a row of testdata/cases.yaml.
type story struct {
	Alert, Severity, Reason, Fires, Earlier, Says, CalmAt, Interval string
	Series, Calm, Labels                                            map[string]string
}

func (s *story) fill(t *testing.T) {
	t.Helper()
	fires, err := time.ParseDuration(s.Fires)
	if err != nil {
		t.Fatalf("%s: %v", s.Alert, err)
	}
	if s.Reason != "" {
		problem := func(reason string) string {
			return fmt.Sprintf(`mysqlcluster_problem{namespace="shop",cluster="orders",reason=%q}`, reason)
		}
		s.Series = map[string]string{problem(s.Reason): "_ _ 1x120"}
		s.Calm = map[string]string{problem("Reconciling"): "1x120"}
		if pending := int(fires.Minutes()) - 2; pending > 0 {
			s.Calm[problem(s.Reason)] = fmt.Sprintf("_ _ 1x%d stale", pending-1)
		}
	}
	if s.Labels == nil || s.Labels["reason"] != "" {
		reason := s.Labels["reason"]
		s.Labels = map[string]string{"namespace": "shop", "cluster": "orders"}
		if reason != "" {
			s.Labels["reason"] = reason
		}
	}
	if s.Earlier == "" {
		s.Earlier = (fires - time.Minute).String()
	}
	if s.Interval == "" {
		s.Interval = "1m"
	}
	if s.CalmAt == "" {
		s.CalmAt = s.Fires
	}
}

func stories(t *testing.T) []story {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []story
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].fill(t)
	}
	return all
}

// test returns a test for promtool: at each time the alert fires, or is silent.
func (s *story) test(series map[string]string, r rule, at map[string]bool) map[string]any {
	var input, expected []any
	for name, values := range series {
		input = append(input, map[string]any{"series": name, "values": values})
	}
	for when, fires := range at {
		alerts := []any{}
		if fires {
			labels := map[string]string{"severity": s.Severity}
			for name, value := range s.Labels {
				labels[name] = value
			}
			alerts = append(alerts, map[string]any{"exp_labels": labels, "exp_annotations": map[string]string{
				"description": s.Says, "summary": r.Annotations["summary"], "runbook_url": runbooks + s.Alert + ".md",
			}})
		}
		expected = append(expected, map[string]any{"eval_time": when, "alertname": s.Alert, "exp_alerts": alerts})
	}
	return map[string]any{"name": s.Alert, "interval": s.Interval, "input_series": input, "alert_rule_test": expected}
}

// ofAnother returns the series with another cluster's name.
func ofAnother(series map[string]string) map[string]string {
	other := map[string]string{}
	for name, values := range series {
		other[strings.ReplaceAll(name, `cluster="orders"`, `cluster="other"`)] = values
	}
	return other
}

// promtool runs a command of promtool on files in a folder.
func promtool(t *testing.T, folder string, args ...string) {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "../../hack/prometheus.sh", "promtool").Output()
	if err != nil {
		t.Fatalf("get promtool: %v", err)
	}
	command := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), args...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, path string, content any) {
	t.Helper()
	if err := os.WriteFile(path, marshal(t, content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAlertsFire plays a story for each alert to Prometheus' own evaluation: with the rule for all clusters and with that for one, which says
// nothing of another.
func TestAlertsFire(t *testing.T) {
	folder := t.TempDir()
	all, own := alertsOf(t, All()), alertsOf(t, OfCluster("shop", "orders"))
	stage := func(name, interval string, r rule, tests ...any) string {
		rules, file := name+"-rules.yaml", name+"-test.yaml"
		write(t, filepath.Join(folder, rules), map[string]any{"groups": []any{map[string]any{"name": name, "rules": []rule{r}}}})
		write(t, filepath.Join(folder, file), map[string]any{"rule_files": []string{rules}, "evaluation_interval": interval, "tests": tests})
		return file
	}
	played, files := map[string]bool{}, []string{"test", "rules"}
	for i, s := range stories(t) {
		played[s.Alert] = true
		name := fmt.Sprintf("%s-%d", s.Alert, i) // an alert may have several stories
		loud := map[string]bool{s.Earlier: false, s.Fires: true}
		files = append(files, stage(name, s.Interval, all[s.Alert], s.test(s.Series, all[s.Alert], loud), s.test(s.Calm, all[s.Alert], map[string]bool{s.CalmAt: false})))
		if r, has := own[s.Alert]; has {
			files = append(files, stage(name+"-own", s.Interval, r, s.test(s.Series, r, loud), s.test(ofAnother(s.Series), r, map[string]bool{s.Fires: false})))
		}
	}
	for name := range all {
		if !played[name] {
			t.Errorf("no story in testdata/cases.yaml makes %s fire", name)
		}
		if _, has := own[name]; has == strings.HasPrefix(name, "MySQLOperator") {
			t.Errorf("%s is in the rules of one cluster: %v", name, has)
		}
	}
	promtool(t, folder, files...)
}

// TestRulesAreValid by Prometheus' own judgement.
func TestRulesAreValid(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "all.yaml"), All())
	write(t, filepath.Join(folder, "own.yaml"), OfCluster("shop", "orders"))
	promtool(t, folder, "check", "rules", "all.yaml", "own.yaml")
}

// TestAlertsUseMetricsThatExist: a metric that was renamed would leave an alert silent for ever.
func TestAlertsUseMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	exported, err := exporter.Documented()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range exported {
		known[m.Name] = true
	}
	literal := regexp.MustCompile(`"(mysqlcluster_[a-z0-9_]+)"`)
	for _, pattern := range []string{"../cluster/metrics/*.go", "../ec2/awsapi/*.go", "../manager/*.go"} {
		sources, err := filepath.Glob(pattern)
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(sources), err)
		}
		for _, source := range sources {
			if strings.HasSuffix(source, "_test.go") {
				continue
			}
			data, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range literal.FindAllStringSubmatch(string(data), -1) {
				known[match[1]] = true
			}
		}
	}
	for name, r := range alertsOf(t, All()) {
		used := regexp.MustCompile(`\bmysql[a-z0-9_]*`).FindAllString(r.Expr, -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", name)
		}
		for _, metric := range used {
			if !known[metric] {
				t.Errorf("%s uses %s, which nobody exports", name, metric)
			}
		}
		if without := regexp.MustCompile(`\bmysql[a-z0-9_]*[^a-z0-9_{]`).FindString(r.Expr); without != "" {
			t.Errorf("%s: %q has no braces, so that the rules of one cluster would use the figures of all", name, without)
		}
	}
}

// TestAlertsNameReasonsThatExist: the same for the reasons of a problem.
func TestAlertsNameReasonsThatExist(t *testing.T) {
	data, err := os.ReadFile("../../api/v1alpha1/constants.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range alertsOf(t, All()) {
		for _, match := range regexp.MustCompile(`reason(?:=|=~|!~)"([^"]*)"`).FindAllStringSubmatch(r.Expr, -1) {
			for reason := range strings.SplitSeq(match[1], "|") {
				if !strings.Contains(string(data), `= "`+reason+`"`) {
					t.Errorf("%s waits for the reason %s, which the operator does not have", name, reason)
				}
			}
		}
	}
}

// TestRulesOfAClusterAreItsOwn: whoever changes what it was given changes nobody else's.
func TestRulesOfAClusterAreItsOwn(t *testing.T) {
	want := string(marshal(t, OfCluster("shop", "orders")))
	first := OfCluster("shop", "orders")
	first["groups"].([]any)[0].(map[string]any)["rules"] = nil
	OfCluster("shop", "other")
	if got := string(marshal(t, OfCluster("shop", "orders"))); got != want {
		t.Error("the rules of a cluster have changed")
	}
}
