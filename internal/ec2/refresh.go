package ec2

import (
	"context"
	"time"
)

const (
	// refreshFloor is the shortest time between two refreshes of one cluster. Reconciles come as fast as Kubernetes' watches
	// fire; EC2's states change in seconds.
	refreshFloor = 500 * time.Millisecond
	// refreshCeiling is the longest such time. In between a refresh waits for refreshPart of the time that the same things
	// have been on their way: what takes minutes is seen a few seconds late, and costs few calls.
	refreshCeiling = 5 * time.Second
	refreshPart    = 8

	// urgentFloor is the shortest time between two looks at all of one cluster, by RefreshNow.
	urgentFloor = 2 * time.Second
	// urgentRate and urgentBurst bound RefreshNow over all clusters of an account, in looks a second, each of two calls. When
	// the operator itself loses its network a thousand clusters fall silent at once; EC2's bucket of 100 list calls refills
	// by 20 a second, and the sweeps and the fences must have their share of it.
	urgentRate, urgentBurst = 4, 20
	// urgentSweep is how old the last sweep may be for the clusters that get no look of their own.
	urgentSweep = 5 * time.Second

	// lookPatience is how long a reconcile waits for a look by ids. EC2 answers sooner. When it does not, a failover must
	// not stand still for it: what it says later is in the store for the next pass.
	lookPatience = 500 * time.Millisecond
	// lookPause must pass after a look that failed before another is made.
	lookPause = 2 * time.Second
)

// Refresh looks by id at those of a cluster's things that are on their way from one state to another, and returns the
// Inventory. When none is, or when the last refresh was less than half a second ago (five, when nothing changed in the last
// forty), it makes no call. As with Observe, an error comes with the last known Inventory, and right after a failure it is
// returned without a call.
//
// It does not wait for a slow answer: the Inventory is then as it was, without an error, and what EC2 said, or that it
// did not, is known to the next call.
//
// Once EC2 could not be read the error stays until it can: a sweep every few seconds, which nobody waits for, finds out.
func (c *Cloud) Refresh(ctx context.Context, clusterUID string) (Inventory, error) {
	before := c.store.inventory(clusterUID)
	if err := c.troubled(); err != nil {
		if c.recentFailure(&c.swept, c.interval/retryPart) == nil {
			c.beginSweep(ctx)
		}
		return before, c.told(err)
	}
	moving := inTransition(before)
	if moving.empty() || !c.due(c.refreshed, clusterUID, c.pace(clusterUID, moving)) {
		return before, nil
	}
	return c.lookNow(ctx, clusterUID, "what moves of "+clusterUID, moving)
}

// RefreshNow is Refresh for a cluster whose members have fallen silent: it looks at all instances and volumes of it, so
// that one which somebody else stopped or terminated is not taken for running until the next sweep. At most once in two
// seconds for a cluster; in between it is Refresh. When many clusters ask, a sweep every few seconds serves them all.
func (c *Cloud) RefreshNow(ctx context.Context, clusterUID string) (Inventory, error) {
	all := everything(c.store.inventory(clusterUID))
	if all.empty() || c.troubled() != nil || !c.due(c.urged, clusterUID, urgentFloor) {
		return c.Refresh(ctx, clusterUID)
	}
	if !c.urgent.TryAccept() {
		c.sweepSoon(ctx)
		return c.Refresh(ctx, clusterUID)
	}
	return c.lookNow(ctx, clusterUID, "all of "+clusterUID, all)
}

// sweepSoon sweeps unless that was done a moment ago, and waits no longer than lookPatience for it.
func (c *Cloud) sweepSoon(ctx context.Context) {
	if c.sweptSince(c.clock.Now().Add(-urgentSweep)) || c.recentFailure(&c.swept, c.interval/retryPart) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	_ = c.joinSweep(ctx) // how it went is remembered, and told to whoever observes next
}

// lookNow looks at some of a cluster's things, in a flight named flight, and waits no longer than lookPatience for the
// answer.
func (c *Cloud) lookNow(ctx context.Context, clusterUID, flight string, at lost) (Inventory, error) {
	err := c.recentFailure(&c.looked, lookPause)
	if err == nil {
		done := c.flights.DoChan(flight, func() (any, error) {
			err := c.lookAgain(context.WithoutCancel(ctx), at)
			c.note(&c.looked, err)
			return nil, err
		})
		patience := time.NewTimer(c.patience)
		defer patience.Stop()
		select {
		case result := <-done:
			err = result.Err
		case <-patience.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		err = c.told(err)
	}
	return c.store.inventory(clusterUID), err
}

// pace is how long after a cluster's last refresh the next is due, with these things of it on their way.
func (c *Cloud) pace(clusterUID string, moving lost) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, what := c.clock.Now(), moving.String()
	for uid, j := range c.journeys {
		if now.Sub(j.seen) > freshFor {
			delete(c.journeys, uid)
		}
	}
	j := c.journeys[clusterUID]
	if j.what != what {
		j = journey{what: what, since: now}
	}
	j.seen = now
	c.journeys[clusterUID] = j
	return min(max(refreshFloor, now.Sub(j.since)/refreshPart), refreshCeiling)
}

// due says whether the last time that a cluster's turn came is long enough ago, and if so takes the turn.
func (c *Cloud) due(turns map[string]time.Time, clusterUID string, floor time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(turns[clusterUID]) < floor {
		return false
	}
	for uid, at := range turns {
		if now.Sub(at) > freshFor {
			delete(turns, uid)
		}
	}
	turns[clusterUID] = now
	return true
}

// everything are the instances and volumes that can still change by themselves.
func everything(inv Inventory) lost {
	var l lost
	for _, i := range inv.Instances {
		if i.State != StateTerminated {
			l.instances = append(l.instances, i.ID)
		}
	}
	for _, v := range inv.Volumes {
		l.volumes = append(l.volumes, v.ID)
	}
	return l
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
