package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

const (
	// nodeFabricCIDR is the address that pods have for instances: the node's own in the VPC.
	nodeFabricCIDR = "10.77.0.3/32"
	// controlLimit bounds a call of the control API; a fault may wait for a machine to end.
	controlLimit = 2 * time.Minute
	// checkDelay is how long EC2 goes on to call a machine without power healthy. AWS looks once a minute, and wants to
	// see more than one failure.
	checkDelay = 2 * time.Minute
	// answerLimit bounds, in bytes, what is read of an answer; a console is at most 64 KiB.
	answerLimit = 4 << 20
)

// cloudStatus is what a user of the lab's EC2 must know.
type cloudStatus struct {
	EC2Endpoint  string   `json:"ec2Endpoint,omitempty"`
	Region       string   `json:"region,omitempty"`
	VPCID        string   `json:"vpcID,omitempty"`
	SubnetIDs    []string `json:"subnetIDs,omitempty"`
	ImageID      string   `json:"imageID,omitempty"`
	SSMParameter string   `json:"imageSSMParameter,omitempty"`
	MySQLVersion string   `json:"mysqlVersion,omitempty"`
	// NextMySQLVersion is what the image's second build of mysqld calls itself; empty when there is none.
	NextMySQLVersion string `json:"nextMySQLVersion,omitempty"`
	// DownloadSite is the folder of what MySQL's download site has for instances of Amazon Linux; RootFS holds the MySQL to put there.
	DownloadSite string `json:"downloadSite,omitempty"`
	RootFS       string `json:"rootFS,omitempty"`
	// ClientCIDR is where connections of pods come from.
	ClientCIDR string `json:"clientCIDR,omitempty"`
	// Control is the API of instances and their faults, FaultProxy that of the EC2 API's faults.
	Control    string `json:"control,omitempty"`
	FaultProxy string `json:"faultProxy,omitempty"`
}

// cloudCommands are the hidden subcommands through which instances boot.
func cloudCommands() []*cobra.Command { return cloud.Commands() }

// prepareCloud builds the root file systems while the user can see it.
func prepareCloud(ctx context.Context, cfg build.Config, out io.Writer) error {
	for _, name := range []string{rootfs.Moto, rootfs.Instance} {
		if _, err := rootfs.Ensure(ctx, cfg.CacheDir, out, name); err != nil {
			return err
		}
	}
	return nil
}

func clientRootFS(cfg build.Config, log io.Writer) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return rootfs.Ensure(ctx, cfg.CacheDir, log, rootfs.Instance)
	}
}

func (d *daemon) startCloud(ctx context.Context, cfg build.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(d.dir, "cloud")
	if err := d.ledger.MakeDir(dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.dir, "log", "cloud.log"))
	if err != nil {
		return err
	}
	d.cloudLog = log
	return d.status.step("EC2", func() error {
		d.cloud, err = cloud.Start(ctx, cloud.Options{
			Dir: dir, CacheDir: cfg.CacheDir, Ledger: d.ledger, Log: log, Program: self,
			Faults: d.kubeFaults(), CheckDelay: checkDelay,
		})
		if err != nil {
			return err
		}
		d.mysqlVersion, err = d.cloud.MySQLVersion(ctx)
		return err
	})
}

func (d *daemon) cloudStatus() cloudStatus {
	seeded := d.cloud.Seeded()
	return cloudStatus{
		EC2Endpoint: d.cloud.Endpoint(), Region: moto.Region, VPCID: seeded.VPC, SubnetIDs: seeded.SubnetIDs(),
		ImageID: seeded.Image, SSMParameter: seeded.SSMParameter, MySQLVersion: d.mysqlVersion, NextMySQLVersion: cloud.NextVersion(d.mysqlVersion),
		DownloadSite: d.cloud.DownloadSite(), RootFS: d.cloud.RootFS(),
		ClientCIDR: nodeFabricCIDR, Control: "http://" + cloud.ControlAddress,
		FaultProxy: "http://" + cloud.ProxyControlAddress,
	}
}

// control calls the control API of the running lab and returns the answer's body.
func control(ctx context.Context, dir, method, path string) ([]byte, error) {
	now, err := readStatus(dir, statusFile)
	if err != nil {
		return nil, err
	}
	if now.Control == "" {
		return nil, fmt.Errorf("the lab is %s and has no EC2 yet, or was started without it", now.Phase)
	}
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, now.Control+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the lab: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return nil, fmt.Errorf("ask the lab: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("the lab refuses: %s", strings.TrimSpace(string(body)))
	}
	return body, nil
}

func consoleCommand(dir string) *cobra.Command {
	return &cobra.Command{
		Use: "console INSTANCE", Short: "Print what an instance printed on its console", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := control(cmd.Context(), dir, http.MethodGet, "/instances/"+url.PathEscape(args[0])+"/console")
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// faultMendAll is the one fault that names nothing.
const faultMendAll = "mendall"

func faultCommand(dir string) *cobra.Command {
	return &cobra.Command{
		Use: "fault [KIND INSTANCE [OTHER]]", Short: "Do something bad to an instance; without arguments: list what there is",
		Long: "INSTANCE is a program or the UID of a pod for the faults of those. OTHER is a second instance for part and join,\n" +
			"a party for cut and mend, a unit for kill.",
		Args: cobra.MatchAll(cobra.MaximumNArgs(3), func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != faultMendAll {
				return fmt.Errorf("fault %s on which instance?", args[0])
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listFaults(cmd.Context(), dir, cmd.OutOrStdout())
			}
			query := url.Values{}
			if len(args) > 1 {
				query.Set("instance", args[1])
			}
			if len(args) > 2 {
				query.Set("other", args[2])
			}
			_, err := control(cmd.Context(), dir, http.MethodPost, "/faults/"+url.PathEscape(args[0])+"?"+query.Encode())
			return err
		},
	}
}

func listFaults(ctx context.Context, dir string, out io.Writer) error {
	body, err := control(ctx, dir, http.MethodGet, "/faults")
	if err != nil {
		return err
	}
	help := map[string]string{}
	if err := json.Unmarshal(body, &help); err != nil {
		return fmt.Errorf("read the lab's answer: %w", err)
	}
	var names []string
	for name := range help {
		names = append(names, name)
	}
	slices.Sort(names)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range names {
		fmt.Fprintf(table, "%s\t%s\n", name, help[name])
	}
	return table.Flush()
}

// printInstances lists the instances of the running lab.
func printInstances(ctx context.Context, dir string, out io.Writer) error {
	body, err := control(ctx, dir, http.MethodGet, "/instances")
	if err != nil {
		return err
	}
	var instances []cloud.State
	if err := json.Unmarshal(body, &instances); err != nil {
		return fmt.Errorf("read the lab's answer: %w", err)
	}
	if len(instances) == 0 {
		fmt.Fprintln(out, "No instances.")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "INSTANCE\tADDRESS\tSTATE\tPOWER\tPID")
	for _, one := range instances {
		fmt.Fprintf(table, "%s\t%s\t%s\t%t\t%d\n", one.ID, one.Address, one.State, one.Power, one.PID)
	}
	return table.Flush()
}
