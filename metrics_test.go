package main

import (
	"io"
	"testing"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// TestMetricsPodIsUnderstood: the exporter takes what the Deployment runs it with, every collector of the API among it.
func TestMetricsPodIsUnderstood(t *testing.T) {
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = "shop", "orders"
	c.Spec.Monitoring = &v1alpha1.MonitoringSpec{Collectors: append(v1alpha1.DefaultMetricsCollectors, v1alpha1.CollectErrors)}
	arguments := resources.Metrics(c, c.EffectiveMonitoring(), "operator:1").Spec.Template.Spec.Containers[0].Args
	if arguments[0] != resources.CommandMetrics {
		t.Fatalf("the pod runs %v", arguments)
	}
	f, err := parseMetricsFlags(arguments[1:], io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	host := "orders-2.orders.shop.svc"
	want := exporter.Member{Name: "orders-2", Endpoint: mysql.Endpoint{Key: "orders-2", Address: host + ":3306", ServerName: host}}
	if len(f.options.Members) != 3 || f.options.Members[2] != want || f.address != ":9104" {
		t.Errorf("it serves %s of %+v", f.address, f.options.Members)
	}
	f.options.Clock = clock.RealClock{}
	e, err := exporter.New(f.options)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	f.options.Collectors = append(f.options.Collectors, "Tables")
	if _, err := exporter.New(f.options); err == nil {
		t.Error("a collector that does not exist is taken")
	}
	for _, wrong := range [][]string{nil, {"--namespace=shop", "--cluster=orders"}, append(arguments[1:len(arguments):len(arguments)], "orders-3")} {
		if _, err := parseMetricsFlags(wrong, io.Discard); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}
