package ec2

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// pageSize is the largest page that EC2's list calls give.
const pageSize = 1000

// Cloud is one AWS account and region. All methods are safe for concurrent use.
type Cloud struct {
	api     API
	ssm     SSMAPI
	region  string
	clock   clock.PassiveClock
	log     logr.Logger
	metrics *metrics

	store    *store
	caches   *caches
	attempts *attempts

	interval time.Duration
	// sweepTimeout bounds a whole sweep, which no single caller's deadline may cut short for the others.
	sweepTimeout time.Duration
	page         int32
	flights      singleflight.Group

	mu        sync.Mutex
	failure   error     // of the last sweep or refresh; nil after a good one
	failedAt  time.Time // when it failed
	refreshed map[string]time.Time
}

// sweepPages is how many pages' time a sweep gets before it is given up.
const sweepPages = 15

func newCloud(api API, parameters SSMAPI, region string, o Options, m *metrics) *Cloud {
	return &Cloud{
		api: api, ssm: parameters, region: region,
		clock: o.Clock, log: o.Logger.WithValues("region", region), metrics: m,
		store: newStore(), caches: newCaches(), attempts: newAttempts(),
		interval: o.SweepInterval, sweepTimeout: sweepPages * o.CallTimeout, page: pageSize,
		refreshed: map[string]time.Time{},
	}
}

// Region is the region that this Cloud serves.
func (c *Cloud) Region() string { return c.region }

// requireOwned refuses what carries no cluster's tag. Every destructive call passes here first.
func requireOwned(kind, id string, tags map[string]string) error {
	if tags[v1alpha1.TagClusterUID] == "" {
		return fmt.Errorf("%s %s has no tag %s: %w", kind, id, v1alpha1.TagClusterUID, ErrForeign)
	}
	return nil
}

// ownedInstance is the instance as the store (else EC2) knows it; an error of class NotFound when neither does, and
// ErrForeign when it is not ours.
func (c *Cloud) ownedInstance(ctx context.Context, id string) (Instance, error) {
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
	return i, requireOwned("instance", id, i.Tags)
}

// ownedVolume is ownedInstance for volumes. A root volume counts as foreign: nothing here has business with it.
func (c *Cloud) ownedVolume(ctx context.Context, id string) (Volume, error) {
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
	return v, requireOwned("volume", id, v.Tags)
}

// ownedGroup is ownedInstance for security groups.
func (c *Cloud) ownedGroup(ctx context.Context, id string) (group, error) {
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
	return g, requireOwned("security group", id, g.Tags)
}

func gone(kind, id string) error {
	return &Error{Class: NotFound, Text: fmt.Sprintf("%s %s does not exist", kind, id)}
}
