package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// Images that are in the lab's registry from the start.
const (
	// PauseImage holds the namespaces of a pod.
	PauseImage = "registry.k8s.io/pause:3.10"
	// BusyboxImage is a shell with the usual small tools.
	BusyboxImage = "busybox"
	// MySQLClientImage is busybox with the mysql client of the lab's instances.
	MySQLClientImage = "lab/mysql-client"

	dnsImage = "registry.k8s.io/coredns/coredns:v" + build.CoreDNSVersion
)

// tree is the content of an image: path without a leading slash to what is there.
type tree map[string]node

// node is a file (From), a link (Link), text (Text) or, with none of them, a directory.
type node struct {
	from, link, text string
	mode             fs.FileMode
}

// config says how an image is run.
type config struct {
	entrypoint, command []string
}

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
			image, err := makeImage(ctx)
			if err != nil {
				return fmt.Errorf("make image %s: %w", ref, err)
			}
			return PushImage(ctx, ref, image)
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
	return makeImage(tree{"pause": {from: program, mode: 0o755}}, config{entrypoint: []string{"/pause"}})
}

func (c *Cluster) coreDNSImage(context.Context) (v1.Image, error) {
	return makeImage(tree{"coredns": {from: c.paths["coredns"], mode: 0o755}}, config{entrypoint: []string{"/coredns"}})
}

func (c *Cluster) busyboxImage(ctx context.Context) (v1.Image, error) {
	content, err := c.busyboxTree(ctx)
	if err != nil {
		return nil, err
	}
	return makeImage(content, config{command: []string{"sh"}})
}

// busyboxTree is busybox with all its names, and the files that a shell's user expects.
func (c *Cluster) busyboxTree(ctx context.Context) (tree, error) {
	names, err := host.Run(ctx, c.paths["busybox"], "--list")
	if err != nil {
		return nil, err
	}
	content := tree{
		"bin/busybox": {from: c.paths["busybox"], mode: 0o755},
		"tmp":         {mode: 0o777 | fs.ModeSticky},
		"root":        {mode: 0o700},
		"var":         {mode: 0o755},
		"etc/passwd":  {text: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", mode: 0o644},
		"etc/group":   {text: "root:x:0:\nnogroup:x:65534:\n", mode: 0o644},
	}
	for _, name := range strings.Fields(names) {
		if name != "busybox" {
			content[path.Join("bin", name)] = node{link: "busybox"}
		}
	}
	return content, nil
}

func (c *Cluster) clientImage(ctx context.Context) (v1.Image, error) {
	root, err := c.opts.ClientRootFS(ctx)
	if err != nil {
		return nil, err
	}
	content, err := c.busyboxTree(ctx)
	if err != nil {
		return nil, err
	}
	libraries, err := programTree(root, "usr/bin/mysql")
	if err != nil {
		return nil, err
	}
	maps.Copy(content, libraries)
	return makeImage(content, config{command: []string{"sh"}})
}

// makeImage makes an image of one layer. The layer is not compressed: it travels over a virtual cable only, and
// compressing would be the slowest step of the lab's start.
func makeImage(content tree, run config) (v1.Image, error) {
	layer, err := content.layer()
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.Entrypoint, file.Config.Cmd = run.entrypoint, run.command
	file.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(image, file)
}

// layer writes the tree in the order of its paths, without times and owned by root: equal trees, equal layers.
func (t tree) layer() (v1.Layer, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if err := writeParents(archive, path.Dir(name), made); err != nil {
			return nil, err
		}
		if err := t[name].write(archive, name); err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
		made[name] = true
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(buffer.Bytes(), types.OCIUncompressedLayer), nil
}

func writeParents(archive *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := writeParents(archive, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return node{mode: 0o755}.write(archive, dir)
}

func (n node) write(archive *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: int64(n.mode.Perm())}
	if n.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	var content io.Reader
	switch {
	case n.link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, n.link, 0o777
	case n.from != "":
		file, err := os.Open(n.from)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		header.Typeflag, header.Size, content = tar.TypeReg, info.Size(), file
	case n.text != "":
		header.Typeflag, header.Size, content = tar.TypeReg, int64(len(n.text)), strings.NewReader(n.text)
	default:
		header.Typeflag = tar.TypeDir
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	_, err := io.Copy(archive, content)
	return err
}
