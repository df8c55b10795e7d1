package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/logs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// argumentsOfPod are what the Deployment runs the exporter with.
func argumentsOfPod() []string {
	c := &v1alpha1.MySQLCluster{}
	c.Namespace, c.Name = "shop", "orders"
	c.Spec.Monitoring = &v1alpha1.MonitoringSpec{
		Collectors: append(v1alpha1.DefaultMetricsCollectors[:4:4], v1alpha1.CollectErrors), Logs: append(v1alpha1.DefaultMemberLogs[:2:2], v1alpha1.LogGeneral),
	}
	return resources.Metrics(c, c.EffectiveMonitoring(), "operator:1").Spec.Template.Spec.Containers[0].Args
}

// TestPodIsUnderstood: the exporter takes what the Deployment runs it with, every collector of the API among it.
func TestPodIsUnderstood(t *testing.T) {
	arguments := argumentsOfPod()
	address, o, l, err := parseFlags(arguments, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	host := "orders-2.orders.shop.svc"
	want := exporter.Member{Name: "orders-2", Endpoint: mysql.Endpoint{Key: "orders-2", Address: fmt.Sprintf("%s:%d", host, v1alpha1.MySQLPort), ServerName: host}}
	if len(o.Members) != 3 || o.Members[2] != want || address != fmt.Sprintf(":%d", resources.MetricsPort) {
		t.Errorf("it serves %s of %+v", address, o.Members)
	}
	o.Clock, l.Clock = clock.RealClock{}, clock.RealClock{}
	if _, err := logs.New(l); err != nil || len(l.Logs) != 3 {
		t.Errorf("the logs %v: %v", l.Logs, err)
	}
	if _, err := logs.New(logs.Options{Logs: []string{"Audit"}}); err == nil {
		t.Error("a log that does not exist is taken")
	}
	e, err := exporter.New(o)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	o.Collectors = append(o.Collectors, "Tables")
	if _, err := exporter.New(o); err == nil {
		t.Error("a collector that does not exist is taken")
	}
	for _, wrong := range [][]string{nil, {"--namespace=shop", "--cluster=orders"}, append(arguments[:len(arguments):len(arguments)], "orders-3")} {
		if _, _, _, err := parseFlags(wrong, io.Discard); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}

// TestProgramIsSmall: what a pod of each cluster runs takes less than 30 MiB. Connections to members add about 1 MiB each.
func TestProgramIsSmall(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "exporter")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	pod := exec.CommandContext(t.Context(), binary, append(argumentsOfPod(), "--bind-address=127.0.0.1:0")...)
	pod.Env = append(os.Environ(), "GOMEMLIMIT=20MiB", "GOGC=25")
	log, err := pod.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Process.Kill(); _ = pod.Wait() })
	lines, address := bufio.NewScanner(log), ""
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	for range 5 {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || strings.Count(string(text), "\nmysql_up{") != 3 {
			t.Fatalf("%v: %s", err, text)
		}
		time.Sleep(1100 * time.Millisecond)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pod.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("the kernel says nothing of its memory: %s", status)
	}
	used, err := strconv.Atoi(string(found[1]))
	if t.Logf("at most %d KiB", used); err != nil || used > 25<<10 {
		t.Errorf("it takes %d KiB", used)
	}
}
