package olm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Package is the operator's name in catalogs, and Channel the one that its Subscriptions follow.
const (
	Package = "nairobi-mysql-operator"
	Channel = "candidate-v0"
)

// BundleImage is the name of a release's bundle image.
func BundleImage(version string) string {
	return "ghcr.io/alx-ke/nairobi-mysql-operator-bundle:v" + version
}

// TreeVersion returns the version that the Makefile below root says.
func TreeVersion(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "make", "--silent", "version")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// CSVName is the name of a release's ClusterServiceVersion.
func CSVName(version string) string { return Package + ".v" + version }

// MakeBundle writes the bundle of a release below folder, as `make bundle` does with the operator's image given, and returns
// the bundle's own folder.
func (o *OLM) MakeBundle(ctx context.Context, folder, version, image, replaces string) (string, error) {
	if _, err := o.script(ctx, "bundle.sh", folder, version, image, replaces); err != nil {
		return "", fmt.Errorf("make the bundle of %s: %w", version, err)
	}
	return filepath.Join(folder, "bundle"), nil
}

// Release is a bundle and what it replaces.
type Release struct{ Version, Replaces, Bundle string }

// MakeCatalog writes a file-based catalog of releases below folder, as `make catalog` does.
func (o *OLM) MakeCatalog(ctx context.Context, folder string, releases ...Release) error {
	var edges, bundles []any
	var local []string
	for _, r := range releases {
		edge := values{"name": CSVName(r.Version)}
		if r.Replaces != "" {
			edge["replaces"] = CSVName(r.Replaces)
		}
		edges = append(edges, edge)
		bundles = append(bundles, values{"schema": "olm.bundle", "image": BundleImage(r.Version)})
		local = append(local, BundleImage(r.Version)+"="+r.Bundle)
	}
	template, err := yaml.Marshal(values{"schema": "olm.template.basic", "entries": append([]any{
		values{"schema": "olm.package", "name": Package, "defaultChannel": Channel},
		values{"schema": "olm.channel", "package": Package, "name": Channel, "entries": edges},
	}, bundles...)})
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "template.yaml")
	if err := os.WriteFile(file, template, 0o600); err != nil {
		return err
	}
	catalog := filepath.Join(folder, "catalog")
	if _, err := o.script(ctx, "catalog.sh", append([]string{catalog, file}, local...)...); err != nil {
		return fmt.Errorf("make a catalog: %w", err)
	}
	return nil
}

// script runs one of the repository's own.
func (o *OLM) script(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.Root, "hack", name), args...) //nolint:gosec // our own script
	cmd.Env = append(os.Environ(), "KUBECTL="+o.KubectlPath())
	return run(cmd)
}

// SDK runs operator-sdk against the lab, in folder, and returns what it printed.
func (o *OLM) SDK(ctx context.Context, folder string, args ...string) (string, error) {
	program, err := o.tool(ctx, "operator-sdk")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the pinned tool
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+o.Kubeconfig)
	// It tells of progress and of failure on both.
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("operator-sdk %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
