// Command exporter exports the metrics of one cluster's members, and prints their logs: what the pod of <name>-metrics runs.
//
// It is a program of its own, beside the manager in the same image, because each monitored cluster has one running: with the manager's
// packages for Kubernetes and AWS in it, it would take three times the memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/logs"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run exports until the pod is ended, and returns the exit code. Logs go to entries, what the exporter has to say to output.
func run(arguments []string, entries, output io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	address, o, l, err := parseFlags(arguments, output)
	if err != nil {
		fmt.Fprintln(output, "exporter:", err)
		return 2
	}
	o.Clock, o.Logger = clock.RealClock{}, logr.FromSlogHandler(slog.NewJSONHandler(output, nil))
	l.Clock, l.Logger, l.Output = clock.RealClock{}, o.Logger, entries
	shipper, err := logs.New(l)
	if err != nil {
		fmt.Fprintln(output, "exporter:", err)
		return 2
	}
	var shipping sync.WaitGroup
	shipping.Go(func() { shipper.Run(ctx) })
	err = serve(ctx, address, o)
	stop()
	shipping.Wait()
	if err != nil {
		o.Logger.Error(err, "the exporter stops")
		return 1
	}
	return 0
}

// parseFlags returns where to serve, what, and which logs to print.
func parseFlags(arguments []string, output io.Writer) (address string, o exporter.Options, l logs.Options, err error) {
	var members, collectors, kinds, port, tls string
	set := flag.NewFlagSet("exporter", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&address, "bind-address", ":9104", "Where metrics are served.")
	set.StringVar(&o.Namespace, "namespace", "", "Namespace of the cluster.")
	set.StringVar(&o.Cluster, "cluster", "", "Name of the cluster.")
	set.StringVar(&members, "members", "", "Names of its members, with commas between them.")
	set.StringVar(&port, "port", "3306", "Port of the members.")
	set.StringVar(&collectors, "collectors", "", "Names of spec.monitoring.collectors, with commas between them.")
	set.StringVar(&kinds, "logs", "", "Names of spec.monitoring.logs, with commas between them.")
	set.StringVar(&tls, "tls", ".", "Directory with ca.crt, tls.crt and tls.key.")
	if err := set.Parse(arguments); err != nil {
		return "", o, l, err
	}
	if set.NArg() > 0 || o.Namespace == "" || o.Cluster == "" || members == "" {
		return "", o, l, errors.New("give --namespace, --cluster and --members, as --name=value, and no other arguments")
	}
	for _, name := range strings.Split(members, ",") {
		host := name + "." + o.Cluster + "." + o.Namespace + ".svc"
		o.Members = append(o.Members, exporter.Member{Name: name, Endpoint: mysql.Endpoint{Key: name, Address: net.JoinHostPort(host, port), ServerName: host}})
	}
	comma := func(r rune) bool { return r == ',' }
	o.Collectors = strings.FieldsFunc(collectors, comma)
	o.Identity = func() (mysql.Identity, error) { return conn.ReadIdentity(tls) }
	l = logs.Options{Namespace: o.Namespace, Cluster: o.Cluster, Members: o.Members, Logs: strings.FieldsFunc(kinds, comma), Identity: o.Identity}
	return address, o, l, nil
}

// serve serves until ctx ends.
func serve(ctx context.Context, address string, o exporter.Options) error {
	e, err := exporter.New(o)
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the metrics: %w", err)
	}
	o.Logger.Info("exporting metrics", "version", version, "address", listener.Addr().String(), "cluster", o.Namespace+"/"+o.Cluster)
	return e.Serve(ctx, listener)
}
