package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLayerIsReproducible(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	content := Tree{
		"usr/bin/program": {From: file, Mode: 0o755}, "bin/link": {Link: "../usr/bin/program"},
		"etc/motd": {Text: "hello", Mode: 0o644}, "tmp": {Mode: 0o777 | os.ModeSticky},
	}
	first, err := Make(content, Config{Command: []string{"sh"}})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	second, err := Make(content, Config{Command: []string{"sh"}})
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := first.Digest()
	two, err2 := second.Digest()
	if one != two || errors.Join(err1, err2) != nil {
		t.Errorf("digests %s and %s differ (%v)", one, two, errors.Join(err1, err2))
	}
	layer, err := content.layer()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bin", "bin/link", "etc", "etc/motd", "tmp", "usr", "usr/bin", "usr/bin/program"}
	var got []string
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() > 0 {
			t.Errorf("%s has an owner or a time", header.Name)
		}
		got = append(got, header.Name)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("layer holds %v, want %v", got, want)
	}
}
