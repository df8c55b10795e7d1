package ec2

import (
	"context"
	"fmt"
	"time"
)

// refreshFloor is the shortest time between two refreshes of one cluster. Reconciles come as fast as Kubernetes' watches
// fire; EC2's states change in seconds.
const refreshFloor = 500 * time.Millisecond

// Refresh looks by id at those of a cluster's things that are on their way from one state to another, and returns the
// Inventory. When none is, or when the last refresh was less than half a second ago, it makes no call. As with Observe,
// an error comes with the last known Inventory, and right after a failure it is returned without a call.
func (c *Cloud) Refresh(ctx context.Context, clusterUID string) (Inventory, error) {
	before := c.store.inventory(clusterUID)
	moving := inTransition(before)
	if moving.empty() || !c.mayRefresh(clusterUID) {
		return before, nil
	}
	err := c.recentFailure()
	if err == nil {
		err = c.lookAgain(ctx, moving)
		c.noteReading(err)
	}
	if err != nil {
		err = fmt.Errorf("refresh the state of EC2 in %s: %w", c.region, err)
	}
	return c.store.inventory(clusterUID), err
}

func (c *Cloud) mayRefresh(clusterUID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.refreshed[clusterUID]) < refreshFloor {
		return false
	}
	for uid, at := range c.refreshed {
		if now.Sub(at) > freshFor {
			delete(c.refreshed, uid)
		}
	}
	c.refreshed[clusterUID] = now
	return true
}

func inTransition(inv Inventory) lost {
	var l lost
	ended := map[string]bool{}
	for _, i := range inv.Instances {
		switch i.State {
		case StatePending, StateStopping, StateShuttingDown:
			l.instances = append(l.instances, i.ID)
		}
		ended[i.ID] = i.State == StateShuttingDown || i.State == StateTerminated
	}
	for _, v := range inv.Volumes {
		// The end of an instance detaches its volumes, without a word of their own.
		if ended[v.AttachedTo] || v.State == VolumeCreating || v.State == VolumeDeleting || attachMoves(v.AttachState) {
			l.volumes = append(l.volumes, v.ID)
		}
	}
	for _, s := range inv.Snapshots {
		if s.State == SnapshotPending {
			l.snapshots = append(l.snapshots, s.ID)
		}
	}
	return l
}

func attachMoves(state string) bool {
	return state == AttachAttaching || state == AttachDetaching || state == AttachBusy
}
