package kube

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/image"
)

// Images that are in the lab's registry from the start.
const (
	// PauseImage holds the namespaces of a pod.
	PauseImage = "registry.k8s.io/pause:3.10"
	// BusyboxImage is a shell with the usual small tools.
	BusyboxImage = "busybox"
	// MySQLClientImage is busybox with mysql, mysqldump and mysqld of the lab's instances.
	MySQLClientImage = "lab/mysql-client"

	dnsImage = "registry.k8s.io/coredns/coredns:v" + build.CoreDNSVersion
)

// pushImages makes the images of the lab and pushes them.
func (c *Cluster) pushImages(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for ref, makeImage := range map[string]func(context.Context) (v1.Image, error){
		PauseImage: c.pauseImage, BusyboxImage: c.busyboxImage, dnsImage: c.coreDNSImage, MySQLClientImage: c.clientImage,
	} {
		if ref == MySQLClientImage && c.opts.ClientRootFS == nil {
			continue
		}
		group.Go(func() error {
			made, err := makeImage(ctx)
			if err != nil {
				return fmt.Errorf("make image %s: %w", ref, err)
			}
			return PushImage(ctx, ref, made)
		})
	}
	return group.Wait()
}

func (c *Cluster) pauseImage(ctx context.Context) (v1.Image, error) {
	program := filepath.Join(c.layout.state, "pause")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./test/lab/kube/pause")
	cmd.Dir, cmd.Env = c.opts.Build.RepoDir, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	return image.Make(image.Tree{"pause": {From: program, Mode: 0o755}}, image.Config{Entrypoint: []string{"/pause"}})
}

func (c *Cluster) coreDNSImage(context.Context) (v1.Image, error) {
	return image.Make(image.Tree{"coredns": {From: c.paths["coredns"], Mode: 0o755}}, image.Config{Entrypoint: []string{"/coredns"}})
}

func (c *Cluster) busyboxImage(ctx context.Context) (v1.Image, error) {
	content, err := image.Busybox(ctx, c.paths["busybox"])
	if err != nil {
		return nil, err
	}
	return image.Make(content, image.Config{Command: []string{"sh"}})
}

func (c *Cluster) clientImage(ctx context.Context) (v1.Image, error) {
	root, err := c.opts.ClientRootFS(ctx)
	if err != nil {
		return nil, err
	}
	content, err := image.Busybox(ctx, c.paths["busybox"])
	if err != nil {
		return nil, err
	}
	for _, program := range []string{"usr/bin/mysql", "usr/bin/mysqldump", "usr/sbin/mysqld"} {
		libraries, err := programTree(root, program)
		if err != nil {
			return nil, err
		}
		maps.Copy(content, libraries)
	}
	// What mysqld says, and in which characters.
	if err := content.AddFolder(filepath.Join(root, "usr/share/mysql"), "usr/share/mysql"); err != nil {
		return nil, err
	}
	return image.Make(content, image.Config{Command: []string{"sh"}})
}
