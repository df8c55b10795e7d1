// Command crds compares the CRDs of the tree with those of the last release, and fails where an object or a client of that release
// would no longer be accepted. It prints of which fields the rules in CEL are others.
//
//	crds -released config/crd/released -present config/crd/bases
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	released := flag.String("released", "config/crd/released", "Folder with the CRDs of the last release.")
	present := flag.String("present", "config/crd/bases", "Folder with the CRDs of the tree.")
	flag.Parse()
	if err := run(os.Stdout, *released, *present); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, released, present string) error {
	old, err := read(released)
	if err != nil {
		return err
	}
	now, err := read(present)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		return fmt.Errorf("%s has no CRD", released)
	}
	var broken []error
	for name, crd := range old {
		if now[name] == nil {
			broken = append(broken, fmt.Errorf("%s is gone", name))
			continue
		}
		if rules := ChangedRules(crd, now[name]); len(rules) > 0 {
			fmt.Fprintf(out, "%s: the rules of %s are others than in the last release: say in the CHANGELOG that OLM v1 needs crdUpgradeSafety off (docs/install.md)\n",
				name, strings.Join(rules, ", "))
		}
		for _, change := range Breaking(crd, now[name]) {
			broken = append(broken, fmt.Errorf("%s: %s", name, change))
		}
	}
	return errors.Join(broken...)
}

// read returns the CRDs of a folder by name.
func read(folder string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the tree
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all[crd.Name] = crd
	}
	return all, nil
}
