package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	ledger, err := OpenLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	return ledger
}

func TestCleanByAnotherOwner(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	first := open(t, dir)
	if err := first.MakeDir(filepath.Join(work, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := first.WriteFile(filepath.Join(work, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	process, err := first.StartProcess(t.Context(), Spec{Name: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	// The first owner is gone without a word; half a line is the last thing that it wrote.
	torn, err := os.OpenFile(filepath.Join(dir, ledgerFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"id":99,"kind":"fi`); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	removed, err := second.Clean(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) != 3 || removed[0].Kind != KindProcess {
		t.Errorf("removed %v, want the process first, then file and directory", removed)
	}
	select {
	case <-process.Done():
	case <-time.After(killGrace):
		t.Error("the process is still there")
	}
	for _, gone := range []string{"a/b", "f"} {
		if _, err := os.Stat(filepath.Join(work, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", gone, err)
		}
	}
	if again, err := second.Clean(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("second Clean removed %v, error %v; want nothing", again, err)
	}
}

func TestRecycledPIDIsLeftAlone(t *testing.T) {
	ledger := open(t, t.TempDir())
	process, err := ledger.StartProcess(t.Context(), Spec{Name: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	start, err := StartTime(process.PID)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, t.TempDir())
	if _, err := other.Add(Entry{Kind: KindProcess, Name: "old", PID: process.PID, StartTime: start - 1}); err != nil {
		t.Fatal(err)
	}
	removed, err := other.Clean(t.Context())
	if err != nil || len(removed) != 0 || !process.Running() {
		t.Errorf("Clean removed %v (%v), running %v; want it untouched", removed, err, process.Running())
	}
	if err := process.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if left := ledger.Entries(); len(left) != 0 {
		t.Errorf("an ended process is still in the ledger: %v", left)
	}
}

func TestStartedProcess(t *testing.T) {
	ledger, dir := open(t, t.TempDir()), t.TempDir()
	extra, err := os.CreateTemp(dir, "extra")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	process, err := ledger.StartProcess(t.Context(), Spec{
		Name: "sh", Args: []string{"-c", `echo "$1 $VAR $PWD"; ls /proc/self/fd | tr '\n' ' '; echo data >&3; exit 7`, "sh", "two words"},
		Env: []string{"VAR=value", "PATH=" + os.Getenv("PATH")}, Dir: dir, LogFile: log, ExtraFiles: []*os.File{extra},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	if code := process.State().ExitCode(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	output, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(output), "two words value "+dir+"\n") {
		t.Errorf("output %q", output)
	}
	if strings.Contains(string(output), "4 5") {
		t.Errorf("the gate is open in the program: descriptors %q", output)
	}
}

func TestLedgerRefusals(t *testing.T) {
	for name, entry := range map[string]Entry{
		"the root directory":     {Kind: KindDir, Path: "/"},
		"a top level directory":  {Kind: KindDir, Path: "/usr"},
		"a relative directory":   {Kind: KindDir, Path: "some/where"},
		"an empty path":          {Kind: KindDir},
		"a group elsewhere":      {Kind: KindCgroup, Path: "/srv/none/such"},
		"process 1":              {Kind: KindProcess, PID: 1, StartTime: 1},
		"a process without time": {Kind: KindProcess, PID: 2},
		"an unknown kind":        {Kind: "planet"},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := open(t, t.TempDir())
			if _, err := ledger.Add(entry); err != nil {
				t.Fatal(err)
			}
			if _, err := ledger.Clean(t.Context()); err == nil {
				t.Error("Clean accepted it")
			}
			if len(ledger.Entries()) != 1 {
				t.Error("the entry was dropped although it was not undone")
			}
		})
	}
}

func TestForeignResourcesAreRefused(t *testing.T) {
	for name, entry := range map[string]Entry{
		"interface":     {Kind: KindLink, Name: "lo"},
		"control group": {Kind: KindCgroup, Path: "/sys/fs/cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := open(t, t.TempDir())
			if _, err := ledger.Add(entry); !errors.Is(err, ErrForeign) {
				t.Errorf("Add: %v, want ErrForeign", err)
			}
			if left := ledger.Entries(); len(left) != 0 {
				t.Errorf("it would be undone: %v", left)
			}
		})
	}
}

func TestEntriesOfAnotherBootAreVoid(t *testing.T) {
	dir := t.TempDir()
	ledger := open(t, dir)
	process, err := ledger.StartProcess(t.Context(), Spec{Name: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "work")
	if err := ledger.MakeDir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	after := open(t, dir)
	after.boot = "another"
	removed, err := after.Clean(t.Context())
	if err != nil || len(removed) != 1 || removed[0].Path != work || !process.Running() {
		t.Errorf("Clean removed %v (%v), process running %v; want only the directory", removed, err, process.Running())
	}
	if err := process.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestClaim(t *testing.T) {
	name := fmt.Sprintf("@nairobi-lab-test-%d", os.Getpid())
	first, err := claim(t.Context(), name, "/first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(t.Context(), name, "/second"); !errors.Is(err, ErrClaimed) || !strings.Contains(err.Error(), "/first") {
		t.Errorf("second claim: %v, want ErrClaimed and who has it", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	lock, err := AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireLock(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v, want ErrLocked", err)
	}
	if found, err := SignalHolder(dir, 0); err != nil || !found {
		t.Errorf("holder found: %v (%v), want this process", found, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Release()
}

func TestRunTellsWhatTheCommandSaid(t *testing.T) {
	_, err := Run(context.Background(), "sh", "-c", "echo no such thing >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error %v holds no output", err)
	}
}
