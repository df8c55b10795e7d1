// Package alerts has the alerts on clusters and on the operator, as rules for Prometheus.
package alerts

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
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

// All returns the rules for all clusters and for the operator, as the content of a file of rules or the spec of a PrometheusRule.
func All() map[string]any {
	return render(strings.NewReplacer(","+clusterPlaceholder, "", clusterPlaceholder, ""), func(string) bool { return true })
}

// OfCluster returns the spec of a PrometheusRule with the rules of All that are about clusters, for one cluster.
func OfCluster(namespace, cluster string) map[string]any {
	labels := fmt.Sprintf("namespace=%q,cluster=%q", namespace, cluster)
	return render(strings.NewReplacer(clusterPlaceholder, labels), func(expr string) bool { return strings.Contains(expr, clusterPlaceholder) })
}

// render returns the rules whose expressions are wanted, with their placeholders filled in. Groups without rules are left out.
func render(fill *strings.Replacer, wanted func(expr string) bool) map[string]any {
	file := runtime.DeepCopyJSON(template())
	file["groups"] = slices.DeleteFunc(file["groups"].([]any), func(g any) bool {
		group := g.(map[string]any)
		kept := slices.DeleteFunc(group["rules"].([]any), func(r any) bool {
			rule := r.(map[string]any)
			expr := rule["expr"].(string)
			rule["expr"] = fill.Replace(expr)
			return !wanted(expr)
		})
		group["rules"] = kept
		return len(kept) == 0
	})
	return file
}

// template returns rules.yaml with the pages of the alerts and the named reasons. It must not be changed.
var template = sync.OnceValue(func() map[string]any {
	var file map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(rules, namedPlaceholder, named())), &file); err != nil {
		panic("internal/alerts: rules.yaml: " + err.Error()) // it is part of the program
	}
	for _, group := range file["groups"].([]any) {
		for _, r := range group.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			rule["annotations"].(map[string]any)["runbook_url"] = fmt.Sprintf("%s%s.md", runbooks, rule["alert"])
		}
	}
	return file
})

// named returns the reasons that alerts name, as an alternative of a regular expression.
func named() string {
	var reasons []string
	for _, match := range namedReasons.FindAllStringSubmatch(rules, -1) {
		reasons = append(reasons, strings.Split(match[1], "|")...)
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), "|")
}
