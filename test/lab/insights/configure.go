package insights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// settings are the files of Prometheus and of Alertmanager, and who finds what Prometheus scrapes, by the name of the job.
type settings struct {
	prometheus, alertmanager []byte
	found                    map[string]finder
}

// monitor is what counts of a ServiceMonitor's or PodMonitor's spec.
type monitor struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Endpoints           []endpoint `json:"endpoints"`
	PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints"`
}

type endpoint struct {
	Port            string `json:"port"`
	Path            string `json:"path"`
	Scheme          string `json:"scheme"`
	HonorLabels     bool   `json:"honorLabels"`
	ScrapeTimeout   string `json:"scrapeTimeout"`
	BearerTokenFile string `json:"bearerTokenFile"`
	TLSConfig       struct {
		InsecureSkipVerify bool `json:"insecureSkipVerify"`
	} `json:"tlsConfig"`
}

// configure makes the settings: the rules in the folder, and a job for each shipped monitor. Alerts are sent at once, to
// the address that also says what there is to scrape.
func configure(lab *deploy.Lab, folder, url string, o Options) (settings, error) {
	file, err := os.ReadFile(filepath.Join(lab.Root, "config", "prometheus", "monitor.yaml"))
	if err != nil {
		return settings{}, err
	}
	shipped := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(file, &shipped.Object); err != nil {
		return settings{}, err
	}
	var operator, members monitor
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(shipped.Object["spec"].(map[string]any), &operator); err != nil {
		return settings{}, err
	}
	made := resources.PodMonitor(&v1alpha1.MySQLCluster{}, &v1alpha1.MonitoringSpec{Interval: &metav1.Duration{Duration: o.Members}})
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object["spec"].(map[string]any), &members); err != nil {
		return settings{}, err
	}
	delete(members.Selector.MatchLabels, v1alpha1.LabelCluster) // one job for the pods of all clusters

	s := settings{found: map[string]finder{
		"operator": endpointsOf(lab, operator.Selector.MatchLabels, operator.Endpoints[0].Port),
		"members":  podsOf(lab, members.Selector.MatchLabels, members.PodMetricsEndpoints[0].Port),
	}}
	s.prometheus, err = yaml.Marshal(map[string]any{
		"global":     map[string]any{"evaluation_interval": o.Interval.String()},
		"rule_files": []string{filepath.Join(folder, rulesFile)},
		"alerting":   map[string]any{"alertmanagers": []any{map[string]any{"static_configs": []any{map[string]any{"targets": []string{alertmanagerAddress}}}}}},
		"scrape_configs": []any{
			job("operator", operator.Endpoints[0], url, folder, o.Interval),
			job("members", members.PodMetricsEndpoints[0], url, folder, o.Members),
		},
	})
	if err != nil {
		return settings{}, err
	}
	s.alertmanager, err = yaml.Marshal(map[string]any{
		"route":     map[string]any{"receiver": "page", "group_by": []string{"..."}, "group_wait": "0s", "group_interval": "1s", "repeat_interval": "24h"},
		"receivers": []any{map[string]any{"name": "page", "webhook_configs": []any{map[string]any{"url": url + alertsPath, "send_resolved": true}}}},
	})
	return s, err
}

// job scrapes what is found for it as a monitor's endpoint says, and waits for an answer until it is due again.
func job(name string, e endpoint, url, folder string, interval time.Duration) map[string]any {
	made := map[string]any{
		"job_name": name, "scrape_interval": interval.String(), "scrape_timeout": interval.String(), "honor_labels": e.HonorLabels, "metrics_path": e.Path,
		"http_sd_configs": []any{map[string]any{"url": url + targetsPath + name, "refresh_interval": Interval.String()}},
	}
	if e.Scheme != "" {
		made["scheme"] = e.Scheme
	}
	if e.BearerTokenFile != "" {
		made["authorization"] = map[string]any{"credentials_file": filepath.Join(folder, "token")}
		made["tls_config"] = map[string]any{"insecure_skip_verify": e.TLSConfig.InsecureSkipVerify}
	}
	return made
}

// Fill gives the variables of a dashboard's expression their values: all that there is.
func Fill(expr string) string {
	const window = "1m"
	return strings.NewReplacer(
		"$namespace", ".+", "$cluster", ".+", "$member", ".+", "$__rate_interval", window, "$__interval", window, "$__range", window,
	).Replace(expr)
}

// Query is an expression of a panel.
type Query struct{ Dashboard, Panel, Expr string }

// String names the query for a person.
func (q Query) String() string { return fmt.Sprintf("%s, %q: %s", q.Dashboard, q.Panel, q.Expr) }

// Queries returns all expressions of the shipped dashboards.
func Queries(root string) ([]Query, error) {
	files, err := filepath.Glob(filepath.Join(root, "config", "grafana", "*.json"))
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var board struct {
			Title  string `json:"title"`
			Panels []struct {
				Title   string `json:"title"`
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		if err := yaml.Unmarshal(data, &board); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, Query{board.Title, panel.Title, target.Expr})
			}
		}
	}
	return queries, nil
}
