package cloud

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// NextVersion is the version that the image's second build of mysqld calls itself: the next patch release. It is empty when
// that has more digits than version has, because then there is no room for it.
func NextVersion(version string) string {
	dot := strings.LastIndex(version, ".") + 1
	patch, err := strconv.Atoi(version[dot:])
	if err != nil {
		return ""
	}
	next := version[:dot] + strconv.Itoa(patch+1)
	if len(next) != len(version) {
		return ""
	}
	return next
}

// writeOtherBuild puts a second build of the image's mysqld below dir, where a download would put it. It is the same program
// but for its version's text, so it shows how a cluster goes from one version to the next, member by member, and nothing of
// what a newer server does to a data directory.
func writeOtherBuild(dir, base, version, next string) error {
	program, err := os.ReadFile(filepath.Join(base, "usr/sbin/mysqld"))
	if err != nil {
		return fmt.Errorf("read mysqld: %w", err)
	}
	if !bytes.Contains(program, []byte(version)) {
		return fmt.Errorf("mysqld does not hold the text of its version %s", version)
	}
	home := filepath.Join(dir, "opt", "mysql-"+next)
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		return fmt.Errorf("make a place for the second build: %w", err)
	}
	for _, link := range []string{"lib", "share"} { // plug-ins and messages, which mysqld looks for beside its own place
		if err := os.Symlink(filepath.Join("/usr", link), filepath.Join(home, link)); err != nil {
			return fmt.Errorf("link the second build's files: %w", err)
		}
	}
	program = bytes.ReplaceAll(program, []byte(version), []byte(next))
	if err := os.WriteFile(filepath.Join(home, "bin/mysqld"), program, 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("write the second build: %w", err)
	}
	return nil
}
