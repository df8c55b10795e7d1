// Command exporter exports the metrics of one cluster's members: what the pod of <name>-metrics runs.
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
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/exporter"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run exports until the pod is ended, and returns the exit code.
func run(arguments []string, output io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	address, o, err := parseFlags(arguments, output)
	if err != nil {
		fmt.Fprintln(output, "exporter:", err)
		return 2
	}
	o.Clock, o.Logger = clock.RealClock{}, logr.FromSlogHandler(slog.NewJSONHandler(output, nil))
	if err := serve(ctx, address, o); err != nil {
		o.Logger.Error(err, "the exporter stops")
		return 1
	}
	return 0
}

// parseFlags returns where to serve, and what.
func parseFlags(arguments []string, output io.Writer) (address string, o exporter.Options, err error) {
	var members, collectors, port, tls string
	set := flag.NewFlagSet("exporter", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&address, "bind-address", ":9104", "Where metrics are served.")
	set.StringVar(&o.Namespace, "namespace", "", "Namespace of the cluster.")
	set.StringVar(&o.Cluster, "cluster", "", "Name of the cluster.")
	set.StringVar(&members, "members", "", "Names of its members, with commas between them.")
	set.StringVar(&port, "port", "3306", "Port of the members.")
	set.StringVar(&collectors, "collectors", "", "Names of spec.monitoring.collectors, with commas between them.")
	set.StringVar(&tls, "tls", ".", "Directory with ca.crt, tls.crt and tls.key.")
	if err := set.Parse(arguments); err != nil {
		return "", o, err
	}
	if set.NArg() > 0 || o.Namespace == "" || o.Cluster == "" || members == "" {
		return "", o, errors.New("give --namespace, --cluster and --members, as --name=value, and no other arguments")
	}
	for _, name := range strings.Split(members, ",") {
		host := name + "." + o.Cluster + "." + o.Namespace + ".svc"
		o.Members = append(o.Members, exporter.Member{Name: name, Endpoint: mysql.Endpoint{Key: name, Address: net.JoinHostPort(host, port), ServerName: host}})
	}
	o.Collectors = strings.FieldsFunc(collectors, func(r rune) bool { return r == ',' })
	o.Identity = func() (mysql.Identity, error) { return conn.ReadIdentity(tls) }
	return address, o, nil
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
