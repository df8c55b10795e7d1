package cloud

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/util/cert"
)

const (
	// downloadHost is MySQL's download site. Instances of the bare image find it at downloadAddress, and trust its certificate.
	downloadHost    = "cdn.mysql.com"
	downloadAddress = hostAddress + ":443"

	authorities = "etc/ssl/certs/ca-certificates.crt"
	dnfShelf    = "usr/share/lab-packages"
)

// absent are the files that Debian's packages of MySQL, of libaio and of libnuma bring (glob patterns); the second build is one of ours.
var absent = []string{
	"usr/sbin/mysqld", "usr/bin/my*", "usr/lib/mysql", "usr/share/mysql*", "etc/mysql", "usr/lib/*-linux-gnu/libaio.so.*", "usr/lib/*-linux-gnu/libnuma.so.*",
}

// dnf installs the one thing that the image's shelf has, as Amazon Linux' repository would; it fails for everything else.
const dnf = `#!/bin/sh
[ "$*" = "-y -q install libaio numactl-libs" ] && cp -a /` + dnfShelf + `/. / && ldconfig
`

// writeBare makes the layer of the bare image below dir, which stands for Amazon Linux: without MySQL, its user, and the two libraries
// that MySQL's tarball does not bring; a dnf installs those. base is the root file system, ca the certificate of the download site.
func writeBare(dir, base string, ca []byte) error {
	for _, pattern := range absent {
		found, err := filepath.Glob(filepath.Join(base, pattern))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("the root file system has no %s", pattern)
		}
		for _, path := range found {
			if err := leaveOut(dir, base, strings.TrimPrefix(path, base+"/")); err != nil {
				return err
			}
		}
	}
	for file, edit := range map[string]func([]byte) []byte{
		"etc/passwd": withoutMySQL, "etc/group": withoutMySQL, "etc/shadow": withoutMySQL, "etc/gshadow": withoutMySQL,
		authorities: func(all []byte) []byte { return append(all, ca...) },
		"etc/hosts": func(all []byte) []byte { return fmt.Appendf(all, "%s %s\n", hostAddress, downloadHost) },
	} {
		path := filepath.Join(base, file)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, file), edit(content), info.Mode()); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "usr/local/bin/dnf"), []byte(dnf), 0o755)
}

// leaveOut hides a file or folder of the root file system. A library goes to dnf's shelf.
func leaveOut(dir, base, path string) error {
	hidden := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(hidden), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(hidden, unix.S_IFCHR, int(unix.Mkdev(0, 0))); err != nil {
		return fmt.Errorf("white out %s: %w", path, err)
	}
	if !strings.Contains(path, ".so.") {
		return nil
	}
	shelf := filepath.Join(dir, dnfShelf, path)
	if err := os.MkdirAll(filepath.Dir(shelf), 0o755); err != nil {
		return err
	}
	if to, err := os.Readlink(filepath.Join(base, path)); err == nil {
		return os.Symlink(to, shelf)
	}
	content, err := os.ReadFile(filepath.Join(base, path))
	if err != nil {
		return err
	}
	return os.WriteFile(shelf, content, 0o644) //nolint:gosec // a library
}

// withoutMySQL takes MySQL's user or group from a list of them.
func withoutMySQL(list []byte) []byte {
	return bytes.Join(slices.DeleteFunc(bytes.SplitAfter(list, []byte("\n")), func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("mysql:"))
	}), nil)
}

func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode.Perm())
}

// DownloadSite is the folder with what MySQL's download site has: nothing, until somebody fills it (package archive).
func (c *Cloud) DownloadSite() string { return filepath.Join(c.options.Dir, dirSite) }

// RootFS is the root file system of instances, with Debian's MySQL installed. It may only be read.
func (c *Cloud) RootFS() string { return c.base }

// prepareBare makes the bare image's layer, and serves the download site that it knows.
func (c *Cloud) prepareBare(ctx context.Context) error {
	bundle, key, err := cert.GenerateSelfSignedCertKey(downloadHost, nil, nil)
	if err != nil {
		return fmt.Errorf("make the download site's certificate: %w", err)
	}
	if err := writeBare(filepath.Join(c.options.Dir, dirBare), c.base, bundle); err != nil {
		return fmt.Errorf("make the bare image: %w", err)
	}
	pair, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", downloadAddress)
	if err != nil {
		return err
	}
	c.site = serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}), http.FileServer(http.Dir(c.DownloadSite())))
	return nil
}
