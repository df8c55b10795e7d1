package backup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// ErrTooOld: the backup is whole, and shows a moment that is longer ago than was promised.
var ErrTooOld = errors.New("the newest backup is too old")

// VerifyOptions say which backup is restored to see whether it can be.
type VerifyOptions struct {
	Place  Place
	Folder string
	// Dir is where the throw-away server lives. It needs room for the whole data set.
	Dir string
	// Program makes the command of one of MySQL's programs; nil means that it is in the path.
	Program func(ctx context.Context, name string, arguments ...string) *exec.Cmd
	// Settings are those of the cluster, v1alpha1.MySQLClusterSpec.Settings.
	Settings map[string]string
	// MaxAge is how long ago the newest heartbeat in the backup may be; 0 is no limit.
	MaxAge time.Duration
	// StallTimeout is how long no byte may be taken.
	StallTimeout time.Duration
	// Progress is told how far the restore is, about once a second.
	Progress func(Progress)
	Clock    clock.PassiveClock
}

// Verified is what a verification looked at.
type Verified struct {
	Manifest Manifest
	Compared
	// LeftOut is what could not be restored.
	LeftOut []podclient.LeftOut
	// Heartbeat is the newest write of the operator's probe in the backup.
	Heartbeat time.Time
}

// Verify restores a backup into a throw-away mysqld as a new cluster would, and compares what that then holds with what
// was noted when the backup was taken. What it read of the manifest is returned with an error too.
func Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	var found Verified
	var err error
	if found.Manifest, err = o.Place.ReadManifest(ctx, o.Folder); err != nil {
		return found, err
	}
	if o.Program == nil {
		o.Program = exec.CommandContext
	}
	server, err := startScratch(ctx, o.Dir, o.Program, scratchOptions{
		creation: settings.AtCreation(o.Settings), launch: settings.ForLaunch(settings.SeriesOf(found.Manifest.Version), o.Settings),
	})
	if err != nil {
		return found, err
	}
	_, err = Restore(ctx, RestoreOptions{
		Place: o.Place, Folder: o.Folder, Recovery: "verification",
		Target: Member{Name: "throw-away", Connect: server.visit}, User: scratchUser, Socket: server.socket,
		Program: o.Program, StallTimeout: o.StallTimeout, Progress: o.Progress, Clock: o.Clock,
		Then:     func(ctx context.Context, v *podclient.Visit, _ Manifest) error { return found.look(ctx, v, o) },
		Skipped:  func(left []podclient.LeftOut) { found.LeftOut = left },
		Compared: func(c Compared) { found.Compared = c },
	})
	return found, errors.Join(err, server.stop())
}

// look says whether the backup is as young as promised: by a row that the operator wrote, because
// a replica that stood still gives a backup that is whole, new and of last week.
func (f *Verified) look(ctx context.Context, v *podclient.Visit, o VerifyOptions) error {
	at, known, err := v.Heartbeat(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the heartbeat: %w", err)
	case o.MaxAge == 0:
	case !known:
		return fmt.Errorf("%w: it holds no heartbeat of the operator, by which its age is known", ErrTooOld)
	case o.Clock.Since(at) > o.MaxAge:
		return fmt.Errorf("%w: the newest write of the operator in it is of %s, %s ago; at most %s was promised",
			ErrTooOld, at.UTC().Format(time.RFC3339), o.Clock.Since(at).Round(time.Second), o.MaxAge)
	}
	f.Heartbeat = at
	return nil
}
