package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestToolsPinTheSameVersions(t *testing.T) {
	cfg, err := NewConfig(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for folder, require := range map[string]string{
		"kubernetes": "k8s.io/kubernetes v" + KubernetesVersion,
		"etcd":       "go.etcd.io/etcd/server/v3 v" + EtcdVersion,
		"coredns":    "github.com/coredns/coredns v" + CoreDNSVersion,
	} {
		content, err := os.ReadFile(filepath.Join(cfg.RepoDir, "hack", "tools", folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), require) {
			t.Errorf("hack/tools/%s/go.mod does not require %s", folder, require)
		}
	}
}

func TestEnsureMakesOnceAndNeverHalf(t *testing.T) {
	var log bytes.Buffer
	cfg := Config{CacheDir: t.TempDir(), Log: &log}
	leftover := filepath.Join(cfg.CacheDir, tmpPrefix+"thing-1", "old")
	if err := os.MkdirAll(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	made := 0
	thing := entry{name: "thing", version: "1", make: func(_ context.Context, _ Config, dir string) error {
		made++
		return os.WriteFile(filepath.Join(dir, "file"), []byte("whole"), 0o600)
	}}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := cfg.ensure(t.Context(), thing); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
	listing, err := os.ReadDir(filepath.Join(cfg.CacheDir, "thing-1"))
	if err != nil || len(listing) != 1 {
		t.Errorf("content %v (%v), want only the file", listing, err)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	cfg := Config{CacheDir: t.TempDir(), Log: &bytes.Buffer{}}
	failure := errors.New("no compiler")
	thing := entry{name: "thing", version: "1", make: func(context.Context, Config, string) error { return failure }}
	if _, err := cfg.ensure(t.Context(), thing); !errors.Is(err, failure) {
		t.Errorf("error %v, want the build's", err)
	}
	left, err := filepath.Glob(filepath.Join(cfg.CacheDir, "*thing-1"))
	if err != nil || len(left) != 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestUnknownThing(t *testing.T) {
	cfg := Config{CacheDir: t.TempDir(), Log: &bytes.Buffer{}}
	if _, err := Ensure(t.Context(), cfg, "teapot"); err == nil || !strings.Contains(err.Error(), "teapot") {
		t.Errorf("error %v does not name it", err)
	}
}
