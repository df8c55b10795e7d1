package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// metricsFlags are what the command line of the exporter says.
type metricsFlags struct {
	address string
	options exporter.Options
}

// exportMetrics exports the metrics of a cluster's members until ctx ends, and returns the exit code.
func exportMetrics(ctx context.Context, arguments []string, log logr.Logger, errors io.Writer) int {
	f, err := parseMetricsFlags(arguments, errors)
	f.options.Clock, f.options.Logger = clock.RealClock{}, log
	if err != nil {
		fmt.Fprintln(errors, resources.CommandMetrics+":", err)
		return exitUsage
	}
	if err := serveMetrics(ctx, f); err != nil {
		log.Error(err, "the exporter stops")
		return exitFailed
	}
	return exitWell
}

func parseMetricsFlags(arguments []string, errors io.Writer) (metricsFlags, error) {
	var f metricsFlags
	var members, collectors, tls string
	set := flag.NewFlagSet(resources.CommandMetrics, flag.ContinueOnError)
	set.SetOutput(errors)
	set.StringVar(&f.address, "bind-address", ":"+strconv.Itoa(resources.MetricsPort), "Where metrics are served.")
	set.StringVar(&f.options.Namespace, "namespace", "", "Namespace of the cluster.")
	set.StringVar(&f.options.Cluster, "cluster", "", "Name of the cluster.")
	set.StringVar(&members, "members", "", "Names of its members, with commas between them.")
	set.StringVar(&collectors, "collectors", "", "Names of spec.monitoring.collectors, with commas between them.")
	set.StringVar(&tls, "tls", task.TLSDir, "Directory with ca.crt, tls.crt and tls.key.")
	if err := set.Parse(arguments); err != nil {
		return f, err
	}
	if set.NArg() > 0 || f.options.Namespace == "" || f.options.Cluster == "" || members == "" {
		return f, fmt.Errorf("give --namespace, --cluster and --members, as --name=value, and nothing else")
	}
	for _, name := range strings.Split(members, ",") {
		host := name + "." + f.options.Cluster + "." + f.options.Namespace + ".svc"
		f.options.Members = append(f.options.Members, exporter.Member{Name: name, Endpoint: mysql.Endpoint{
			Key: name, Address: net.JoinHostPort(host, strconv.Itoa(v1alpha1.MySQLPort)), ServerName: host,
		}})
	}
	f.options.Collectors = strings.FieldsFunc(collectors, func(r rune) bool { return r == ',' })
	f.options.Identity = func() (mysql.Identity, error) { return conn.ReadIdentity(tls) }
	return f, nil
}

func serveMetrics(ctx context.Context, f metricsFlags) error {
	e, err := exporter.New(f.options)
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return fmt.Errorf("serve the metrics: %w", err)
	}
	f.options.Logger.Info("exporting metrics", "address", listener.Addr().String(), "cluster", f.options.Namespace+"/"+f.options.Cluster)
	return e.Serve(ctx, listener)
}
