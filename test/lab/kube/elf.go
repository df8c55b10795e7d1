package kube

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/image"
)

// programTree returns a program of a root file system with the loader and all shared libraries that it needs, by
// reading them instead of running the loader: the tree may be for another machine.
func programTree(root, program string) (image.Tree, error) {
	content := image.Tree{}
	if err := addObject(content, root, program); err != nil {
		return nil, fmt.Errorf("collect what %s needs: %w", program, err)
	}
	return content, nil
}

// addObject adds an ELF file under the name by which it is found, and then what it needs.
func addObject(content image.Tree, root, name string) error {
	if _, known := content[name]; known {
		return nil
	}
	file, err := resolveIn(root, name)
	if err != nil {
		return err
	}
	content[name] = image.Node{From: file, Mode: 0o755}
	object, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer object.Close()
	loader, err := interpreter(object)
	if err != nil {
		return err
	}
	if loader != "" {
		if err := addObject(content, root, loader); err != nil {
			return err
		}
	}
	libraries, err := object.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range libraries {
		found, err := findLibrary(root, object, library)
		if err != nil {
			return err
		}
		if err := addObject(content, root, found); err != nil {
			return err
		}
	}
	return nil
}

// interpreter returns the path of the loader without a leading slash, or nothing for a library.
func interpreter(object *elf.File) (string, error) {
	for _, segment := range object.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		path, err := io.ReadAll(segment.Open())
		if err != nil {
			return "", err
		}
		return strings.Trim(string(path), "/\x00"), nil
	}
	return "", nil
}

// findLibrary looks where the loader of a Debian system looks: in the object's own search path, then in the
// directories of the machine's architecture.
func findLibrary(root string, object *elf.File, library string) (string, error) {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := object.DynString(tag)
		if err != nil {
			return "", err
		}
		for _, path := range paths {
			dirs = append(dirs, strings.Split(path, ":")...)
		}
	}
	for _, pattern := range []string{"usr/lib/*-linux-gnu", "usr/lib", "usr/lib64"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		for _, match := range matches {
			dirs = append(dirs, strings.TrimPrefix(match, root))
		}
	}
	for _, dir := range dirs {
		if dir == "" || strings.Contains(dir, "$ORIGIN") {
			continue
		}
		name := strings.TrimPrefix(filepath.Join(dir, library), "/")
		if _, err := resolveIn(root, name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("library %s is nowhere in %s", library, root)
}

// linkLimit is the kernel's limit for links in one path.
const linkLimit = 40

// resolveIn follows links inside the root file system and returns the real file on this machine.
func resolveIn(root, name string) (string, error) {
	rest := strings.Split(filepath.Clean(name), "/")
	done := ""
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := filepath.Join(done, part)
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil { // not a link
			done = next
			continue
		}
		if links++; links > linkLimit {
			return "", fmt.Errorf("%s: too many links", name)
		}
		if strings.HasPrefix(target, "/") {
			done = ""
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	path := filepath.Join(root, filepath.Join("/", done))
	_, err := os.Stat(path)
	return path, err
}
