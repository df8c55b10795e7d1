// Package build makes what the lab runs from source or from Debian packages, once per version, into a cache
// directory. Nothing is installed on the machine.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// What Ensure can make. Each comes in one directory of the cache.
const (
	// Kubernetes gives kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl.
	Kubernetes = "kubernetes"
	// Etcd gives etcd.
	Etcd = "etcd"
	// CoreDNS gives coredns.
	CoreDNS = "coredns"
	// Node gives node-root, a directory with a Debian tree that holds containerd, runc, the CNI plugins,
	// iptables and the tools that a node needs. It is shared: never write into it.
	Node = "node"
	// Envtest gives envtest, a directory with kube-apiserver, etcd and kubectl as envtest wants it.
	Envtest = "envtest"
)

// Config says where things are.
type Config struct {
	// CacheDir holds one directory per thing and version.
	CacheDir string
	// RepoDir is the checkout, whose hack/tools pins what is built from source.
	RepoDir string
	// Log gets progress and the output of failed builds.
	Log io.Writer
}

// DefaultCacheDir is where everything that is slow to make is kept: $NAIROBI_CACHE, else ~/.cache/nairobi-mysql.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("NAIROBI_CACHE"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return filepath.Join(home, ".cache", "nairobi-mysql"), nil
}

// EnvtestAssets returns the directory with kube-apiserver and etcd for tests: $KUBEBUILDER_ASSETS, else the cache's, which is
// made when it is missing. That takes minutes; its progress goes to stderr.
func EnvtestAssets(ctx context.Context) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	cfg, err := NewConfig(os.Stderr)
	if err != nil {
		return "", err
	}
	paths, err := Ensure(ctx, cfg, Envtest)
	return paths[Envtest], err
}

// NewConfig takes the default cache directory and finds the checkout above the working directory.
func NewConfig(log io.Writer) (Config, error) {
	cache, err := DefaultCacheDir()
	if err != nil {
		return Config{}, err
	}
	repo, err := findRepo()
	return Config{CacheDir: cache, RepoDir: repo, Log: log}, err
}

const modulePath = "github.com/alx-ke/nairobi-mysql-operator"

// findRepo walks up from the working directory to the module's go.mod.
func findRepo() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+modulePath+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of %s", start, modulePath)
		}
	}
}

// entry is one thing that the cache can hold.
type entry struct {
	name, version string
	// takes tells the user how long it takes the first time.
	takes string
	// needs are made before it.
	needs []string
	// make fills the directory, which is renamed into place afterwards.
	make func(ctx context.Context, cfg Config, dir string) error
	// paths are the answers of Ensure: name to path relative to the entry's directory.
	paths map[string]string
}

func (e entry) dirName() string { return e.name + "-" + e.version }

// Dir returns where the cache keeps a thing, whether or not it is there yet.
func (c Config) Dir(what string) (string, error) {
	found, ok := entries()[what]
	if !ok {
		return "", fmt.Errorf("nothing known about building %q", what)
	}
	return filepath.Join(c.CacheDir, found.dirName()), nil
}

// Ensure makes what is not in the cache yet and returns the paths of all that was asked for. It is safe to
// call from several processes at once: the second one waits for the first.
func Ensure(ctx context.Context, cfg Config, what ...string) (map[string]string, error) {
	if err := os.MkdirAll(cfg.CacheDir, 0o755); err != nil {
		return nil, fmt.Errorf("make cache directory: %w", err)
	}
	known := entries()
	var mu sync.Mutex
	paths := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range what {
		found, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("nothing known about building %q", name)
		}
		group.Go(func() error {
			if _, err := Ensure(ctx, cfg, found.needs...); err != nil {
				return err
			}
			dir, err := cfg.ensure(ctx, found)
			if err != nil {
				return fmt.Errorf("make %s %s: %w", found.name, found.version, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for key, path := range found.paths {
				paths[key] = filepath.Join(dir, path)
			}
			return nil
		})
	}
	return paths, group.Wait()
}

// tmpPrefix starts the names of directories in the making.
const tmpPrefix = ".tmp-"

func (c Config) ensure(ctx context.Context, e entry) (string, error) {
	dir := filepath.Join(c.CacheDir, e.dirName())
	if present(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, filepath.Join(c.CacheDir, "."+e.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if present(dir) { // another process made it while we waited
		return dir, nil
	}
	// Whoever left this behind is gone: we hold the lock.
	tmp := filepath.Join(c.CacheDir, tmpPrefix+e.dirName())
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	started := time.Now()
	fmt.Fprintf(c.Log, "  %s %s: making it (once; %s)\n", e.name, e.version, e.takes)
	if err := e.make(ctx, c, tmp); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", err
	}
	fmt.Fprintf(c.Log, "  %s %s: made in %s\n", e.name, e.version, time.Since(started).Round(time.Second))
	return dir, nil
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockPoll is the pause between two tries to get a lock that another process holds for minutes.
const lockPoll = 200 * time.Millisecond

// lock takes the lock file and returns how to release it. The kernel releases it when the process dies.
func lock(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(lockPoll):
		}
	}
}
