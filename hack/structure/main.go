// Command structure measures how the product's packages are built and compares the figures with the limits of the
// repository: what is worse than the limits allow fails, and so does a limit that is looser than what was reached.
//
// Usage: structure [-limits FILE] [-write] [-texts]. It prints one line per package, with -texts also the functions whose text
// decides; -write writes the limits of today, where none rises.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

// measured are the packages of the product. The simulation and the model are the product's test benches and are measured like it.
var measured = []string{".", "./api/...", "./controllers/...", "./internal/...", "./test/model/..."}

// mode is what of a package is needed to measure it.
const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps

const module = "github.com/alx-ke/nairobi-mysql-operator"

func main() {
	file := flag.String("limits", "hack/structure/limits.yaml", "the file with the limits")
	write := flag.Bool("write", false, "write the limits of today, where none rises, instead of asking that they are tight")
	texts := flag.Bool("texts", false, "list the functions that return a text whose emptiness a caller decides by")
	flag.Parse()
	if err := run(os.Stdout, *file, *write, *texts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, file string, write, texts bool) error {
	loaded, err := packages.Load(&packages.Config{Mode: mode}, measured...)
	if err != nil {
		return err
	}
	var all []*figures
	for _, pkg := range loaded {
		if len(pkg.Errors) > 0 {
			return fmt.Errorf("%s does not compile: %w", pkg.PkgPath, pkg.Errors[0])
		}
		if f := measure(pkg); f.lines > 0 {
			all = append(all, f)
		}
	}
	if err := show(out, all); err != nil {
		return err
	}
	for _, f := range all {
		for _, name := range f.texts {
			if texts {
				fmt.Fprintf(out, "%s.%s\n", f.name, name)
			}
		}
	}
	if strange := strangeWriters(loaded); len(strange) > 0 {
		return errors.Join(strange...)
	}
	limits, err := load(file)
	if err != nil {
		return err
	}
	now := limitsOf(all)
	if worse := limits.worse(now); len(worse) > 0 {
		return errors.Join(worse...)
	}
	if write {
		return now.save(file)
	}
	return errors.Join(limits.loose(now)...)
}

// show prints a line per package: its size, and the worst of each kind.
func show(out io.Writer, all []*figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "package\tfiles\tlines\texported\tmethods of a type\tfields of a struct\tcomplexity\tabove 15\ttexts that decide\tarrows\tbackwards\t")
	total := 0
	for _, f := range all {
		total += f.lines
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t\n", f.name, f.files, f.lines, f.exported,
			f.methods.worst(), f.fields.worst(), f.complexity.worst(), f.complexity.above(aims[complexityKind].most), len(f.texts), f.arrows, f.backwards)
	}
	fmt.Fprintf(w, "all\t\t%d\t\t\t\t\t\t\t\t\t\n", total)
	return w.Flush()
}

// short is the name of a package within the module.
func short(path string) string {
	if path == module {
		return "main"
	}
	return strings.TrimPrefix(path, module+"/")
}
