package kube

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestPKI(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	admin, err := writePKI(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, name := range []string{NodeAddress, firstServiceIP, "127.0.0.1", "kubernetes.default.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			t.Errorf("the API server's certificate is not good for %s: %v", name, err)
		}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != APIServer || len(config.CAData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("the kubeconfig is incomplete: host %q", config.Host)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range keys {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others (%v)", file, err)
		}
	}
}

func TestRegistryName(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for ref, want := range map[string]string{
		"busybox":                      Registry + "/library/busybox:latest",
		"lab/mysql-client":             Registry + "/lab/mysql-client:latest",
		"ghcr.io/team/thing:1.2":       Registry + "/team/thing:1.2",
		"registry.k8s.io/pause:3.10":   Registry + "/pause:3.10",
		"quay.io/team/thing@" + digest: Registry + "/team/thing@" + digest,
		"localhost:5001/a/b/c:x":       Registry + "/a/b/c:x",
	} {
		got, err := registryName(ref)
		if err != nil || got.Name() != want {
			t.Errorf("%s is kept as %v (%v), want %s", ref, got, err, want)
		}
	}
	if _, err := registryName("Not A Name"); err == nil {
		t.Error("a wrong name was accepted")
	}
}

func TestResolveInStaysInside(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/lib/real"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"lib": "usr/lib", "absolute": "/usr/lib/real", "chain": "absolute", "loop": "loop", "escape": "../../../../../../etc/passwd",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lib/real", "absolute", "chain"} {
		if got, err := resolveIn(root, name); err != nil || got != filepath.Join(root, "usr/lib/real") {
			t.Errorf("%s leads to %s (%v)", name, got, err)
		}
	}
	for _, name := range []string{"loop", "escape", "lib/missing"} {
		if got, err := resolveIn(root, name); err == nil {
			t.Errorf("%s leads to %s, want an error", name, got)
		}
	}
}
