package backup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// joined is a store in which somebody begins to use a backup the moment its manifest is deleted.
type joined struct {
	store.Store
	join func()
}

func (j joined) Delete(ctx context.Context, keys ...string) error {
	err := j.Store.Delete(ctx, keys...)
	if strings.HasSuffix(keys[0], manifestName) {
		j.join()
	}
	return err
}

// TestWhoUsesABackup keeps it, from the first moment on, and not longer than the mark is renewed.
func TestWhoUsesABackup(t *testing.T) {
	t.Parallel()
	s, err := store.NewFolder(t.TempDir(), "pvc://backups")
	must(t, err)
	ctx, now := t.Context(), time.Now()
	p := Place{Store: s, Root: "shop/orders/uid"}
	whole := func() bool {
		_, err := p.ReadManifest(ctx, "a")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		return err == nil
	}
	must(t, p.WriteManifest(ctx, "a", Manifest{Backup: "a"}))
	end := p.use(ctx, "a", "restore")
	if err := p.RemoveUnused(ctx, "a", now); !errors.Is(err, ErrInUse) || !whole() {
		t.Errorf("in use: %v, and it is whole: %v", err, whole())
	}
	end(errors.New("cut off"))
	if err := p.RemoveUnused(ctx, "a", now.Add(usedFor-time.Minute)); !errors.Is(err, ErrInUse) {
		t.Errorf("another pod may go on: %v", err)
	}
	if err := p.Unused(ctx, "a", now.Add(usedFor+time.Minute)); err != nil {
		t.Errorf("nobody went on: %v", err)
	}
	end = p.use(ctx, "a", "restore")
	end(nil)
	must(t, p.Unused(ctx, "a", now))

	late := p
	late.Store = joined{s, func() { end = p.use(ctx, "a", "restore") }}
	if err := late.RemoveUnused(ctx, "a", now); !errors.Is(err, ErrInUse) || !whole() {
		t.Errorf("used in the last moment: %v, and it is whole: %v", err, whole())
	}
	end(nil)
	must(t, p.RemoveUnused(ctx, "a", now))
	if whole() {
		t.Error("it is still there")
	}
	must(t, p.RemoveUnused(ctx, "a", now)) // again is a success
}

// TestARestoreUsesItsBackup until it is done.
func TestARestoreUsesItsBackup(t *testing.T) {
	w := theWorld(t)
	o := w.options(t, w.replica)
	_, err := Dump(t.Context(), o)
	must(t, err)
	r := w.restore(t, o, w.fresh(t))
	looked := false
	r.Then = func(ctx context.Context, _ *mysql.Visit, _ Manifest) error {
		looked = true
		if err := o.Place.Unused(ctx, o.Folder, time.Now()); !errors.Is(err, ErrInUse) {
			t.Errorf("while it is restored: %v", err)
		}
		return nil
	}
	_, err = Restore(t.Context(), r)
	must(t, err)
	if err := o.Place.Unused(t.Context(), o.Folder, time.Now()); err != nil || !looked {
		t.Errorf("afterwards: %v", err)
	}
}
