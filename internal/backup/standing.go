package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

// Standing says what a backup is worth. It is read from its folder alone, and every reader goes by it.
type Standing int

const (
	// Damaged: its manifest cannot be read, or an object is missing or not as large as the manifest says.
	Damaged Standing = iota
	// Refuted: it is complete, and the last verification found that it is not what was backed up, or that no server takes it.
	Refuted
	// Complete: every object is there, and no verification has looked at it.
	Complete
	// Passed: it is complete, and the last verification restored it and found it whole.
	Passed
)

// Good says whether to restore from a backup, and to count on it.
func (s Standing) Good() bool { return s >= Complete }

// Stored is a folder with a manifest.
type Stored struct {
	Folder string
	// Manifest is what the folder's manifest says, without tables and samples. It is empty where it cannot be read.
	Manifest Manifest
	Standing Standing
	// Why says what is wrong with one that is not good.
	Why error
}

// verdictName is the object in which the last verification of a backup recorded what it found.
const (
	verdictName = "verification.json"
	maxVerdict  = 1 << 20
)

// verdict is the result of a verification.
type verdict struct {
	Passed bool      `json:"passed"`
	At     time.Time `json:"at"`
	// Message says what is wrong with a backup that did not pass.
	Message string `json:"message,omitempty"`
}

// refutes says whether a failure of a verification shows that the backup does not restore.
func refutes(failure error) bool {
	return slices.ContainsFunc([]error{ErrCorrupt, ErrDiffers, ErrRejected}, func(e error) bool { return errors.Is(failure, e) })
}

// RecordVerdict writes the result of a verification into the backup's folder. A failure that says nothing of the backup itself, such
// as a store that does not answer, leaves the result of an earlier verification.
func (p Place) RecordVerdict(ctx context.Context, folder string, failure error, at time.Time) error {
	v := verdict{Passed: failure == nil, At: at.UTC()}
	switch {
	case folder == "", failure != nil && !refutes(failure):
		return nil
	case failure != nil:
		v.Message = failure.Error()
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record the verification: %w", err)
	}
	key := p.Folder(folder) + "/" + verdictName
	if _, err := p.Store.Put(ctx, key, strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("record the verification: %w", err)
	}
	// Retention may have removed the backup meanwhile: nobody would delete what is written after that.
	if _, err := p.ReadManifest(ctx, folder); errors.Is(err, store.ErrNotFound) {
		return p.Store.Delete(ctx, key)
	}
	return nil
}

// Backups reads what is stored of a cluster's backups. It keeps manifests and verdicts until their objects change, and is for one
// goroutine.
type Backups struct {
	place     Place
	manifests map[string]cached[Manifest]
	verdicts  map[string]cached[verdict]
}

// cached is what an object said when it was as big and as old as this.
type cached[T any] struct {
	size     int64
	modified time.Time
	value    T
	err      error
}

// Backups returns a reader that has read nothing yet.
func (p Place) Backups() *Backups {
	return &Backups{place: p, manifests: map[string]cached[Manifest]{}, verdicts: map[string]cached[verdict]{}}
}

// NewestFirst gives every folder with a manifest, the newest first. It lists once, and reads the manifest of a folder when that is
// asked for. After an error it ends.
func (b *Backups) NewestFirst(ctx context.Context) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		folders, err := b.list(ctx)
		if err != nil {
			yield(Stored{}, err)
			return
		}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(folders))) {
			if _, there := folders[name][manifestName]; !there {
				continue
			}
			found, err := b.read(ctx, name, folders[name])
			if errors.Is(err, store.ErrNotFound) {
				continue // it was removed since it was listed
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// list returns the objects of each folder, by their names in it.
func (b *Backups) list(ctx context.Context) (map[string]map[string]store.Object, error) {
	prefix, folders := b.place.Root+"/backups/", map[string]map[string]store.Object{}
	for object, err := range b.place.Store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list the backups: %w", err)
		}
		folder, name, inside := strings.Cut(strings.TrimPrefix(object.Key, prefix), "/")
		if !inside {
			continue
		}
		if folders[folder] == nil {
			folders[folder] = map[string]store.Object{}
		}
		folders[folder][name] = object
	}
	gone := func(folder string) bool { return folders[folder] == nil }
	maps.DeleteFunc(b.manifests, func(folder string, _ cached[Manifest]) bool { return gone(folder) })
	maps.DeleteFunc(b.verdicts, func(folder string, _ cached[verdict]) bool { return gone(folder) })
	return folders, nil
}

// read judges a folder by its objects.
func (b *Backups) read(ctx context.Context, folder string, objects map[string]store.Object) (Stored, error) {
	found := Stored{Folder: folder}
	m, err := lookUp(b.manifests, folder, objects[manifestName], func() (Manifest, error) {
		m, err := b.place.ReadManifest(ctx, folder)
		m.Tables, m.Samples = nil, nil
		return m, err
	})
	if err == nil {
		found.Manifest = m
		err = m.complete(objects)
	}
	if errors.Is(err, ErrCorrupt) {
		found.Why = err
		return found, nil
	}
	if err != nil {
		return found, err
	}
	return found, b.judge(ctx, &found, objects[verdictName])
}

// judge takes what a verification found of a backup that is complete.
func (b *Backups) judge(ctx context.Context, found *Stored, object store.Object) error {
	found.Standing = Complete
	if object.Key == "" {
		return nil
	}
	v, err := lookUp(b.verdicts, found.Folder, object, func() (v verdict, err error) {
		text, err := store.ReadAll(ctx, b.place.Store, object.Key, maxVerdict)
		if err != nil {
			return v, err
		}
		if err = json.Unmarshal(text, &v); err != nil {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return v, err
	})
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, store.ErrNotFound):
		return nil // nothing is known of a verification
	case err != nil:
		return fmt.Errorf("read the verification of %s: %w", found.Folder, err)
	case v.Passed:
		found.Standing = Passed
	default:
		found.Standing = Refuted
		found.Why = fmt.Errorf("%w: the verification of %s found: %s", ErrCorrupt, v.At.UTC().Format(time.RFC3339), v.Message)
	}
	return nil
}

// lookUp returns what was read of an object, and reads it when it is another than that was. What cannot be read for another reason than
// its content is asked for again.
func lookUp[T any](known map[string]cached[T], folder string, object store.Object, read func() (T, error)) (T, error) {
	if c, ok := known[folder]; ok && c.size == object.Size && c.modified.Equal(object.Modified) {
		return c.value, c.err
	}
	value, err := read()
	if err == nil || errors.Is(err, ErrCorrupt) {
		known[folder] = cached[T]{object.Size, object.Modified, value, err}
	}
	return value, err
}

// complete says whether everything that the manifest names is among a folder's objects, as large as it says; ErrCorrupt otherwise.
func (m Manifest) complete(objects map[string]store.Object) error {
	for _, o := range slices.Concat(m.Dump.Objects, m.Accounts.Objects, m.Definitions.Objects) {
		if object, there := objects[o.Name]; !there || object.Size != o.Bytes {
			return fmt.Errorf("%w: %s is not there, or has not the %d bytes that the manifest says", ErrCorrupt, o.Name, o.Bytes)
		}
	}
	return nil
}

// Finished returns the manifest of a folder that is a backup, with everything in it as large as that says. Otherwise its
// error wraps store.ErrNotFound or ErrCorrupt.
func (p Place) Finished(ctx context.Context, folder string) (Manifest, error) {
	m, err := p.ReadManifest(ctx, folder)
	if err != nil {
		return Manifest{}, err
	}
	prefix, objects := p.Folder(folder)+"/", map[string]store.Object{}
	for object, err := range p.Store.List(ctx, prefix) {
		if err != nil {
			return Manifest{}, fmt.Errorf("list %s: %w", folder, err)
		}
		objects[strings.TrimPrefix(object.Key, prefix)] = object
	}
	if err := m.complete(objects); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// Newest returns the folder of the newest good backup. store.ErrNotFound says that there is none; the error also says what is wrong
// with the newest that is not good.
func (p Place) Newest(ctx context.Context) (string, error) {
	none := fmt.Errorf("look for a backup in %s: %w", p.Store.URL(p.Root), store.ErrNotFound)
	var why error
	for b, err := range p.Backups().NewestFirst(ctx) {
		switch {
		case err != nil:
			return "", err
		case b.Standing.Good():
			return b.Folder, nil
		case why == nil:
			why = fmt.Errorf("%w; %s: %w", none, b.Folder, b.Why)
		}
	}
	if why != nil {
		return "", why
	}
	return "", none
}
