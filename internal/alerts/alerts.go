// Package alerts has the alerts on clusters and on the operator, as rules for Prometheus.
package alerts

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed rules.yaml
var rules string

// runbooks is where the page of each alert is, <alert>.md.
const runbooks = "https://github.com/alx-ke/nairobi-mysql-operator/blob/main/docs/runbooks/"

// The placeholders of rules.yaml.
const (
	clusterPlaceholder = "$cluster"
	namedPlaceholder   = "$named"
)

// namedReasons finds the reasons that an expression names.
var namedReasons = regexp.MustCompile(`[{,]reason=~?"([A-Za-z|]+)"`)

// All returns the groups of rules for all clusters and the operator, in the form of a file of rules: {"groups": [...]}.
func All() map[string]any { return groups("") }

// PrometheusRule returns the object with the rules of one cluster: those of All that are about clusters, for this one alone. It has the
// cluster's name, and neither labels nor an owner yet.
func PrometheusRule(namespace, cluster string) *unstructured.Unstructured {
	return object(namespace, cluster, groups(fmt.Sprintf("namespace=%q,cluster=%q", namespace, cluster)))
}

// PrometheusRuleForAll returns the object with the rules of All.
func PrometheusRuleForAll(namespace, name string) *unstructured.Unstructured {
	return object(namespace, name, All())
}

func object(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// groups returns the rules, for the cluster that the labels select; without labels for all, and those of the operator as well.
func groups(labels string) map[string]any {
	var file map[string]any
	if err := yaml.Unmarshal([]byte(rules), &file); err != nil {
		panic("internal/alerts: rules.yaml: " + err.Error()) // it is part of the program
	}
	all, _ := file["groups"].([]any)
	file["groups"] = slices.DeleteFunc(all, func(group any) bool { return !complete(group.(map[string]any), labels) })
	return file
}

// complete fills in the placeholders of a group's rules and the pages of its alerts. It returns false when no rule is left.
func complete(group map[string]any, labels string) bool {
	fill := strings.NewReplacer(namedPlaceholder, named(), clusterPlaceholder, labels)
	if labels == "" {
		fill = strings.NewReplacer(namedPlaceholder, named(), ","+clusterPlaceholder, "", clusterPlaceholder, "")
	}
	all, _ := group["rules"].([]any)
	all = slices.DeleteFunc(all, func(rule any) bool {
		r := rule.(map[string]any)
		expr := r["expr"].(string)
		r["expr"] = fill.Replace(expr)
		r["annotations"].(map[string]any)["runbook_url"] = fmt.Sprintf("%s%s.md", runbooks, r["alert"])
		return labels != "" && !strings.Contains(expr, clusterPlaceholder)
	})
	group["rules"] = all
	return len(all) > 0
}

// named returns the reasons that alerts name, as an alternative of a regular expression.
func named() string {
	var reasons []string
	for _, match := range namedReasons.FindAllStringSubmatch(rules, -1) {
		reasons = append(reasons, strings.Split(match[1], "|")...)
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), "|")
}
