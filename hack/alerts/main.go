// Command alerts writes the alerts as files for those who install them by hand.
//
//	go run ./hack/alerts config/prometheus
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/alerts"
)

const header = "# Written by make generate from internal/alerts/rules.yaml. docs/runbooks has a page for each alert.\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: alerts FOLDER")
		os.Exit(2)
	}
	for name, content := range map[string]any{
		"rules.yaml": alerts.All(),
		"prometheusrule.yaml": map[string]any{
			"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
			"metadata": map[string]any{"namespace": v1alpha1.SystemNamespace, "name": "nairobi-mysql"}, "spec": alerts.All(),
		},
	} {
		data, err := yaml.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), append([]byte(header), data...), 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "alerts: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}
