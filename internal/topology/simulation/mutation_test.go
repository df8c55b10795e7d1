package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// mutantSchedules is within how many schedules a mutant has to be noticed, unless NAIROBI_SCHEDULES says otherwise.
	mutantSchedules = 1_000
	// mutantTime is how long one may take, building included.
	mutantTime = 15 * time.Minute
)

// verdict is how TestSchedules tells of a broken invariant.
var verdict = regexp.MustCompile(`schedule (\d+): ([^:\n]+): `)

// TestMutants breaks the operator on purpose, one way after the other, and plays schedules until an invariant breaks.
// A mutant that nobody notices says that a line of the real thing is not needed, or that the simulation is blind; those
// of which that is not settled are tried with NAIROBI_MUTANTS=all, and many schedules.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if m.open && os.Getenv("NAIROBI_MUTANTS") != "all" {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			m.mustBeNoticed(t, root)
		})
	}
}

// mustBeNoticed builds the simulation with the patch and runs it.
func (m mutant) mustBeNoticed(t *testing.T, root string) {
	began, schedules := time.Now(), number(t, "NAIROBI_SCHEDULES", mutantSchedules)
	ctx, cancel := context.WithTimeout(t.Context(), mutantTime)
	defer cancel()
	binary := m.build(ctx, t, root)
	run := exec.CommandContext(ctx, binary, "-test.run", "^TestSchedules$")
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "GOMAXPROCS=1", "NAIROBI_SEED=1", "NAIROBI_FAILURES=1", "NAIROBI_SCHEDULES="+strconv.FormatUint(schedules, 10))
	out, err := run.CombinedOutput()
	found := verdict.FindSubmatch(out)
	if err == nil || found == nil {
		t.Fatalf("%s: %d schedules and nothing is broken (%v):\n%s", m.name, schedules, err, out)
	}
	expected := m.breaks
	if expected == nil {
		expected = losesCommits
	}
	if invariant := string(found[2]); !slices.Contains(expected, invariant) {
		t.Errorf("%s: broken is %q, expected one of %q:\n%s", m.name, invariant, expected, out)
	}
	t.Logf("%s: after %s schedules, %s: %s", m.name, found[1], time.Since(began).Round(time.Second), found[2])
}

// build compiles the simulation's tests with the patched file in the place of the real one, which stays as it is.
func (m mutant) build(ctx context.Context, t *testing.T, root string) string {
	dir, file := t.TempDir(), filepath.Join(root, m.file)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		t.Fatalf("the text to be patched is found %d times in %s", n, m.file)
	}
	patched := filepath.Join(dir, "patched.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{patched: bytes.Replace(source, []byte(m.old), []byte(m.new), 1), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./internal/topology/simulation")
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build: %w\n%s", err, out))
	}
	return binary
}
