package olm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// left are templates of OLM's chart that the lab has no use for: it has no enforcement of network policies, no cert-manager,
// no OpenShift, no Prometheus operator, and no internet for the community's catalog.
var left = []string{
	"0000_50_olm_01-networkpolicies.yaml", "0000_50_olm_04-cert-manager.yaml", "0000_50_olm_17-upstream-operators.catalogsource.yaml",
	"0000_50_olm_99-operatorstatus.yaml", "0000_90_olm_00-service-monitor.yaml", "0000_90_olm_01-prometheus-rule.yaml",
}

// values are what is passed to a chart's templates, and what is under each name of it.
type values = map[string]any

// renderChart renders the chart in OLM's own source tree, with its values for upstream and ours on top. The chart needs a
// small part of what Helm offers its templates; a template that asks for more fails.
func renderChart(source, version string, ours values) (string, error) {
	merged, err := chartValues(source, ours)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(source, "deploy", "chart", "templates", "*"))
	if err != nil {
		return "", err
	}
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	if root, err = root.ParseFiles(files...); err != nil {
		return "", fmt.Errorf("read OLM's chart: %w", err)
	}
	var out bytes.Buffer
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") || slices.Contains(left, name) {
			continue
		}
		out.WriteString("\n---\n")
		data := values{"Values": merged, "Chart": values{"Name": "olm", "Version": version}}
		if err := root.ExecuteTemplate(&out, name, data); err != nil {
			return "", fmt.Errorf("render %s of OLM's chart: %w", name, err)
		}
	}
	return out.String(), nil
}

func chartValues(source string, ours values) (values, error) {
	merged := values{}
	for _, file := range []string{"deploy/chart/values.yaml", "deploy/upstream/values.yaml"} {
		text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(file))) //nolint:gosec // a file of the pinned module
		if err != nil {
			return nil, fmt.Errorf("read OLM's values: %w", err)
		}
		var one values
		if err := yaml.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("read OLM's values: %w", err)
		}
		merge(merged, one)
	}
	merge(merged, ours)
	return merged, nil
}

// merge puts what is in over into base, object by object.
func merge(base, over values) {
	for name, value := range over {
		inner, isObject := value.(values)
		present, wasObject := base[name].(values)
		if isObject && wasObject {
			merge(present, inner)
			continue
		}
		base[name] = value
	}
}

// functions are those of Helm that the chart calls.
func functions(root *template.Template) template.FuncMap {
	indent := func(by int, text string) string {
		pad := strings.Repeat(" ", by)
		return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
	}
	return template.FuncMap{
		"indent":  indent,
		"nindent": func(by int, text string) string { return "\n" + indent(by, text) },
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"quote":      func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
		"trunc":      func(length int, text string) string { return text[:min(length, len(text))] },
		"default": func(fallback, value any) any {
			if value == nil || value == "" {
				return fallback
			}
			return value
		},
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	}
}
