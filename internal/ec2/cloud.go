package ec2

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Cloud is one AWS account and region. All methods are safe for concurrent use.
type Cloud struct {
	api     API
	ssm     SSMAPI
	region  string
	clock   clock.PassiveClock
	log     logr.Logger
	metrics *metrics

	whose    *whose
	store    *store
	caches   *caches
	subnets  *subnets
	attempts *attempts

	interval time.Duration
	// sweepTimeout bounds a whole sweep, which no single caller's deadline may cut short for the others.
	sweepTimeout time.Duration
	paging       *paging
	// patience is how long a reconcile waits for a look by ids.
	patience time.Duration
	flights  singleflight.Group

	mu sync.Mutex
	// swept, looked and described are how the last sweep, the last look by ids and the last look at subnets went.
	swept, looked, described reading
	// trouble is why EC2 could not be read when that was tried last, nil after a good reading. As long as it goes on in the
	// same way it is told in the words in which it began.
	trouble error
	// refreshed and urged are when each cluster was last looked at by Refresh and by RefreshNow.
	refreshed, urged map[string]time.Time
	// journeys are what of each cluster was on its way from one state to another at the last look.
	journeys map[string]journey
	// rehearsal is what was found not to be permitted.
	rehearsal rehearsal
	// urgent bounds RefreshNow over all clusters, and launches RunInstances.
	urgent, launches flowcontrol.PassiveRateLimiter
}

// journey is what of a cluster is on its way from one state to another, since when just that is, and when it was seen last.
type journey struct {
	what        string
	since, seen time.Time
}

// reading is how a reading of EC2 went: err is nil after a good one.
type reading struct {
	err error
	at  time.Time
}

// sweepPages is how many pages' time a sweep gets before it is given up.
const sweepPages = 15

// services are the clients of one account and region, and the credentials that they use.
type services struct {
	ec2         API
	ssm         SSMAPI
	sts         STSAPI
	credentials aws.CredentialsProvider
}

func newCloud(of services, region string, o Options, m *metrics) *Cloud {
	return &Cloud{
		api: of.ec2, ssm: of.ssm, region: region,
		clock: o.Clock, log: o.Logger.WithValues("region", region), metrics: m,
		whose: &whose{sts: of.sts, credentials: of.credentials, clock: o.Clock, interval: o.SweepInterval},
		store: newStore(), caches: newCaches(), subnets: newSubnets(o.SweepInterval), attempts: newAttempts(),
		interval: o.SweepInterval, sweepTimeout: sweepPages * o.CallTimeout, paging: newPaging(o.Clock, o.SweepInterval/2), patience: lookPatience,
		refreshed: map[string]time.Time{}, urged: map[string]time.Time{}, journeys: map[string]journey{},
		urgent:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(urgentRate, urgentBurst, o.Clock),
		launches: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(launchRate, launchBurst, o.Clock),
	}
}

// Region is the region that this Cloud serves.
func (c *Cloud) Region() string { return c.region }

// requireOwned refuses what does not carry a cluster's own tag. Every call that changes or copies something for that
// cluster passes here first: where the id came from does not matter then.
func requireOwned(clusterUID, kind, id string, tags map[string]string) error {
	switch tags[v1alpha1.TagClusterUID] {
	case "":
		return fmt.Errorf("%s %s has no tag %s: %w", kind, id, v1alpha1.TagClusterUID, ErrForeign)
	case clusterUID:
		return nil
	}
	return fmt.Errorf("%s %s carries the tag %s of another cluster: %w", kind, id, v1alpha1.TagClusterUID, ErrForeign)
}

// ownedInstance is a cluster's instance as the store (else EC2) knows it; an error of class NotFound when neither does, and
// ErrForeign when it is not that cluster's.
func (c *Cloud) ownedInstance(ctx context.Context, clusterUID, id string) (Instance, error) {
	var i Instance
	var ok bool
	c.store.read(func() { i, ok = c.store.instances.get(id) })
	if !ok {
		found, err := c.instancesByID(ctx, []string{id})
		if err != nil {
			return Instance{}, err
		}
		if i, ok = found[id]; !ok {
			return Instance{}, gone("instance", id)
		}
	}
	return i, requireOwned(clusterUID, "instance", id, i.Tags)
}

// ownedVolume is ownedInstance for volumes. A root volume counts as foreign: nothing here has business with it.
func (c *Cloud) ownedVolume(ctx context.Context, clusterUID, id string) (Volume, error) {
	var v Volume
	var ok bool
	c.store.read(func() { v, ok = c.store.volumes.get(id) })
	if !ok {
		found, err := c.volumesByID(ctx, []string{id})
		if err != nil {
			return Volume{}, err
		}
		if v, ok = found[id]; !ok {
			return Volume{}, gone("volume", id)
		}
	}
	return v, requireOwned(clusterUID, "volume", id, v.Tags)
}

// ownedSnapshot is ownedInstance for snapshots.
func (c *Cloud) ownedSnapshot(ctx context.Context, clusterUID, id string) (Snapshot, error) {
	var s Snapshot
	var ok bool
	c.store.read(func() { s, ok = c.store.snapshots.get(id) })
	if !ok {
		found, err := c.snapshotsByID(ctx, []string{id})
		if err != nil {
			return Snapshot{}, err
		}
		if s, ok = found[id]; !ok {
			return Snapshot{}, gone("snapshot", id)
		}
	}
	return s, requireOwned(clusterUID, "snapshot", id, s.Tags)
}

// ownedGroup is ownedInstance for security groups.
func (c *Cloud) ownedGroup(ctx context.Context, clusterUID, id string) (group, error) {
	var g group
	var ok bool
	c.store.read(func() { g, ok = c.store.groups.get(id) })
	if !ok {
		found, err := c.groupsByID(ctx, []string{id})
		if err != nil {
			return group{}, err
		}
		if g, ok = found[id]; !ok {
			return group{}, gone("security group", id)
		}
	}
	return g, requireOwned(clusterUID, "security group", id, g.Tags)
}

func gone(kind, id string) error {
	return &Error{Class: NotFound, Text: fmt.Sprintf("%s %s does not exist", kind, id)}
}
