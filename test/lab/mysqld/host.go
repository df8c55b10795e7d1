package mysqld

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

// HostPrograms makes commands of the programs of the lab's instances that see this machine's file system, by way of their own
// loader: for a mysqld that is no instance.
func HostPrograms(ctx context.Context) (func(context.Context, string, ...string) *exec.Cmd, error) {
	root, err := rootfs.Ensure(ctx, "", os.Stderr, rootfs.Instance)
	if err != nil {
		return nil, err
	}
	loaders, _ := filepath.Glob(root + "/lib64/ld-linux*")
	if arm, _ := filepath.Glob(root + "/lib/ld-linux-aarch64*"); len(loaders) == 0 {
		loaders = arm
	}
	libraries, _ := filepath.Glob(root + "/usr/lib/*-linux-gnu")
	if len(loaders) == 0 || len(libraries) == 0 {
		return nil, fmt.Errorf("no loader or no libraries in %s", root)
	}
	return func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		folder := "/usr/bin/"
		if name == "mysqld" {
			folder = "/usr/sbin/"
			arguments = append(arguments, "--basedir="+root+"/usr", "--lc-messages-dir="+root+"/usr/share/mysql", "--character-sets-dir="+root+"/usr/share/mysql/charsets")
		}
		return exec.CommandContext(ctx, loaders[0], append([]string{"--library-path", strings.Join(libraries, ":"), root + folder + name}, arguments...)...)
	}, nil
}
