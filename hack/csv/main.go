// Command csv completes a bundle that operator-sdk has generated: the listing's icon, which version it replaces, which
// images it runs, and for every owned kind the description and the descriptors of all fields, taken from the CRD itself.
// So no descriptor is written by hand, none is missing, and none stays behind when its field goes.
//
//	csv -bundle bundle -icon config/manifests/icon.svg -version 0.2.0 [-replaces NAME]
package main

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// release is what differs from one bundle to the next besides the manifests.
type release struct {
	// version of the operator, without a v.
	version string
	// replaces names the ClusterServiceVersion before this one; empty for the first.
	replaces string
}

func main() {
	var r release
	folder := flag.String("bundle", "bundle", "Folder of the bundle.")
	icon := flag.String("icon", "", "SVG file of the listing's icon.")
	flag.StringVar(&r.version, "version", "", "Version of the operator, without a v.")
	flag.StringVar(&r.replaces, "replaces", "", "Name of the ClusterServiceVersion that this one replaces; empty for the first.")
	flag.Parse()
	if err := run(*folder, *icon, r); err != nil {
		fmt.Fprintln(os.Stderr, "csv:", err)
		os.Exit(1)
	}
}

// object is a manifest of any kind.
type object = map[string]any

func run(folder, iconFile string, r release) error {
	icon, err := os.ReadFile(iconFile) //nolint:gosec // the file that the Makefile names
	if err != nil {
		return fmt.Errorf("read the icon: %w", err)
	}
	var files []string
	for _, pattern := range []string{"manifests/*.yaml", "tests/scorecard/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	objects := make([]object, len(files))
	for i, file := range files {
		if objects[i], err = read(file); err != nil {
			return err
		}
	}
	if err := complete(objects, icon, r); err != nil {
		return err
	}
	for i, file := range files {
		if kind := objects[i]["kind"]; kind != "ClusterServiceVersion" && kind != "Configuration" {
			continue // taken as operator-sdk wrote it
		}
		if err := write(file, objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func read(file string) (object, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the bundle
	if err != nil {
		return nil, err
	}
	var o object
	if err := yaml.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return o, nil
}

func write(file string, o object) error {
	text, err := yaml.Marshal(o)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // it is published
}

// complete fills in the one ClusterServiceVersion among the objects, and tags the image of our scorecard tests.
func complete(objects []object, icon []byte, r release) error {
	csv, err := theOne(objects, "ClusterServiceVersion")
	if err != nil {
		return err
	}
	spec, metadata := child(csv, "spec"), child(csv, "metadata")
	if spec == nil || metadata == nil {
		return errors.New("the ClusterServiceVersion has no spec or no metadata")
	}
	spec["icon"] = []any{object{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}}
	if r.replaces != "" {
		spec["replaces"] = r.replaces
	}
	images, manager, err := relatedImages(csv)
	if err != nil {
		return err
	}
	spec["relatedImages"] = images
	annotations := child(metadata, "annotations")
	if annotations == nil {
		annotations = object{}
		metadata["annotations"] = annotations
	}
	annotations["containerImage"] = manager
	tagScorecard(objects, r.version)
	return describeKinds(spec, objects)
}

func theOne(objects []object, kind string) (object, error) {
	var found object
	for _, o := range objects {
		if o["kind"] != kind {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("there is more than one %s", kind)
		}
		found = o
	}
	if found == nil {
		return nil, fmt.Errorf("there is no %s", kind)
	}
	return found, nil
}

// child returns the object under a key, nil when there is none.
func child(parent object, key string) object {
	found, _ := parent[key].(object)
	return found
}
