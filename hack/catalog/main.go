// Command catalog renders a file-based catalog from a template of opm's schema olm.template.basic. It differs from
// `opm alpha render-template basic` in two things: a bundle that is not published yet is taken from a folder, so that a
// catalog can be made, and checked, before its newest bundle is in any registry; and a bundle that an earlier catalog has
// is taken from there, because what is released does not change.
//
//	catalog -opm PATH -template catalog/template.yaml [-icon FILE] [-kept CATALOG] IMAGE=FOLDER... > catalog.yaml
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"
)

// options are what the command line says.
type options struct {
	// opm is the program, template the file, icon an SVG for the package.
	opm, template, icon string
	// kept are the bundles of the earlier catalog, rendered, by their images.
	kept map[string][]byte
	// local are the folders of bundles by the names that their images will have.
	local map[string]string
}

func main() {
	var o options
	flag.StringVar(&o.opm, "opm", "opm", "The opm program.")
	flag.StringVar(&o.template, "template", "catalog/template.yaml", "The template.")
	flag.StringVar(&o.icon, "icon", "config/manifests/icon.svg", "The package's icon.")
	kept := flag.String("kept", "", "An earlier catalog, which need not exist.")
	flag.Parse()
	o.local = map[string]string{}
	for _, argument := range flag.Args() {
		image, folder, _ := strings.Cut(argument, "=")
		o.local[image] = folder
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var err error
	if o.kept, err = bundlesOf(*kept); err == nil {
		err = o.render(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

// blob is one entry of a template or a catalog.
type blob = map[string]any

// bundlesOf returns the bundles of a catalog's file by their images, as they stand there. Without the file there are none.
func bundlesOf(file string) (map[string][]byte, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the file that the Makefile names
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the earlier catalog: %w", err)
	}
	bundles := map[string][]byte{}
	for _, document := range strings.Split("\n"+string(text), "\n---\n") {
		var entry struct{ Schema, Image string }
		if err := yaml.Unmarshal([]byte(document), &entry); err != nil {
			return nil, fmt.Errorf("read the earlier catalog: %w", err)
		}
		if entry.Schema == "olm.bundle" {
			bundles[entry.Image] = []byte(strings.TrimSuffix(document, "\n") + "\n")
		}
	}
	return bundles, nil
}

func (o options) render(ctx context.Context, out io.Writer) error {
	text, err := os.ReadFile(o.template)
	if err != nil {
		return fmt.Errorf("read the template: %w", err)
	}
	var template struct {
		Schema  string `json:"schema"`
		Entries []blob `json:"entries"`
	}
	if err := yaml.UnmarshalStrict(text, &template); err != nil {
		return fmt.Errorf("read the template: %w", err)
	}
	if template.Schema != "olm.template.basic" {
		return fmt.Errorf("the template's schema is %q, not olm.template.basic", template.Schema)
	}
	listed := map[any]bool{}
	for _, entry := range template.Entries {
		listed[entry["image"]] = true
		rendered, err := o.entry(ctx, entry)
		if err != nil {
			return err
		}
		if _, err := out.Write(append([]byte("---\n"), rendered...)); err != nil {
			return err
		}
	}
	for image := range o.local {
		if !listed[image] {
			return fmt.Errorf("the template does not list the bundle %s: add it, and an edge to it in a channel", image)
		}
	}
	return nil
}

// entry renders one entry: a bundle by opm, a package with its icon, anything else as it is.
func (o options) entry(ctx context.Context, entry blob) ([]byte, error) {
	switch entry["schema"] {
	case "olm.bundle":
		image, _ := entry["image"].(string)
		if folder, ok := o.local[image]; ok {
			return o.opmRender(ctx, folder, "--alpha-image-ref-template", image)
		}
		if rendered, ok := o.kept[image]; ok {
			return rendered, nil
		}
		return o.opmRender(ctx, image)
	case "olm.package":
		icon, err := os.ReadFile(o.icon)
		if err != nil {
			return nil, fmt.Errorf("read the icon: %w", err)
		}
		entry["icon"] = blob{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}
	}
	return yaml.Marshal(entry)
}

func (o options) opmRender(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, o.opm, append([]string{"render", "--output", "yaml"}, args...)...) //nolint:gosec // the program that the Makefile names
	rendered, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("opm render %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("opm render %s: %w", args[0], err)
	}
	return bytes.TrimPrefix(rendered, []byte("---\n")), nil
}
