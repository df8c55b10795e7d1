package deploy

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// source writes an executable file and returns its path.
func source(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// imageOf makes an operator image of programs and certificates with these texts.
func imageOf(t *testing.T, binary, authorities string) v1.Image {
	t.Helper()
	programs := t.TempDir()
	for _, name := range []string{manager, exporter} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(binary), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image, err := operatorImage(programs, source(t, authorities))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestTheImageIsWhatTheDockerfileSays(t *testing.T) {
	dockerfile, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, "binary", "authorities")
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"USER " + config.Config.User,
		`ENTRYPOINT ["` + strings.Join(config.Config.Entrypoint, `", "`) + `"]`,
	} {
		if !strings.Contains(string(dockerfile), "\n"+line+"\n") {
			t.Errorf("the Dockerfile does not say %s", line)
		}
	}
	files := contents(t, image)
	if len(files) != strings.Count(string(dockerfile), "\nCOPY --from=build ") {
		t.Errorf("the Dockerfile copies another number of files than %d", len(files))
	}
	for path := range files {
		if !strings.Contains(string(dockerfile), " /"+path+"\n") {
			t.Errorf("the Dockerfile does not copy anything to /%s", path)
		}
	}
	for _, program := range []string{manager, exporter} {
		if mode := files[program]; mode != 0o755 {
			t.Errorf("%s has mode %v", program, mode)
		}
	}
}

func TestEqualContentsHaveAnEqualDigest(t *testing.T) {
	digest := func(binary string) string {
		hash, err := imageOf(t, binary, "authorities").Digest()
		if err != nil {
			t.Fatal(err)
		}
		return hash.String()
	}
	first, again := digest("one"), digest("one")
	if first != again {
		t.Error("the same contents have two digests")
	}
	if first == digest("two") {
		t.Error("two contents have one digest")
	}
}

func TestAFileThatIsMissingIsNamed(t *testing.T) {
	_, err := operatorImage("/does/not/exist", source(t, "authorities"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("got %v", err)
	}
}

// contents returns the modes of the files in an image's only layer.
func contents(t *testing.T, image v1.Image) map[string]fs.FileMode {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	stream, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	modes := map[string]fs.FileMode{}
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			modes[header.Name] = header.FileInfo().Mode()
		}
	}
}
