package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
	mutantSchedules = 4_000
	// mutantTime is how long one may take, building included.
	mutantTime = 15 * time.Minute
	// mutantShare: of so many mutants one is tried in an ordinary run, others with each NAIROBI_SEED. Each is built for itself, and all of
	// them take half an hour.
	mutantShare = 8
	// Which are tried is what NAIROBI_MUTANTS says: those of the ordinary run when it is empty, all that must be noticed, or the open ones too.
	mutantsVariable, settledMutants, allMutants = "NAIROBI_MUTANTS", "settled", "all"
)

// verdict is how TestSchedules tells of a broken invariant.
var verdict = regexp.MustCompile(`schedule (\d+): ([^:\n]+): `)

// TestMutants breaks the operator on purpose, one way after the other, and plays schedules until an invariant breaks, or runs the unit test
// that must fail. A mutant that nobody notices says that a line of the real thing is not needed, or that the tests are blind; those
// of which that is not settled are tried with NAIROBI_MUTANTS=all, and many schedules. A share of the mutants is tried; `make mutants` tries
// all.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(mutants, certificateMutants) {
		if !m.tried(os.Getenv(mutantsVariable), os.Getenv("NAIROBI_SEED")) {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if m.unit != "" {
				m.mustFailUnit(t, root)
				return
			}
			m.mustBeNoticed(t, root)
		})
	}
}

// tried says whether a run of these mutants and this seed tries the mutant. A mutant that is new does not change which others are.
func (m mutant) tried(which, seed string) bool {
	switch {
	case which == allMutants:
		return true
	case m.open:
		return false
	case which == settledMutants:
		return true
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(seed + " " + m.name))
	return sum.Sum64()%mutantShare == 0
}

// TestEveryMutantIsTriedWithSomeSeed, and in no run none of them.
func TestEveryMutantIsTriedWithSomeSeed(t *testing.T) {
	never := map[string]bool{}
	for _, m := range slices.Concat(mutants, certificateMutants) {
		never[m.name] = !m.open
	}
	for seed := range 100 {
		tried := 0
		for _, m := range slices.Concat(mutants, certificateMutants) {
			if m.tried("", strconv.Itoa(seed)) {
				never[m.name] = false
				tried++
			}
		}
		if settled := len(mutants) + len(certificateMutants); tried == 0 || tried > settled/2 {
			t.Errorf("seed %d tries %d of %d mutants", seed, tried, settled)
		}
	}
	for name, is := range never {
		if is {
			t.Errorf("no seed tries %q", name)
		}
	}
}

// mustBeNoticed builds the simulation with the patch and plays schedules. The one that notices the mutant must be clean
// without the patch.
func (m mutant) mustBeNoticed(t *testing.T, root string) {
	began, schedules := time.Now(), number(t, "NAIROBI_SCHEDULES", mutantSchedules)
	ctx, cancel := context.WithTimeout(t.Context(), mutantTime)
	defer cancel()
	binary := m.build(ctx, t, root)
	play := func(first, count uint64, more ...string) (invariant string, schedule uint64, out []byte) {
		run := exec.CommandContext(ctx, binary, "-test.run", "^TestSchedules$", "-test.timeout", mutantTime.String())
		run.Dir = t.TempDir()
		run.Env = append(append(os.Environ(), more...), "GOMAXPROCS=1", "NAIROBI_SEED=1", "NAIROBI_FAILURES=1",
			"NAIROBI_FIRST="+strconv.FormatUint(first, 10), "NAIROBI_SCHEDULES="+strconv.FormatUint(count, 10))
		out, err := run.CombinedOutput()
		found := verdict.FindSubmatch(out)
		if err == nil || found == nil {
			return "", 0, out
		}
		schedule, _ = strconv.ParseUint(string(found[1]), 10, 64) // the pattern lets nothing but digits through
		return string(found[2]), schedule, out
	}
	var as []func(*world)
	invariant, schedule, out := play(m.at, 1)
	if invariant == "" {
		if invariant, schedule, out = play(m.at, 1, acknowledgeVariable+"=Disk"); invariant != "" {
			as = append(as, fromDisk)
		}
	}
	if invariant == "" {
		invariant, schedule, out = play(0, schedules)
	}
	if invariant == "" {
		t.Fatalf("%s: %d schedules and nothing is broken:\n%s", m.name, schedules, out)
	}
	expected := m.breaks
	if expected == nil {
		expected = losesCommits
	}
	if !slices.Contains(expected, invariant) {
		t.Errorf("%s: broken is %q, expected one of %q:\n%s", m.name, invariant, expected, out)
	}
	if clean := Run(1, schedule, false, as...); clean.Invariant != "" {
		t.Errorf("%s: schedule %d is broken without it, too: %s: %s", m.name, schedule, clean.Invariant, clean.Message)
	}
	t.Logf("%s: in schedule %d, %s: %s", m.name, schedule, time.Since(began).Round(time.Second), invariant)
}

// mustFailUnit runs the mutant's unit test with the patch. A build that fails, or another test that does, is none of its failures.
func (m mutant) mustFailUnit(t *testing.T, root string) {
	dir, test, found := strings.Cut(m.unit, " ")
	if !found {
		t.Fatalf("unit is %q, expected a directory and a test", m.unit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutantTime)
	defer cancel()
	run := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay", m.overlay(t, root), "-run", "^"+test+"$", "./"+dir)
	run.Dir = root
	out, err := run.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("--- FAIL: "+test+" ")) {
		t.Fatalf("%s: %s does not fail: %v\n%s", m.name, m.unit, err, out)
	}
}

// TestMutantsFitTheCode tells in a moment, and not after minutes, that code has changed which a mutant patches.
func TestMutantsFitTheCode(t *testing.T) {
	for _, m := range slices.Concat(mutants, certificateMutants) {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) { m.patched(t, "../..") })
	}
}

// patched returns the files that a mutant changes, by their paths, as it makes them.
func (m mutant) patched(t *testing.T, root string) map[string][]byte {
	files := map[string][]byte{}
	for _, p := range m.patches() {
		file := filepath.Join(root, p.file)
		source, ok := files[file]
		if !ok {
			var err error
			if source, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		if found := bytes.Count(source, []byte(p.old)); found != 1 {
			t.Fatalf("the text to be patched is found %d times in %s:\n%s", found, p.file, p.old)
		}
		files[file] = bytes.Replace(source, []byte(p.old), []byte(p.new), 1)
	}
	return files
}

// overlay writes the patched files, and for the go command that they stand in the place of the real ones, which stay as they are.
func (m mutant) overlay(t *testing.T, root string) string {
	dir, replaced := t.TempDir(), map[string]string{}
	for file, source := range m.patched(t, root) {
		replaced[file] = filepath.Join(dir, fmt.Sprintf("patched%d.go", len(replaced)))
		if err := os.WriteFile(replaced[file], source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// build compiles the simulation's tests with the patch.
func (m mutant) build(ctx context.Context, t *testing.T, root string) string {
	binary := filepath.Join(t.TempDir(), "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", m.overlay(t, root), "-o", binary, "./internal/simulation")
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build: %w\n%s", err, out))
	}
	return binary
}
