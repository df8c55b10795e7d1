package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const (
	oneFile = `package sample

type wide struct{ a, b, c int }

func (wide) text() string { return "" }

func (w *wide) Decide(n int) int {
	if w.text() != "" && n > 0 {
		return 1
	}
	switch {
	case n == 1:
	case n == 2:
	default:
	}
	return other()
}
`
	otherFile = `package sample

// Exported is read here, and used there.
var Exported = 1

func why() string { return "" }

func other() int {
	if w := why(); w == "" {
		return 2
	}
	var w wide
	return w.a
}
`
)

// sample measures a package of two files.
func sample(t *testing.T) *figures {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.24\n", "one.go": oneFile, "other.go": otherFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := packages.Load(&packages.Config{Dir: dir, Mode: mode}, "./...")
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatalf("%v: %v", loaded, err)
	}
	return measure(loaded[0])
}

func TestMeasure(t *testing.T) {
	f := sample(t)
	if f.files != 2 || f.exported != 1 || f.methods["wide"] != 2 || f.fields["wide"] != 3 {
		t.Errorf("files %d, exported %d, methods %v, fields %v", f.files, f.exported, f.methods, f.fields)
	}
	if n := f.complexity["wide.Decide"]; n != 5 { // the function, if, &&, and two cases
		t.Errorf("complexity %d", n)
	}
	if !slices.Equal(f.texts, []string{"why", "wide.text"}) {
		t.Errorf("texts %v", f.texts)
	}
	if f.arrows != 2 || f.backwards != 1 { // each of the two uses the other
		t.Errorf("%d arrows, %d of them backwards", f.arrows, f.backwards)
	}
	if f.lines != 24 {
		t.Errorf("%d lines", f.lines)
	}
}

func TestLimitsOnlyFall(t *testing.T) {
	for name, row := range map[string]struct {
		limit, now   int
		worse, loose bool
	}{
		"as the limit says":    {limit: 50, now: 50},
		"worse":                {limit: 50, now: 51, worse: true},
		"better":               {limit: 50, now: 49, loose: true},
		"as the aim says":      {now: 40},
		"the aim is reached":   {limit: 50, now: 40, loose: true},
		"worse, and unlimited": {now: 41, worse: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := limits{}, limits{}
			if row.limit > 0 {
				l[methodsKind] = counts{"a.b": row.limit}
			}
			if row.now > aims[methodsKind].most {
				now[methodsKind] = counts{"a.b": row.now}
			}
			worse, loose := l.worse(now), l.loose(now)
			if (len(worse) > 0) != row.worse || (len(loose) > 0) != row.loose {
				t.Errorf("worse %v, loose %v", worse, loose)
			}
			if row.worse && !strings.Contains(worse[0].Error(), "methods that belong together") {
				t.Errorf("what to do is not said: %v", worse[0])
			}
		})
	}
}

// TestStrangeWriters: a field is written by those that its comment names; what lies below it belongs to it.
func TestStrangeWriters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module sample\n\ngo 1.24\n",
		"state/state.go": `package state

type State struct {
	Seen Sight // Written by observe.
	// Plan is what was decided. Written by decide.
	Plan map[string]int
	Free int
}

type Sight struct {
	A int
	// B is found out later. Written by observe, decide.
	B int
}
`,
		"observe/observe.go": "package observe\n\nimport \"sample/state\"\n\nfunc Do(s *state.State) { s.Seen.A, s.Seen.B, s.Free = 1, 2, 3; s.Plan[\"x\"] = 4 }\n",
		"decide/decide.go":   "package decide\n\nimport \"sample/state\"\n\nfunc Do(s *state.State) { s.Seen.B, s.Plan, s.Seen.A = 1, nil, 2 }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := packages.Load(&packages.Config{Dir: dir, Mode: mode}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	found := errors.Join(strangeWriters(loaded)...).Error()
	for _, want := range []string{"observe.go:5:65: writes Plan, which is written by decide", "decide.go:5:45: writes Seen, which is written by observe"} {
		if !strings.Contains(found, strings.Replace(want, ": writes", " writes", 1)) {
			t.Errorf("not found: %s\n%s", want, found)
		}
	}
	if n := strings.Count(found, "\n"); n != 1 {
		t.Errorf("found %s", found)
	}
}
