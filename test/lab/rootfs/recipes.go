package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names of the root file systems that Ensure knows.
const (
	// Moto holds the EC2 API server and what it imports.
	Moto = "moto"
	// Instance is what every machine of the lab's cloud boots from.
	Instance = "instance"
)

// suite is Debian's development suite: the only one that packages MySQL 9.7
// and a moto that knows the EC2 calls in use.
const suite = "sid"

// keyLength is how many hex digits of the recipe's hash name a cache entry:
// 48 bits, plenty to tell the few recipes of a machine's life apart.
const keyLength = 12

// recipe says how one root file system is made. Everything in it is hashed
// into the name of the cache entry, so a changed recipe is a new entry.
type recipe struct {
	packages []string
	// remove lists paths, relative to the root, that are deleted once the
	// packages are installed.
	remove []string
}

var recipes = map[string]recipe{
	Moto: {
		packages: []string{"python3-moto", "python3-flask", "python3-flask-cors", "ca-certificates"},
	},
	Instance: {
		packages: []string{
			"systemd", "systemd-sysv", "dbus", "udev", "kmod", "cloud-init",
			"iproute2", "iputils-ping", "nftables", "procps", "util-linux", "less",
			"openssl", "ca-certificates", "curl", "xz-utils", "xfsprogs", "e2fsprogs",
			"mysql-server", "mysql-client",
		},
		// The package's post-install initialises a server of its own. Its
		// data would be in every instance (about 200 MB), with one
		// server_uuid for all.
		remove: []string{"var/lib/mysql", "var/lib/mysql-files", "var/lib/mysql-keyring"},
	},
}

// Names lists the root file systems that can be built.
func Names() []string { return []string{Moto, Instance} }

// arguments are mmdebstrap's, without suite and target.
func (r recipe) arguments() []string {
	return []string{
		"--mode=root", "--variant=minbase",
		// A development suite is published anew every few hours; its Release
		// file may have expired by this machine's clock.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		`--aptopt=Acquire::Languages "none"`,
		`--aptopt=Acquire::Retries "3"`,
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=force-unsafe-io",
		"--include=" + strings.Join(r.packages, ","),
	}
}

// key identifies the recipe's content.
func (r recipe) key() string {
	h := sha256.New()
	fmt.Fprintln(h, suite)
	for _, a := range r.arguments() {
		fmt.Fprintln(h, a)
	}
	for _, p := range r.remove {
		fmt.Fprintln(h, "remove", p)
	}
	return hex.EncodeToString(h.Sum(nil))[:keyLength]
}

// finish applies to dir what mmdebstrap cannot be told.
func (r recipe) finish(dir string) error {
	for _, p := range r.remove {
		if err := os.RemoveAll(filepath.Join(dir, p)); err != nil {
			return fmt.Errorf("remove %s: %w", p, err)
		}
	}
	return nil
}
