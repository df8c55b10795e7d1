package mysqld

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/bootstrap"
)

// TestServer boots a server, cuts it off, boots it again, and asks it to restart itself.
func TestServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	farm, err := NewFarm(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := farm.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := farm.Start(ctx, Options{Environment: []string{"NAIROBI_TEST=1"}, Files: map[string][]byte{"library": []byte("bytes")}})
	if err != nil {
		t.Fatal(err)
	}
	if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID())); err != nil || !bytes.Contains(environment, []byte("NAIROBI_TEST=1\x00")) {
		t.Errorf("mysqld's environment is %q, %v", environment, err)
	}
	if content, err := s.Program(ctx, "cat", bootstrap.ConfigDir+"/library").Output(); err != nil || string(content) != "bytes" {
		t.Errorf("the file that mysqld sees holds %q, %v", content, err)
	}
	before, err := s.SQL(ctx, "SELECT @@server_uuid, @@super_read_only, @@performance_schema")
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if s.Running() || s.answers(ctx) {
		t.Fatal("it answers after Kill")
	}
	if err := s.Boot(ctx); err != nil {
		t.Fatal(err)
	}
	after, err := s.SQL(ctx, "SELECT @@server_uuid, @@super_read_only, @@performance_schema")
	if err != nil || after != before {
		t.Fatalf("after a kill: %q, %v; before: %q", after, err, before)
	}
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	if s.answers(ctx) {
		t.Fatal("it answers while frozen")
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	first := s.PID()
	if _, err := s.SQL(ctx, "RESTART"); err != nil {
		t.Fatal(err)
	}
	for s.PID() == first || !s.answers(ctx) {
		if ctx.Err() != nil {
			t.Fatal("it did not come back from RESTART")
		}
		time.Sleep(100 * time.Millisecond)
	}
}
