// Package image makes container images without Docker: one layer of files, and how to run it.
package image

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
)

// Tree is the content of an image: path without a leading slash to what is there.
type Tree map[string]Node

// Node is a file (From), a link (Link), text (Text) or, with none of them, a directory.
type Node struct {
	From, Link, Text string
	Mode             fs.FileMode
}

// Config says how an image is run, and how it is labelled.
type Config struct {
	Entrypoint, Command []string
	// User is a name, or numbers as user:group; empty for root.
	User   string
	Labels map[string]string
}

// Make makes an image of one layer. The layer is not compressed: it travels over a virtual cable only, and
// compressing would be the slowest step of the lab's start.
func Make(content Tree, run Config) (v1.Image, error) {
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
	file.Config.Entrypoint, file.Config.Cmd = run.Entrypoint, run.Command
	file.Config.User, file.Config.Labels = run.User, run.Labels
	file.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(image, file)
}

// layer writes the tree in the order of its paths, without times and owned by root: equal trees, equal layers.
func (t Tree) layer() (v1.Layer, error) {
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
	return Node{Mode: 0o755}.write(archive, dir)
}

func (n Node) write(archive *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: int64(n.Mode.Perm())}
	if n.Mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	var content io.Reader
	switch {
	case n.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, n.Link, 0o777
	case n.From != "":
		file, err := os.Open(n.From)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		header.Typeflag, header.Size, content = tar.TypeReg, info.Size(), file
	case n.Text != "":
		header.Typeflag, header.Size, content = tar.TypeReg, int64(len(n.Text)), strings.NewReader(n.Text)
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

// Busybox returns busybox with all its names, and the files that a shell's user expects.
func Busybox(ctx context.Context, program string) (Tree, error) {
	names, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list what busybox can do: %w", err)
	}
	content := Tree{
		"bin/busybox": {From: program, Mode: 0o755},
		"tmp":         {Mode: 0o777 | fs.ModeSticky},
		"root":        {Mode: 0o700},
		"var":         {Mode: 0o755},
		"etc/passwd":  {Text: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", Mode: 0o644},
		"etc/group":   {Text: "root:x:0:\nnogroup:x:65534:\n", Mode: 0o644},
	}
	for _, name := range strings.Fields(string(names)) {
		if name != "busybox" {
			content[path.Join("bin", name)] = Node{Link: "busybox"}
		}
	}
	return content, nil
}

// AddFolder adds a folder of this machine under a path of the image.
func (t Tree) AddFolder(folder, at string) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, file)
		t[path.Join(at, filepath.ToSlash(inside))] = Node{From: file, Mode: 0o644}
		return err
	})
}
