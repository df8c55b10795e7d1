package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// The kinds of limits, as the file names them.
const (
	methodsKind    = "methods"
	fieldsKind     = "fields"
	complexityKind = "complexity"
	textsKind      = "texts"
	backwardsKind  = "backwards"
)

// aim is what holds where the file has no exception.
type aim struct {
	most int
	// remedy says what to do about code that is worse: the limit never rises.
	remedy string
}

// aims are for methods of a type, fields of a struct, branches of a function, texts whose emptiness decides, and the percentage of the
// arrows between files that run backwards.
var aims = map[string]aim{
	methodsKind:    {40, "give methods that belong together to a type of their own"},
	fieldsKind:     {15, "put fields that belong together into a struct of their own"},
	complexityKind: {15, "make a part of it a function with a name"},
	textsKind:      {0, "return a type that says whether there is something, not a text that may be empty; -texts lists the functions"},
	backwardsKind:  {10, "files use each other: move a function to the file that uses it, or to a third one that both use"},
}

// limits are the exceptions from the aims: by kind, and by package and name.
type limits map[string]counts

// limitsOf are the exceptions that the code of today needs.
func limitsOf(all []*figures) limits {
	found := limits{}
	add := func(kind, name string, value int) {
		if value <= aims[kind].most {
			return
		}
		if found[kind] == nil {
			found[kind] = counts{}
		}
		found[kind][name] = value
	}
	for _, f := range all {
		for name, n := range f.methods {
			add(methodsKind, f.name+"."+name, n)
		}
		for name, n := range f.fields {
			add(fieldsKind, f.name+"."+name, n)
		}
		for name, n := range f.complexity {
			add(complexityKind, f.name+"."+name, n)
		}
		add(textsKind, f.name, len(f.texts))
		if f.arrows > 0 {
			add(backwardsKind, f.name, f.backwards*100/f.arrows)
		}
	}
	return found
}

func load(file string) (limits, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l := limits{}
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

const header = `# What is still worse than the aims of make structure. A figure may only fall: make structure-limits writes what was reached,
# and refuses to write a higher one.
`

func (l limits) save(file string) error {
	text, err := yaml.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(header), text...), 0o644)
}

// worse returns what the limits do not allow.
func (l limits) worse(now limits) []error {
	return l.differences(now, func(kind, name string, limit, value int) error {
		if value <= limit {
			return nil
		}
		return fmt.Errorf("%s of %s: %d, and the limit is %d: %s", kind, name, value, limit, aims[kind].remedy)
	})
}

// loose returns the limits that can fall.
func (l limits) loose(now limits) []error {
	return l.differences(now, func(kind, name string, limit, value int) error {
		if value >= limit {
			return nil
		}
		return fmt.Errorf("%s of %s: the limit of %d can fall to %d: make structure-limits", kind, name, limit, value)
	})
}

func (l limits) differences(now limits, judge func(kind, name string, limit, value int) error) []error {
	var found []error
	for _, kind := range slices.Sorted(maps.Keys(aims)) {
		names := maps.Clone(l[kind])
		if names == nil {
			names = counts{}
		}
		maps.Copy(names, now[kind])
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if err := judge(kind, name, max(l[kind][name], aims[kind].most), max(now[kind][name], aims[kind].most)); err != nil {
				found = append(found, err)
			}
		}
	}
	return found
}
