package inventory

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Refresh looks by id at those of a cluster's things that are on their way from one state to another, and returns the
// Inventory. When none is, or when the last refresh was less than half a second ago (five, when nothing changed in the last
// forty), it makes no call. As with Observe, an error comes with the last known Inventory, and right after a failure it is
// returned without a call.
//
// It does not wait for a slow answer: the Inventory is then as it was, without an error, and what EC2 said, or that it
// did not, is known to the next call.
//
// Once EC2 could not be read the error stays until it can: a sweep every few seconds, which nobody waits for, finds out. While EC2
// only refuses a list of the sweeps, that error comes with what the look has shown.
func (r *Reader) Refresh(ctx context.Context, clusterUID string) (Inventory, error) {
	before, trouble := r.Known(clusterUID), r.freshness.troubled()
	if trouble != nil && r.recentSweepFailure() == nil {
		r.beginSweep(ctx)
	}
	moving := inTransition(before)
	if r.freshness.silent() || moving.empty() || !r.freshness.due(r.freshness.refreshed, clusterUID, r.freshness.pace(clusterUID, moving)) {
		return before, r.reported(trouble)
	}
	return r.lookNow(ctx, clusterUID, "what moves of "+clusterUID, moving)
}

// RefreshNow is Refresh for a cluster whose members have fallen silent: it looks at all instances and volumes of it, so
// that one which somebody else stopped or terminated is not taken for running until the next sweep. At most once in two
// seconds for a cluster; in between it is Refresh. When many clusters ask, a sweep every few seconds serves them all.
func (r *Reader) RefreshNow(ctx context.Context, clusterUID string) (Inventory, error) {
	all := everything(r.Known(clusterUID))
	if all.empty() || r.freshness.silent() || !r.freshness.due(r.freshness.urged, clusterUID, UrgentFloor) {
		return r.Refresh(ctx, clusterUID)
	}
	if !r.freshness.urgent.TryAccept() {
		r.sweepSoon(ctx)
		return r.Refresh(ctx, clusterUID)
	}
	return r.lookNow(ctx, clusterUID, "all of "+clusterUID, all)
}

// sweepSoon sweeps unless that was done a moment ago, and waits no longer than LookPatience for it.
func (r *Reader) sweepSoon(ctx context.Context) {
	if r.sweptSince(r.clock.Now().Add(-UrgentSweep)) || r.recentSweepFailure() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.freshness.patience)
	defer cancel()
	_ = r.joinSweep(ctx) // whoever observes next gets its error
}

// lookNow looks at some of a cluster's things, in a flight named flight, and waits no longer than LookPatience for the
// answer. Snapshots are looked at beside the others: that EC2 does not answer for them is no error.
func (r *Reader) lookNow(ctx context.Context, clusterUID, flight string, at IDs) (Inventory, error) {
	wait, cancel := context.WithTimeout(ctx, r.freshness.patience)
	defer cancel()
	beside := r.lookAtSnapshots(ctx, "snapshots of "+clusterUID, at.Snapshots)
	at.Snapshots = nil
	err := r.lookAtMoving(ctx, wait, flight, at)
	if err != nil {
		return r.Known(clusterUID), r.reported(err)
	}
	select {
	case <-beside:
	case <-wait.Done():
	}
	return r.Known(clusterUID), r.reported(r.freshness.troubled())
}

// lookAtMoving looks at instances, volumes and security groups, and waits for the answer as long as wait allows.
func (r *Reader) lookAtMoving(ctx, wait context.Context, flight string, at IDs) error {
	if at.empty() {
		return nil
	}
	if err := r.freshness.recentFailure(&r.freshness.looked, lookPause); err != nil {
		return err
	}
	done := r.flights.DoChan(flight, func() (any, error) {
		err := r.LookAgain(context.WithoutCancel(ctx), at)
		r.freshness.conclude(&r.freshness.looked, err)
		return nil, err
	})
	select {
	case result := <-done:
		return result.Err
	case <-wait.Done():
		return ctx.Err()
	}
}

// lookAtSnapshots looks at snapshots, and returns what is closed, or gets a value, when that is done. After a failure EC2 is not asked
// for a moment, and the next sweep says more.
func (r *Reader) lookAtSnapshots(ctx context.Context, flight string, ids []string) <-chan singleflight.Result {
	f := r.freshness
	if len(ids) == 0 || f.recentFailure(&f.lookedBeside, lookPause) != nil {
		done := make(chan singleflight.Result)
		close(done)
		return done
	}
	return r.flights.DoChan(flight, func() (any, error) {
		err := r.Snapshots.look(context.WithoutCancel(ctx), ids)
		f.record(&f.lookedBeside, err)
		return nil, err
	})
}

// everything are the instances and volumes that can still change by themselves.
func everything(inv Inventory) IDs {
	var ids IDs
	for _, i := range inv.Instances {
		if i.State != StateTerminated {
			ids.Instances = append(ids.Instances, i.ID)
		}
	}
	for _, v := range inv.Volumes {
		ids.Volumes = append(ids.Volumes, v.ID)
	}
	return ids
}

func inTransition(inv Inventory) IDs {
	var ids IDs
	ended := map[string]bool{}
	for _, i := range inv.Instances {
		switch i.State {
		case StatePending, StateStopping, StateShuttingDown:
			ids.Instances = append(ids.Instances, i.ID)
		}
		ended[i.ID] = i.State == StateShuttingDown || i.State == StateTerminated
	}
	for _, v := range inv.Volumes {
		// The end of an instance detaches its volumes, without a word of their own.
		if ended[v.AttachedTo] || v.State == VolumeCreating || v.State == VolumeDeleting || attachMoves(v.AttachState) {
			ids.Volumes = append(ids.Volumes, v.ID)
		}
	}
	for _, s := range inv.Snapshots {
		if s.State == SnapshotPending {
			ids.Snapshots = append(ids.Snapshots, s.ID)
		}
	}
	return ids
}

func attachMoves(state string) bool {
	return state == AttachAttaching || state == AttachDetaching || state == AttachBusy
}
