package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/image"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const (
	// imageName is the operator's image as the manifests call it.
	imageName = "ghcr.io/alx-ke/nairobi-mysql-operator"
	// imageUser is the user of the Dockerfile.
	imageUser = "65532:65532"
	// manager, exporter and certificates are where the Dockerfile puts its files, without the leading slash; the last is also where it
	// takes it from.
	manager      = "manager"
	exporter     = "exporter"
	certificates = "etc/ssl/certs/ca-certificates.crt"
	// tagDigits is how many hex digits of an image's digest make its tag.
	tagDigits = 12
)

// PushOperatorImage builds the operator from the tree, puts it into an image with the contents of the Dockerfile and
// pushes that to the lab's registry. The returned name is what manifests say; its tag follows from the contents.
func (l *Lab) PushOperatorImage(ctx context.Context) (string, error) {
	made, err := l.buildOperatorImage(ctx, "lab")
	if err != nil {
		return "", err
	}
	digest, err := made.Digest()
	if err != nil {
		return "", fmt.Errorf("make the operator's image: %w", err)
	}
	ref := imageName + ":lab-" + digest.Hex[:tagDigits]
	return ref, kube.PushImage(ctx, ref, made)
}

// PushOperatorRelease does the same under the name of a release, for example of version 0.2.0, and returns both names that
// manifests may have for it: the one by its tag and the one by its digest.
func (l *Lab) PushOperatorRelease(ctx context.Context, version string) (byTag, byDigest string, err error) {
	made, err := l.buildOperatorImage(ctx, version)
	if err != nil {
		return "", "", err
	}
	digest, err := made.Digest()
	if err != nil {
		return "", "", fmt.Errorf("make the operator's image: %w", err)
	}
	byTag = imageName + ":v" + version
	return byTag, imageName + "@" + digest.String(), kube.PushImage(ctx, byTag, made)
}

func (l *Lab) buildOperatorImage(ctx context.Context, version string) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "nairobi-image-")
	if err != nil {
		return nil, fmt.Errorf("build the operator: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for name, source := range map[string]string{manager: ".", exporter: "./cmd/exporter"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+version, "-o", filepath.Join(dir, name), source)
		build.Dir, build.Env = l.Root, append(os.Environ(), "CGO_ENABLED=0")
		if _, err := output(build); err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
	}
	made, err := operatorImage(dir, "/"+certificates)
	if err != nil {
		return nil, fmt.Errorf("make the operator's image: %w", err)
	}
	return made, nil
}

// operatorImage makes the image of the Dockerfile from the files that the Dockerfile copies: the programs in a folder, and the certificates.
func operatorImage(programs, authorities string) (v1.Image, error) {
	return image.Make(image.Tree{
		manager:      {From: filepath.Join(programs, manager), Mode: 0o755},
		exporter:     {From: filepath.Join(programs, exporter), Mode: 0o755},
		certificates: {From: authorities, Mode: 0o644},
	}, image.Config{User: imageUser, Entrypoint: []string{"/" + manager}})
}
