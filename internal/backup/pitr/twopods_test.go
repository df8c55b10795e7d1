package pitr

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

// listed is a store that does something before, or after, it is listed for the first time.
type listed struct {
	store.Store
	once          sync.Once
	before, after func()
}

func (l *listed) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		first := false
		l.once.Do(func() { first = true })
		if first && l.before != nil {
			l.before()
		}
		var objects []store.Object
		for object, err := range l.Store.List(ctx, prefix) {
			if err != nil {
				yield(object, err)
				return
			}
			objects = append(objects, object)
		}
		if first && l.after != nil {
			l.after()
		}
		for _, object := range objects {
			if !yield(object, nil) {
				return
			}
		}
	}
}

// TestAnotherPodsWorkIsNoBreak: an old pod that has not ended takes the archive further while a new one finds out where it ends.
// What the old one stored is neither lost by the cluster nor purged before it was archived.
func TestAnotherPodsWorkIsNoBreak(t *testing.T) {
	c := newCluster(t)
	sql(t, c.primary, "CREATE DATABASE shop; CREATE TABLE shop.diary (n INT PRIMARY KEY)")
	c.dump(c.replica, "before")
	defer c.archiver(t.TempDir(), nil)()
	row := 0
	further := func() {
		row++
		c.write(c.primary, row)
		c.archived()
	}
	further()
	for name, bucket := range map[string]*listed{
		"before it reads the archive's end": {before: further},
		"and the primary purges it, after it has read the archive's end": {after: func() {
			further()
			sql(t, c.primary, "FLUSH BINARY LOGS")
			c.purge()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bucket.Store = c.folder.Store
			var mu sync.Mutex
			var now archive.Report
			stop := c.archiver(t.TempDir(), func(o *archive.Options) {
				o.Folder.Store = bucket
				o.SegmentAge = time.Hour // the old pod is the faster one
				o.Report = func(r archive.Report) {
					mu.Lock()
					defer mu.Unlock()
					if now = r; r.Gap != "" || r.Lost != "" {
						t.Errorf("a break is told: gap %q, lost %q", r.Gap, r.Lost)
					}
				}
			})
			defer stop()
			await(t, "the new pod follows", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return now.Error == "" && !now.CoveredUntil.IsZero() && !now.FirstRecoverable.IsZero()
			})
		})
	}
	if head, _, err := c.folder.Head(t.Context(), 0); err != nil || head.AnchorNumber != 1 {
		t.Errorf("there is a break: %+v, %v", head, err)
	}
}
