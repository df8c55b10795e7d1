package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAttended: one that gets ready is waited for, and ends when it is killed; one that ends leaves its output in the error.
func TestAttended(t *testing.T) {
	dir := t.TempDir()
	sign := filepath.Join(dir, "sign")
	ready := func(context.Context) bool {
		_, err := os.Stat(sign)
		return err == nil
	}
	broken, err := Attend(exec.CommandContext(t.Context(), "sh", "-c", "echo no such port; exit 1"), filepath.Join(dir, "broken.log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Await(t.Context(), time.Minute, ready); err == nil || !strings.Contains(err.Error(), "no such port") {
		t.Errorf("the one that ended: %v", err)
	}
	program, err := Attend(exec.CommandContext(t.Context(), "sh", "-c", "touch "+sign+"; exec sleep 600"), filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Await(t.Context(), time.Minute, ready); err != nil {
		t.Error(err)
	}
	program.Kill()
	if program.process.Signal(os.Interrupt) == nil {
		t.Error("it runs still")
	}
	broken.Kill()
}
