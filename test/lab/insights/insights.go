// Package insights runs Prometheus and Alertmanager in the network of the lab's node, as they run in a cluster: with the shipped alerts, and
// with the settings by which the shipped monitors have prometheus-operator scrape.
package insights

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// Interval is how often everything is scraped, and the rules are evaluated.
const Interval = 5 * time.Second

const (
	// startTimeout bounds the start of Prometheus and of Alertmanager, each.
	startTimeout = time.Minute
	// namespace and account are Prometheus' own; docs/install.md says which right the account needs.
	namespace = "monitoring"
	account   = "prometheus"
	// tokenSeconds is how long the account's token is valid.
	tokenSeconds = 24 * 3600

	rulesFile = "rules.yml"

	prometheusAddress   = kube.NodeAddress + ":9090"
	alertmanagerAddress = kube.NodeAddress + ":9093"
)

// Watch is a running Prometheus with its Alertmanager.
type Watch struct {
	api      v1.API
	began    time.Time
	programs []*host.Attended
	folder   string
	pages    *pages
}

// Options say what is watched by.
type Options struct {
	// Rules are the alerts, as a file of rules; nil for config/prometheus/rules.yaml.
	Rules []byte
	// Interval is how often the operator is scraped and the rules are evaluated, and Members how often the members are; 0 for Interval. A
	// member that does not answer costs a scrape its five seconds.
	Interval, Members time.Duration
}

// Start starts both, and returns when they answer. Their files are in a folder of their own, which Close removes.
func Start(ctx context.Context, lab *deploy.Lab, o Options) (w *Watch, err error) {
	w = &Watch{began: time.Now()}
	if o.Rules == nil {
		if o.Rules, err = os.ReadFile(filepath.Join(lab.Root, "config", "prometheus", "rules.yaml")); err != nil {
			return w, err
		}
	}
	o.Interval, o.Members = cmp.Or(o.Interval, Interval), cmp.Or(o.Members, Interval)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if w.folder, err = os.MkdirTemp("", "nairobi-insights-"); err != nil {
		return w, err
	}
	token, err := permit(ctx, lab)
	if err != nil {
		return w, fmt.Errorf("permit Prometheus to read metrics: %w", err)
	}
	if w.pages, err = listen(ctx, kube.HostAddress+":0"); err != nil {
		return w, err
	}
	settings, err := configure(lab, w.folder, w.pages.url(), o)
	if err != nil {
		return w, err
	}
	w.pages.serve(settings.found)
	for name, content := range map[string][]byte{"token": []byte(token), rulesFile: o.Rules, "prometheus.yml": settings.prometheus, "alertmanager.yml": settings.alertmanager} {
		if err := os.WriteFile(filepath.Join(w.folder, name), content, 0o600); err != nil {
			return w, err
		}
	}
	for _, program := range []struct {
		name, address string
		args          []string
	}{
		{"prometheus-alertmanager", alertmanagerAddress, []string{
			"--config.file=" + filepath.Join(w.folder, "alertmanager.yml"), "--storage.path=" + filepath.Join(w.folder, "alerts"), "--cluster.listen-address=",
		}},
		{"prometheus", prometheusAddress, []string{
			"--config.file=" + filepath.Join(w.folder, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(w.folder, "data"),
		}},
	} {
		if err := w.run(ctx, lab, program.name, program.address, program.args); err != nil {
			return w, fmt.Errorf("start %s: %w", program.name, err)
		}
	}
	client, err := api.NewClient(api.Config{Address: "http://" + prometheusAddress})
	if err != nil {
		return w, err
	}
	w.api = v1.NewAPI(client)
	return w, nil
}

// permit gives Prometheus' account the right to read the operator's metrics, as docs/install.md says, and returns a token of it.
func permit(ctx context.Context, lab *deploy.Lab) (string, error) {
	_, err := lab.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for _, command := range [][]string{
		{"create", "serviceaccount", account, "--namespace=" + namespace},
		{"create", "clusterrole", "nairobi-mysql-metrics-reader", "--verb=get", "--non-resource-url=/metrics"},
		{"create", "clusterrolebinding", "nairobi-mysql-metrics-reader", "--clusterrole=nairobi-mysql-metrics-reader", "--serviceaccount=" + namespace + ":" + account},
	} {
		if _, err := lab.Kubectl(ctx, "", command...); err != nil && !strings.Contains(err.Error(), "already exists") {
			return "", err
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
	token, err := lab.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// besideItsShare runs a program that reads files of its package from /usr/share. It may be installed, or only unpacked: then $1 has them.
const besideItsShare = `if [ "$1" != /usr/share ]; then mount -t overlay overlay -o "lowerdir=$1:/usr/share" /usr/share; fi && shift && exec "$@"`

// run starts a program in the node's network and waits until it is ready. It ends with this process, however that ends.
func (w *Watch) run(ctx context.Context, lab *deploy.Lab, name, address string, args []string) error {
	path, err := exec.CommandContext(ctx, filepath.Join(lab.Root, "hack", "prometheus.sh"), name).Output()
	if err != nil {
		return err
	}
	binary := strings.TrimSpace(string(path))
	words := append([]string{"--target", strconv.Itoa(lab.NodePID), "--net", "--",
		"unshare", "--mount", "sh", "-c", besideItsShare, "sh", filepath.Join(filepath.Dir(filepath.Dir(binary)), "share"),
		binary, "--web.listen-address=" + address}, args...)
	program, err := host.Attend(exec.CommandContext(context.WithoutCancel(ctx), "nsenter", words...), filepath.Join(w.folder, name+".log"))
	if err != nil {
		return err
	}
	w.programs = append(w.programs, program)
	return program.Await(ctx, startTimeout, func(ctx context.Context) bool { return answers(ctx, "http://"+address+"/-/ready") })
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// Close ends both and removes their files.
func (w *Watch) Close() error {
	var errs []error
	for _, program := range w.programs {
		program.Kill()
	}
	if w.pages != nil {
		errs = append(errs, w.pages.close())
	}
	return errors.Join(append(errs, os.RemoveAll(w.folder))...)
}

// Value returns the newest value of an expression that has one, and whether it has.
func (w *Watch) Value(ctx context.Context, expr string) (value float64, has bool, err error) {
	answer, _, _, err := w.api.Query(ctx, expr, time.Now())
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", expr, err)
	}
	vector, ok := answer.(model.Vector)
	if !ok || len(vector) != 1 {
		return 0, false, nil
	}
	return float64(vector[0].Value), true, nil
}

// Samples returns how many numbers the answers to an expression have, asked for each step since the start.
func (w *Watch) Samples(ctx context.Context, expr string) (int, error) {
	answer, _, _, err := w.api.QueryRange(ctx, expr, v1.Range{Start: w.began, End: time.Now(), Step: Interval})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	matrix, ok := answer.(model.Matrix)
	if !ok {
		return 0, fmt.Errorf("%s: the answer is a %s", expr, answer.Type())
	}
	samples := 0
	for _, series := range matrix {
		for _, sample := range series.Values {
			if !math.IsNaN(float64(sample.Value)) {
				samples++
			}
		}
	}
	return samples, nil
}

// LongestGap returns the longest time between two samples of a series in the last ten minutes.
func (w *Watch) LongestGap(ctx context.Context, series string) (time.Duration, error) {
	answer, _, _, err := w.api.Query(ctx, series+"[10m]", time.Now())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", series, err)
	}
	matrix, ok := answer.(model.Matrix)
	if !ok || len(matrix) == 0 {
		return 0, fmt.Errorf("%s: there is none", series)
	}
	var longest time.Duration
	for _, one := range matrix {
		for i := 1; i < len(one.Values); i++ {
			longest = max(longest, one.Values[i].Timestamp.Time().Sub(one.Values[i-1].Timestamp.Time()))
		}
	}
	return longest, nil
}

// Fired returns what Alertmanager has sent, in the order in which it began.
func (w *Watch) Fired() []Alert {
	return w.pages.all()
}
