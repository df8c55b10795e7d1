package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// partial begins the name of a file that is being written. No key has a part that begins so.
	partial = ".partial-"
	// copyBuffer is the piece in which files are written.
	copyBuffer = 1 << 20
)

// Folder is a store in a directory, usually that of a volume.
type Folder struct {
	root, name string
}

// NewFolder returns the store in an existing directory. name is what people know it by, for example pvc://backups.
func NewFolder(root, name string) (*Folder, error) {
	info, err := os.Stat(root)
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s", ErrNoBucket, name)
	}
	return &Folder{root: root, name: name}, nil
}

// URL implements Store.
func (f *Folder) URL(key string) string { return f.name + "/" + key }

// path returns the file of a key. A key can lead nowhere but below the root.
func (f *Folder) path(key string) (string, error) {
	local, err := filepath.Localize(key)
	if err != nil || local == "." {
		return "", fmt.Errorf("the key %q is not one: %w", key, errors.Join(err, fs.ErrInvalid))
	}
	return filepath.Join(f.root, local), nil
}

// Put implements Store: the file is complete and on disk before it gets its name.
func (f *Folder) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	to, err := f.path(key)
	if err != nil {
		return 0, err
	}
	written, temporary, err := f.write(ctx, to, r)
	if err == nil {
		if err = os.Rename(temporary, to); err != nil {
			os.Remove(temporary)
		}
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		return 0, f.explain("store", key, err)
	}
	return written, nil
}

// Create implements Store: a hard link fails where its name is taken.
func (f *Folder) Create(ctx context.Context, key string, r io.Reader) error {
	to, err := f.path(key)
	if err != nil {
		return err
	}
	_, temporary, err := f.write(ctx, to, r)
	if err == nil {
		err = os.Link(temporary, to)
		os.Remove(temporary)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	return f.explain("create", key, err)
}

// write writes r to a file beside to, and removes it when that fails.
func (f *Folder) write(ctx context.Context, to string, r io.Reader) (written int64, temporary string, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o770); err != nil {
		return 0, "", err
	}
	file, err := os.CreateTemp(filepath.Dir(to), partial)
	if err != nil {
		return 0, "", err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	written, err = io.CopyBuffer(&acceptingWriter{ctx: ctx, file: file}, ending{ctx, r}, make([]byte, copyBuffer))
	if err == nil {
		err = file.Sync()
	}
	return written, file.Name(), errors.Join(err, file.Close())
}

// ending is a reader that ends with its context.
type ending struct {
	ctx context.Context //nolint:containedctx // a reader has nowhere else to take it from
	r   io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // below the root
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements Store.
func (f *Folder) Get(_ context.Context, key string) (io.ReadCloser, error) {
	from, err := f.path(key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(from) //nolint:gosec // below the root
	if err != nil {
		return nil, f.explain("read", key, err)
	}
	return file, nil
}

// List implements Store.
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		objects, err := f.list(prefix)
		if err != nil {
			yield(Object{}, f.explain("list", prefix, err))
			return
		}
		for _, o := range objects {
			if err := context.Cause(ctx); err != nil {
				yield(Object{}, err)
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (f *Folder) list(prefix string) ([]Object, error) {
	var objects []Object
	err := f.walk(prefix, func(key, name string, entry fs.DirEntry) error {
		if strings.HasPrefix(name, partial) || !strings.HasPrefix(key, prefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err == nil {
			objects = append(objects, Object{Key: key, Size: info.Size(), Modified: info.ModTime()})
		}
		return err
	})
	// By key, as S3 does, and not folder by folder: "a-b" comes before "a/b".
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return objects, err
}

// walk visits the files below the last folder of a prefix.
func (f *Folder) walk(prefix string, visit func(key, name string, entry fs.DirEntry) error) error {
	start := f.root
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		local, err := filepath.Localize(prefix[:i])
		if err != nil {
			return err
		}
		start = filepath.Join(f.root, local)
	}
	err := filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if path != f.root && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		relative, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(relative), entry.Name(), entry)
	})
	if start != f.root && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Delete implements Store. Folders that become empty go too.
func (f *Folder) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		at, err := f.path(key)
		if err != nil {
			return err
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f.explain("delete", key, err)
		}
		for dir := filepath.Dir(at); len(dir) > len(f.root); dir = filepath.Dir(dir) {
			if os.Remove(dir) != nil {
				break // not empty
			}
		}
	}
	return nil
}

// Sweep implements Store.
func (f *Folder) Sweep(_ context.Context, prefix string) (int, error) {
	swept := 0
	err := f.walk(prefix, func(key, name string, _ fs.DirEntry) error {
		if !strings.HasPrefix(name, partial) || !strings.HasPrefix(key, prefix) {
			return nil
		}
		swept++
		at, err := f.path(key)
		if err != nil {
			return err
		}
		return os.Remove(at)
	})
	return swept, f.explain("sweep", prefix, err)
}

// explain gives an error of the file system its meaning.
func (f *Folder) explain(what, key string, err error) error {
	class := error(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		class = ErrNotFound
	case errors.Is(err, fs.ErrExist):
		class = ErrExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		class = ErrDenied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		class = ErrFull
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		class = ErrUnavailable
	default:
		return fmt.Errorf("%s %s: %w", what, f.URL(key), err)
	}
	return fmt.Errorf("%s %s: %w: %w", what, f.URL(key), class, err)
}
