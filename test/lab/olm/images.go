package olm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/image"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// Names of images, as OLM, operator-sdk or our own manifests call them.
const (
	opmImage = "quay.io/operator-framework/opm:latest"
	// decompressionImage is what `operator-sdk run bundle` unpacks catalogs with: any shell with gzip.
	decompressionImage = "registry.access.redhat.com/ubi9/ubi:9.7"
	// UnpackImage stands in for scorecard's own images that unpack the bundle: busybox as a user that is not root.
	UnpackImage        = "quay.io/operator-framework/scorecard-untar:lab"
	scorecardTestImage = "quay.io/operator-framework/scorecard-test:v1.42.2"
	// scorecardImage has the version of the tree as its tag.
	scorecardImage = "ghcr.io/alx-ke/nairobi-mysql-operator-scorecard:v"

	// imageUser is who runs what needs no root; operator-framework's own images have it too.
	imageUser = "1001"
	// configs is where a catalog's image keeps its catalog, and cache where opm keeps what it computed from it.
	configs, cache = "configs", "/tmp/cache"
)

func (o *OLM) image() string { return "quay.io/operator-framework/olm:" + o.version }

// program is a program of a tools module and where an image has it.
type program struct{ tool, name, path string }

// pushImages pushes what OLM itself consists of, and what operator-sdk has pods of.
func (o *OLM) pushImages(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return o.push(ctx, o.image(), image.Config{User: imageUser},
			program{"olm", "olm", "bin/olm"}, program{"olm", "catalog", "bin/catalog"}, program{"olm", "package-server", "bin/package-server"},
			program{"olm", "cpb", "bin/cpb"}, program{"olm", "copy-content", "bin/copy-content"})
	})
	group.Go(func() error {
		return o.push(ctx, opmImage, image.Config{User: imageUser, Entrypoint: []string{"/bin/opm"}}, program{"opm", "opm", "bin/opm"})
	})
	group.Go(func() error {
		return o.push(ctx, scorecardTestImage, image.Config{User: imageUser}, program{"operator-sdk", "scorecard-test", "bin/scorecard-test"})
	})
	group.Go(func() error { return o.pushScorecard(ctx) })
	group.Go(func() error { return o.push(ctx, UnpackImage, image.Config{User: imageUser, Command: []string{"sh"}}) })
	group.Go(func() error { return o.push(ctx, decompressionImage, image.Config{Command: []string{"sh"}}) })
	return group.Wait()
}

// push makes an image of busybox and programs.
func (o *OLM) push(ctx context.Context, ref string, run image.Config, programs ...program) error {
	content, err := o.programs(ctx, programs...)
	if err != nil {
		return err
	}
	made, err := image.Make(content, run)
	if err != nil {
		return fmt.Errorf("make image %s: %w", ref, err)
	}
	return kube.PushImage(ctx, ref, made)
}

func (o *OLM) programs(ctx context.Context, programs ...program) (image.Tree, error) {
	content, err := image.Busybox(ctx, o.busybox)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		file, err := o.tool(ctx, p.tool, p.name)
		if err != nil {
			return nil, err
		}
		content[p.path] = image.Node{From: file, Mode: 0o755}
	}
	return content, nil
}

// pushScorecard pushes the image of test/scorecard/Dockerfile under the name that the bundle in the tree says.
func (o *OLM) pushScorecard(ctx context.Context) error {
	version, err := TreeVersion(ctx, o.Root)
	if err != nil {
		return err
	}
	ref := scorecardImage + version
	dir, err := os.MkdirTemp("", "nairobi-scorecard-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "scorecard")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./test/scorecard")
	cmd.Dir, cmd.Env = o.Root, append(os.Environ(), "CGO_ENABLED=0")
	if _, err := run(cmd); err != nil {
		return err
	}
	made, err := image.Make(image.Tree{"bin/scorecard": {From: binary, Mode: 0o755}},
		image.Config{User: "65532:65532", Entrypoint: []string{"/bin/scorecard"}})
	if err != nil {
		return fmt.Errorf("make image %s: %w", ref, err)
	}
	return kube.PushImage(ctx, ref, made)
}

// PushBundle makes the image of bundle.Dockerfile of a bundle's folder. Its labels are the bundle's annotations.
func PushBundle(ctx context.Context, ref, folder string) error {
	content := image.Tree{}
	for _, part := range []string{"manifests", "metadata", "tests"} {
		if err := content.AddFolder(filepath.Join(folder, part), part); err != nil {
			return fmt.Errorf("read the bundle: %w", err)
		}
	}
	labels, err := annotations(folder)
	if err != nil {
		return err
	}
	made, err := image.Make(content, image.Config{Labels: labels})
	if err != nil {
		return fmt.Errorf("make image %s: %w", ref, err)
	}
	return kube.PushImage(ctx, ref, made)
}

func annotations(folder string) (map[string]string, error) {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "metadata", "annotations.yaml")) //nolint:gosec // a file of the bundle
	if err != nil {
		return nil, err
	}
	err = yaml.Unmarshal(text, &metadata)
	return metadata.Annotations, err
}

// PushCatalog makes the image of catalog.Dockerfile, but for the cache, of a folder with a file-based catalog.
func (o *OLM) PushCatalog(ctx context.Context, ref, folder string) error {
	content, err := o.programs(ctx, program{"opm", "opm", "bin/opm"}, program{"grpc-health-probe", "grpc-health-probe", "bin/grpc_health_probe"})
	if err != nil {
		return err
	}
	if err := content.AddFolder(folder, configs); err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	made, err := image.Make(content, image.Config{
		User: imageUser, Entrypoint: []string{"/bin/opm"},
		Command: []string{"serve", "/" + configs, "--cache-dir=" + cache, "--cache-enforce-integrity=false"},
		Labels:  map[string]string{"operators.operatorframework.io.index.configs.v1": "/" + configs},
	})
	if err != nil {
		return fmt.Errorf("make image %s: %w", ref, err)
	}
	return kube.PushImage(ctx, ref, made)
}
