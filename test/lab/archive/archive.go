// Package archive serves tarballs in the layout of MySQL's download site, with the signatures of OpenPGP keys that it makes by the
// real gpg, for tests and for instances of the lab.
package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Archive is a folder with the layout of https://cdn.mysql.com. Close it.
type Archive struct {
	// Dir is what Handler serves.
	Dir  string
	home string // gpg's
}

// New makes an empty archive in a folder that exists.
func New(dir string) (*Archive, error) {
	// Short: the path of the agent's socket has at most 107 bytes.
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		return nil, err
	}
	return &Archive{Dir: dir, home: home}, nil
}

// Close ends gpg's agent and deletes the secret keys.
func (a *Archive) Close() error {
	out, err := exec.Command("gpgconf", "--homedir", a.home, "--kill", "all").CombinedOutput() //nolint:noctx // it runs when the context has ended
	if err != nil {
		err = fmt.Errorf("end gpg's agent: %w: %s", err, out)
	}
	return errors.Join(err, os.RemoveAll(a.home))
}

// Handler serves the archive, and 404 for what it does not have.
func (a *Archive) Handler() http.Handler { return http.FileServer(http.Dir(a.Dir)) }

// TarballName returns how MySQL calls the tarball of a version that a member of this machine's architecture downloads.
func TarballName(version string) string {
	return "mysql-" + version + "-linux-glibc2.28-" + map[string]string{"amd64": "x86_64-minimal", "arm64": "aarch64"}[runtime.GOARCH] + ".tar.xz"
}

// Current returns the path of a version's tarball until the next patch release is out, and Archived its path from then on.
func Current(version string) string {
	return "Downloads/MySQL-" + series(version) + "/" + TarballName(version)
}

// Archived is described with Current.
func Archived(version string) string {
	return "archives/mysql-" + series(version) + "/" + TarballName(version)
}

func series(version string) string { return version[:strings.LastIndexByte(version, '.')] }

// Key makes a key that signs, and returns its fingerprint. It expires after some days, counted from the day born (20200131) if that is
// not empty; 0 stands for never.
func (a *Archive) Key(ctx context.Context, name string, days int, born string) (string, error) {
	expiry := "never"
	if days > 0 {
		expiry = fmt.Sprintf("%dd", days)
	}
	if _, err := a.gpg(ctx, born, "--quick-generate-key", name+" <"+name+"@example.com>", "rsa2048", "sign", expiry); err != nil {
		return "", err
	}
	listed, err := a.gpg(ctx, "", "--with-colons", "--list-keys", name+"@example.com")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(listed, "\nfpr:::::::::")
	fingerprint, _, found := strings.Cut(rest, ":")
	if !found {
		return "", fmt.Errorf("gpg lists no fingerprint of %s: %q", name, listed)
	}
	return fingerprint, nil
}

// PublicKeys returns one armored block with public keys.
func (a *Archive) PublicKeys(ctx context.Context, fingerprints ...string) (string, error) {
	return a.gpg(ctx, "", append([]string{"--armor", "--export"}, fingerprints...)...)
}

// Put stores a tarball below Dir, with its signature by a key beside it, made on the day signed (20200131) if that is not empty.
func (a *Archive) Put(ctx context.Context, path string, tarball []byte, fingerprint, signed string) error {
	file := filepath.Join(a.Dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, tarball, 0o644); err != nil { //nolint:gosec // what is served
		return err
	}
	_, err := a.gpg(ctx, signed, "--yes", "--armor", "--local-user", fingerprint, "--output", file+".asc", "--detach-sign", file)
	return err
}

// Pack returns MySQL's tarball made of the server that is installed below root, in the layout of MySQL's own.
func Pack(ctx context.Context, root string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "tar", "-C", root, "-c", "-I", "xz -1 -T0", "--owner=0", "--group=0",
		"--transform=s,^usr/sbin/,mysql/bin/,;s,^usr/,mysql/,", "usr/sbin/mysqld", "usr/bin/mysql_tzinfo_to_sql", "usr/lib/mysql", "usr/share/mysql")
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pack MySQL: %w: %s", err, wrong.String())
	}
	return out.Bytes(), nil
}

// Clearsign returns a text with a signature of the whole in it.
func (a *Archive) Clearsign(ctx context.Context, text []byte, fingerprint string) ([]byte, error) {
	file := filepath.Join(a.home, "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	signed, err := a.gpg(ctx, "", "--local-user", fingerprint, "--output", "-", "--clearsign", file)
	return []byte(signed), err
}

// gpg runs the real program, on a day of its own if that is not empty.
func (a *Archive) gpg(ctx context.Context, day string, arguments ...string) (string, error) {
	all := []string{"--homedir", a.home, "--batch", "--quiet", "--passphrase", ""}
	if day != "" {
		all = append(all, "--faked-system-time", day+"T000000")
	}
	cmd := exec.CommandContext(ctx, "gpg", append(all, arguments...)...)
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("gpg %s: %w: %s", strings.Join(arguments, " "), err, wrong.String())
	}
	return out.String(), nil
}
