package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/doctor"
	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// commandDoctor is the subcommand that checks an installation.
const commandDoctor = "doctor"

// Exit codes of the doctor.
const (
	exitWell   = 0
	exitFailed = 1
	exitUsage  = 2
)

// names are the values of a flag that may be given several times.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(value string) error {
	*n = append(*n, value)
	return nil
}

// doctorFlags are what the command line of the doctor says.
type doctorFlags struct {
	operator  manager.Options
	what      doctor.Options
	clusters  names
	manifests names
	output    string
}

// parseDoctorFlags has the flags of the operator that lead to Kubernetes and AWS, so that the doctor runs with the same.
func parseDoctorFlags(arguments []string, errors io.Writer) (doctorFlags, error) {
	var f doctorFlags
	set := flag.NewFlagSet(commandDoctor, flag.ContinueOnError)
	set.SetOutput(errors)
	set.StringVar(&f.what.Namespace, "namespace", "", "Check the clusters of this namespace only.")
	set.Var(&f.clusters, "cluster", "Check this cluster only, NAME or NAMESPACE/NAME. May be given several times.")
	set.Var(&f.manifests, "manifest", "Check the MySQLClusters of this file too, which need not be applied; - is the standard input. May be given several times.")
	set.StringVar(&f.output, "output", "text", "text or json.")
	set.BoolVar(&f.what.Spend, "spend", false, "Allow probes that cost at most 0.05 USD: a volume of 1 GiB and an empty object, both removed again.")
	set.StringVar(&f.operator.Namespace, "system-namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), v1alpha1.SystemNamespace), "Namespace of the operator.")
	set.StringVar(&f.operator.AWSRegion, "aws-region", os.Getenv("AWS_REGION"), "As the operator's flag of that name; also the region that is checked when there is no cluster.")
	set.StringVar(&f.operator.AWSEndpoint, "aws-endpoint", "", "As the operator's flag of that name.")
	set.StringVar(&f.operator.WebhookCertificates, "webhook-certs", webhook.CertificatesSelf, "As the operator's flag of that name: self, external or none.")
	if err := set.Parse(arguments); err != nil {
		return f, err
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unknown argument %q: write flags as --name=value", set.Arg(0))
	case f.output != "text" && f.output != "json":
		return f, fmt.Errorf("--output %q: there are text and json", f.output)
	}
	f.what.Clusters = f.clusters
	f.what.Webhook = f.operator.WebhookCertificates != webhook.CertificatesNone
	f.what.OwnCertificates = f.operator.WebhookCertificates == webhook.CertificatesSelf
	for _, file := range f.manifests {
		clusters, err := readManifest(file)
		if err != nil {
			return f, fmt.Errorf("--manifest %s: %w", file, err)
		}
		f.what.Manifests = append(f.what.Manifests, clusters...)
	}
	return f, nil
}

func readManifest(name string) ([]v1alpha1.MySQLCluster, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // whoever runs it names it
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return doctor.ReadManifest(in)
}

// runDoctor checks the installation and returns the exit code: 1 when something failed, 2 when it could not be asked for.
func runDoctor(ctx context.Context, arguments []string, build manager.Build, out, errors io.Writer) int {
	f, err := parseDoctorFlags(arguments, errors)
	if err != nil {
		fmt.Fprintln(errors, "doctor:", err)
		return exitUsage
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		fmt.Fprintln(errors, "find the API server:", err)
		return exitUsage
	}
	f.operator.Build = build
	d, err := manager.NewDoctor(config, f.operator, f.what)
	if err != nil {
		fmt.Fprintln(errors, err)
		return exitFailed
	}
	report := d.Run(ctx)
	write := report.WriteText
	if f.output == "json" {
		write = report.WriteJSON
	}
	if err := write(out); err != nil {
		fmt.Fprintln(errors, "write the report:", err)
		return exitFailed
	}
	if report.Failed > 0 || ctx.Err() != nil {
		return exitFailed
	}
	return exitWell
}
