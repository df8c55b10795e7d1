// Package store keeps backups as objects: in an S3 bucket, or in a folder on a volume. An object appears whole or not at
// all, in constant memory, and nothing is left of one that was given up.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"strings"
	"time"
)

// Errors by which a caller decides, and which a person is told by name. An error may wrap one of them.
var (
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("there is no such object")
	// ErrExists: Create found an object in its place.
	ErrExists = errors.New("the object exists")
	// ErrOverwrites: the store would replace an object that exists, so that Create cannot keep its promise.
	ErrOverwrites = errors.New("the store ignores If-None-Match and overwrites objects that exist")
	// ErrNoBucket: the bucket, or the folder on the volume, does not exist.
	ErrNoBucket = errors.New("the bucket does not exist")
	// ErrDenied: the credentials are wrong or may not do this.
	ErrDenied = errors.New("access is denied")
	// ErrFull: there is no room left.
	ErrFull = errors.New("there is no room left")
	// ErrUnavailable: the store did not answer, or answered that it is busy, until the last attempt.
	ErrUnavailable = errors.New("the store is not available")
)

// Object is what a listing tells of an object.
type Object struct {
	// Key is relative to the store's root, with slashes.
	Key      string
	Size     int64
	Modified time.Time
}

// Store is a place for objects. All keys are relative to its root. Its methods may be called by several goroutines.
type Store interface {
	// Put stores what r gives until io.EOF, in place of what was there. With any other error of r, or a ctx that ends,
	// nothing is stored. It returns how many bytes were.
	Put(ctx context.Context, key string, r io.Reader) (int64, error)
	// Create is Put unless the object exists: then it fails with ErrExists, and what is there stays as it is.
	Create(ctx context.Context, key string, r io.Reader) error
	// Get opens an object; ErrNotFound says that it is not there. A connection that breaks is taken up again.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// List gives the objects whose keys begin with prefix, in the order of their keys.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Delete deletes objects. One that is not there is a success.
	Delete(ctx context.Context, keys ...string) error
	// Sweep removes what uploads under prefix left behind that were cut off, and says how many those were. Only the
	// prefix of a backup that nobody writes any more may be swept.
	Sweep(ctx context.Context, prefix string) (int, error)
	// URL names an object or a folder for people.
	URL(key string) string
}

// Folders gives the names of the folders directly below prefix, which ends with a slash.
func Folders(ctx context.Context, s Store, prefix string) ([]string, error) {
	var names []string
	for object, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		name, _, folder := strings.Cut(strings.TrimPrefix(object.Key, prefix), "/")
		if folder && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// ReadAll reads a small object, of at most limit bytes.
func ReadAll(ctx context.Context, s Store, key string, limit int64) ([]byte, error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = errors.New(path.Base(key) + " is larger than it can be")
	}
	return content, err
}
