package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

// ErrInUse: somebody restores from the backup, or verifies it.
var ErrInUse = errors.New("the backup is in use")

const (
	// usedTimeout bounds writing that something is in use.
	usedTimeout = time.Minute
	// restoresFolder holds the reservations of restores that are not finished, below the cluster's folder.
	restoresFolder = "restores"
	// reservedFor is how long a reservation holds after it was written last: a restore that failed waits for a person. reserveEvery is
	// how often a pod that works writes it.
	reservedFor  = 72 * time.Hour
	reserveEvery = time.Hour
	// maxReservation bounds what is read as one, in bytes.
	maxReservation = 1 << 16
)

// reserved is what a reservation says.
type reserved struct {
	// Seconds is how long it holds after it was written.
	Seconds int64 `json:"seconds"`
	// Backup is the folder that it keeps; empty while the restore has not chosen one, and keeps all.
	Backup string `json:"backup,omitempty"`
}

// Reservation keeps what a restore needs of a cluster's backups and archive from being deleted until the restore is finished.
type Reservation struct {
	place Place
	key   string
	stop  context.CancelFunc
	group sync.WaitGroup

	mu     sync.Mutex
	folder string
}

// Reserve keeps a backup and the archive for a restore, or all backups while folder is empty. Where a bucket may only be read nothing
// keeps them.
func (p Place) Reserve(ctx context.Context, by, folder string) *Reservation {
	r := &Reservation{place: p, key: p.restores() + by, folder: folder}
	r.write(ctx)
	ctx, r.stop = context.WithCancel(ctx)
	r.group.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, reserveEvery, false, func(ctx context.Context) (bool, error) { r.write(ctx); return false, nil })
	})
	return r
}

func (p Place) restores() string { return p.Root + "/" + restoresFolder + "/" }

func (r *Reservation) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, usedTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if text, err := json.Marshal(reserved{int64(reservedFor / time.Second), r.folder}); err == nil {
		_, _ = r.place.Store.Put(ctx, r.key, strings.NewReader(string(text)))
	}
}

// Narrow gives up all backups but one.
func (r *Reservation) Narrow(ctx context.Context, folder string) {
	r.mu.Lock()
	r.folder = folder
	r.mu.Unlock()
	r.write(ctx)
}

// End ends the reservation of a restore that is finished. One that failed leaves it: it is tried again.
func (r *Reservation) End(failure error) {
	r.stop()
	r.group.Wait()
	if failure != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	_ = r.place.Store.Delete(ctx, r.key)
}

// Reserved fails with ErrInUse while a restore that is not finished may need a folder; with an empty folder while there is any.
func (p Place) Reserved(ctx context.Context, folder string, now time.Time) error {
	for object, err := range p.Store.List(ctx, p.restores()) {
		if err != nil {
			return fmt.Errorf("look which restores are not finished: %w", err)
		}
		text, err := store.ReadAll(ctx, p.Store, object.Key, maxReservation)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read who restores: %w", err)
		}
		var r reserved
		if json.Unmarshal(text, &r) != nil {
			continue
		}
		until := object.Modified.Add(time.Duration(r.Seconds) * time.Second)
		if now.Before(until) && (folder == "" || r.Backup == "" || r.Backup == folder) {
			return fmt.Errorf("%w: the restore into the cluster with UID %s is not finished; it is waited for until %s. Once that cluster is deleted, delete %s",
				ErrInUse, strings.TrimPrefix(object.Key, p.restores()), until.UTC().Format(time.RFC3339), p.Store.URL(object.Key))
		}
	}
	return nil
}
