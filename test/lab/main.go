// Command lab brings up, on one Linux machine, the whole world that the operator lives in: a Kubernetes cluster with
// a real node, and an EC2 whose instances really boot. It owns everything that it makes, and takes it away again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// defaultDir keeps the state of the running lab.
const defaultDir = "/var/lib/nairobi-lab"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand(labDir()).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// labDir is $NAIROBI_LAB or the default.
func labDir() string {
	if dir := os.Getenv("NAIROBI_LAB"); dir != "" {
		return filepath.Clean(dir)
	}
	return defaultDir
}

func rootCommand(dir string) *cobra.Command {
	root := &cobra.Command{
		Use: "lab", Short: "Kubernetes and EC2 on this machine", SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(upCommand(dir), daemonCommand(dir), downCommand(dir), statusCommand(dir), kubeconfigCommand(dir),
		envtestCommand(), assetsCommand(), imagesCommand(), faultCommand(dir), consoleCommand(dir))
	root.AddCommand(kube.Commands()...)
	root.AddCommand(cloudCommands()...)
	return root
}

// errNotRoot: namespaces, mounts and loop devices are made without a user namespace.
var errNotRoot = errors.New("the lab must be run by root")

func requireRoot(*cobra.Command, []string) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	return nil
}

func kubeconfigCommand(dir string) *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig", Short: "Print the path of the administrator's kubeconfig", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, "kubeconfig"))
			return nil
		},
	}
}

func envtestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "envtest-assets", Short: "Print the directory with kube-apiserver, etcd and kubectl; build it when it is missing",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paths, err := ensure(cmd, build.Envtest)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), paths[build.Envtest])
			return nil
		},
	}
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "assets", Short: "Build all that the lab runs and print where it is", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paths, err := ensure(cmd, build.Kubernetes, build.Etcd, build.CoreDNS, build.Node, build.Envtest)
			if err != nil {
				return err
			}
			var names []string
			for name := range paths {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "%-24s %s\n", name, paths[name])
			}
			return nil
		},
	}
}

func ensure(cmd *cobra.Command, what ...string) (map[string]string, error) {
	cfg, err := build.NewConfig(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	return build.Ensure(cmd.Context(), cfg, what...)
}

func imagesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "images", Short: "List the images in the lab's registry", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := kube.Images(cmd.Context())
			if err != nil {
				return err
			}
			for _, image := range images {
				fmt.Fprintln(cmd.OutOrStdout(), image)
			}
			return nil
		},
	}
}
