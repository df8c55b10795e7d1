package inventory

import (
	"cmp"
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
// answers for instances and not for something else, that error comes with what the look has shown.
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

// lookNow looks at some of a cluster's things, in flights named by flight, and waits no longer than LookPatience for the answers. Each
// kind is asked for by itself: EC2 may answer for one and not for another. That it does not answer for snapshots is no error.
func (r *Reader) lookNow(ctx context.Context, clusterUID, flight string, at IDs) (Inventory, error) {
	wait, cancel := context.WithTimeout(ctx, r.freshness.patience)
	defer cancel()
	kinds := &r.freshness.looked
	needed := []<-chan singleflight.Result{
		r.beginLook(ctx, &kinds.instances, flight+", instances", at.Instances, r.Instances.look),
		r.beginLook(ctx, &kinds.volumes, flight+", volumes", at.Volumes, r.Volumes.look),
	}
	beside := r.beginLook(ctx, &kinds.snapshots, flight+", snapshots", at.Snapshots, r.Snapshots.look)
	var err error
	for _, look := range needed {
		select {
		case result := <-look:
			err = cmp.Or(err, result.Err)
		case <-wait.Done():
			err = cmp.Or(err, ctx.Err())
		}
	}
	if err != nil {
		return r.Known(clusterUID), r.reported(err)
	}
	select {
	case <-beside:
	case <-wait.Done():
	}
	return r.Known(clusterUID), r.reported(r.freshness.troubled())
}

// beginLook begins to look at things of one kind, and returns what gets the outcome. Without ids it gets nil; after a failure EC2 is not
// asked for a moment, and it gets that failure.
func (r *Reader) beginLook(ctx context.Context, last *reading, flight string, ids []string, look func(context.Context, []string) error) <-chan singleflight.Result {
	err := r.freshness.recentFailure(last, lookPause)
	if len(ids) == 0 || err != nil {
		done := make(chan singleflight.Result, 1)
		if len(ids) == 0 {
			err = nil
		}
		done <- singleflight.Result{Err: err}
		return done
	}
	return r.flights.DoChan(flight, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		err := r.ofStoredAccount(ctx)
		if err == nil {
			err = look(ctx, ids)
		}
		r.freshness.concludeLook(last, err)
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
