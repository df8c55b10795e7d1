package controllers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// metricsAreRead: a cluster that runs gets the account when its spec asks for monitoring, and with the certificate of the Secret every
// member is read.
func (w *shop) metricsAreRead() {
	t := w.t
	must(t, kube.Patch(t.Context(), w.cluster.DeepCopy(), client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"monitoring":{}}}`))))
	var secret corev1.Secret
	w.drive(w.o, sqlPatience, func() bool {
		if !w.read("orders-metrics-tls", &secret) {
			return false
		}
		for _, s := range w.running() {
			n, err := s.SQL(t.Context(), "SELECT COUNT(*) FROM mysql.user WHERE User = '"+mysql.MetricsUser+"'")
			must(t, err)
			if strings.TrimSpace(n) != "1" {
				return false
			}
		}
		return true
	})
	o := exporter.Options{
		Namespace: w.cluster.Namespace, Cluster: "orders", Collectors: []string{"InnoDB", "BinaryLogs"}, MemberTimeout: time.Minute, Clock: clock.RealClock{}, Logger: logr.Discard(), Dial: w.farm.Dial,
		Identity: func() (mysql.Identity, error) {
			return mysql.Identity{CAPEM: secret.Data[resources.KeyCA], CertPEM: secret.Data[resources.KeyCertificate], KeyPEM: secret.Data[resources.KeyPrivateKey]}, nil
		},
	}
	for _, s := range w.running() {
		o.Members = append(o.Members, exporter.Member{Name: s.Name, Endpoint: mysql.Endpoint{Key: s.Name, Address: s.Address(), ServerName: s.Name + ".orders." + w.cluster.Namespace + ".svc"}})
	}
	e, err := exporter.New(o)
	must(t, err)
	defer e.Close()
	handler, err := e.Handler()
	must(t, err)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	for _, s := range w.running() {
		for _, name := range []string{"mysql_up", `mysql_exporter_collector_success{cluster="orders",collector="binlog"`, `mysql_exporter_collector_success{cluster="orders",collector="innodb_metrics"`} {
			if !hasOne(string(text), name, s.Name) {
				t.Errorf("%s: no %s 1 among\n%s", s.Name, name, text)
			}
		}
	}
}

// hasOne says whether a sample of a member is 1.
func hasOne(text, name, member string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) && strings.Contains(line, `member="`+member+`"`) && strings.HasSuffix(line, "} 1\n") {
			return true
		}
	}
	return false
}
