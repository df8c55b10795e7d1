package rootfs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

func TestEnsureUnknownName(t *testing.T) {
	if _, err := rootfs.Ensure(t.Context(), t.TempDir(), t.Output(), "windows"); err == nil {
		t.Fatal("an unknown root file system was built")
	}
}

// The instance file system must hold what the operator's bootstrap calls, and
// no data directory: one would give all members the same server_uuid.
func TestInstance(t *testing.T) {
	dir, err := rootfs.Ensure(t.Context(), "", t.Output(), rootfs.Instance)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		"usr/sbin/mysqld", "usr/bin/openssl", "usr/bin/curl", "usr/sbin/mkfs.xfs", "usr/sbin/xfs_growfs",
		"usr/lib/systemd/systemd", "usr/bin/cloud-init",
	} {
		if _, err := os.Stat(filepath.Join(dir, p)); err != nil {
			t.Errorf("missing: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "var/lib/mysql")); !os.IsNotExist(err) {
		t.Errorf("the package's data directory is still there (%v)", err)
	}
	version, err := rootfs.MySQLVersion(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^9\.7\.\d+$`).MatchString(version) {
		t.Errorf("MySQL %s, want 9.7.x", version)
	}
}

func TestMotoIsCached(t *testing.T) {
	first, err := rootfs.Ensure(t.Context(), "", t.Output(), rootfs.Moto)
	if err != nil {
		t.Fatal(err)
	}
	second, err := rootfs.Ensure(t.Context(), "", t.Output(), rootfs.Moto)
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("built twice: %s and %s", first, second)
	}
}
