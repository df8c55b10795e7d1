package deploy

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const (
	// imageName is the operator's image as the manifests call it.
	imageName = "ghcr.io/alx-ke/nairobi-mysql-operator"
	// imageUser is the user of the Dockerfile.
	imageUser = "65532:65532"
	// manager and certificates are where the Dockerfile puts its two files; the latter is also where it takes it from.
	manager      = "/manager"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	// tagDigits is how many hex digits of an image's digest make its tag.
	tagDigits = 12
)

// PushOperatorImage builds the operator from the tree, puts it into an image with the contents of the Dockerfile and
// pushes that to the lab's registry. The returned name is what manifests say; its tag follows from the contents.
func (l *Lab) PushOperatorImage(ctx context.Context) (string, error) {
	image, err := l.buildOperatorImage(ctx, "lab")
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("make the operator's image: %w", err)
	}
	ref := imageName + ":lab-" + digest.Hex[:tagDigits]
	return ref, kube.PushImage(ctx, ref, image)
}

// PushOperatorRelease does the same under the name that the manifests of a release say, for example for version 0.2.0.
func (l *Lab) PushOperatorRelease(ctx context.Context, version string) error {
	image, err := l.buildOperatorImage(ctx, version)
	if err != nil {
		return err
	}
	return kube.PushImage(ctx, imageName+":v"+version, image)
}

func (l *Lab) buildOperatorImage(ctx context.Context, version string) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "nairobi-image-")
	if err != nil {
		return nil, fmt.Errorf("build the operator: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+version, "-o", binary, ".")
	build.Dir, build.Env = l.Root, append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(build); err != nil {
		return nil, fmt.Errorf("build the operator: %w", err)
	}
	image, err := operatorImage(map[string]string{manager: binary, certificates: certificates})
	if err != nil {
		return nil, fmt.Errorf("make the operator's image: %w", err)
	}
	return image, nil
}

// operatorImage makes the image of the Dockerfile of files: path in the image to path here.
func operatorImage(files map[string]string) (v1.Image, error) {
	layer, err := imageLayer(files)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.User = imageUser
	config.Config.Entrypoint = []string{manager}
	return mutate.ConfigFile(image, config)
}

// imageLayer makes a layer of files, owned by root, executable where the source is, without times, so that equal files
// make an equal layer. It is not compressed: it travels over a virtual cable only.
func imageLayer(files map[string]string) (v1.Layer, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(archive, path, files[path]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(buffer.Bytes(), types.OCIUncompressedLayer), nil
}

func addFile(archive *tar.Writer, path, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Size: info.Size(), Mode: int64(info.Mode().Perm())}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
