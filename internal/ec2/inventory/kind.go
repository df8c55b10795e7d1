package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// Kind are the things of one kind: what the store knows of them, and the call that lists them.
type Kind[T any] struct {
	// name is what messages call one.
	name string
	// idFilter is EC2's filter by their ids.
	idFilter string
	clock    clock.PassiveClock
	store    *store
	table    *table[T]
	list     func(context.Context, ...types.Filter) (map[string]T, error)
}

// Get is one that the store knows.
func (k *Kind[T]) Get(id string) (v T, ok bool) {
	k.store.read(func() { v, ok = k.table.get(id) })
	return v, ok
}

// Of are those of a cluster that the store knows, by id.
func (k *Kind[T]) Of(clusterUID string) (all []T) {
	k.store.read(func() { all = k.table.owned(clusterUID) })
	return all
}

// List asks EC2 for those that filters let through, by their ids.
func (k *Kind[T]) List(ctx context.Context, filters ...types.Filter) (map[string]T, error) {
	return k.list(ctx, filters...)
}

// idsPerCall is EC2's limit on the values of one filter.
const idsPerCall = 200

// ByID asks EC2 for those with these ids, whoever's they are. It goes by a filter: one that EC2 does not know is then absent from the
// answer, where the call by ids would fail as a whole.
func (k *Kind[T]) ByID(ctx context.Context, ids ...string) (map[string]T, error) {
	return byID(ctx, k.idFilter, ids, k.list)
}

func byID[T any](ctx context.Context, name string, ids []string, list func(context.Context, ...types.Filter) (map[string]T, error)) (map[string]T, error) {
	out := make(map[string]T, len(ids))
	for batch := range slices.Chunk(ids, idsPerCall) {
		found, err := list(ctx, awsapi.Filter(name, batch...))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, found)
	}
	return out, nil
}

// exists says whether EC2 lists one. Where that gets no answer, it is taken to exist.
func (k *Kind[T]) exists(ctx context.Context, id string) bool {
	found, err := k.ByID(awsapi.BeforeWrite(ctx), id) // a pass waits for it
	_, ok := found[id]
	return ok || err != nil
}

// Owned is a cluster's as the store (else EC2) knows it, for a write; an error of class NotFound when neither does, and ErrForeign when
// it is not that cluster's by its tag.
func (k *Kind[T]) Owned(ctx context.Context, clusterUID, id string) (T, error) {
	v, ok := k.Get(id)
	if !ok {
		found, err := k.ByID(awsapi.BeforeWrite(ctx), id)
		if err != nil {
			return v, err
		}
		if v, ok = found[id]; !ok {
			return v, &awsapi.Error{Class: awsapi.NotFound, Text: fmt.Sprintf("%s %s does not exist", k.name, id)}
		}
	}
	return v, k.RequireOwned(clusterUID, id, v)
}

// RequireOwned refuses what does not carry a cluster's own tag. Every call that changes or copies something for that
// cluster passes here first: where the id came from does not matter then.
func (k *Kind[T]) RequireOwned(clusterUID, id string, v T) error {
	switch k.table.tags(v)[v1alpha1.TagClusterUID] {
	case "":
		return fmt.Errorf("%s %s has no tag %s: %w", k.name, id, v1alpha1.TagClusterUID, awsapi.ErrForeign)
	case clusterUID:
		return nil
	}
	return fmt.Errorf("%s %s carries the tag %s of another cluster: %w", k.name, id, v1alpha1.TagClusterUID, awsapi.ErrForeign)
}

// Created takes what EC2 has just created into the store, where it is believed in although the lists do not show it yet. The answer
// to a repeated client token can be as old as the first one.
func (k *Kind[T]) Created(id string, v T) {
	k.store.do(func() { k.table.bear(id, v, k.clock.Now()) })
}

// Found takes what EC2 has just shown into the store.
func (k *Kind[T]) Found(id string, v T) {
	k.store.do(func() { k.table.put(id, v, time.Time{}, k.clock.Now()) })
}

// Changed changes what the store knows of one, as EC2 has just answered a write.
func (k *Kind[T]) Changed(id string, change func(*T)) {
	k.store.do(func() { k.table.update(id, k.clock.Now(), change) })
}

// Deleted drops one from the store.
func (k *Kind[T]) Deleted(id string) {
	k.store.do(func() { k.table.remove(id) })
}

// look asks for ids and takes the answer over: what EC2 does not know is dropped from the store unless it is fresh. No call is made
// without ids.
func (k *Kind[T]) look(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	began := k.clock.Now()
	found, err := k.ByID(ctx, ids...)
	if err != nil {
		return err
	}
	k.store.do(func() { k.table.confirm(ids, began, k.clock.Now(), found) })
	return nil
}

// adopt takes the one with an id into the store if it carries the tag of a cluster.
func (k *Kind[T]) adopt(ctx context.Context, id string) error {
	found, err := k.ByID(ctx, id)
	if err != nil {
		return err
	}
	if v, ok := found[id]; ok && k.table.tags(v)[v1alpha1.TagClusterUID] != "" {
		k.Found(id, v)
	}
	return nil
}

// sweep lists all that are ours and returns what takes them over into the store; see table.replace.
func (k *Kind[T]) sweep(ctx context.Context) (takeOver, error) {
	found, err := k.list(ctx, awsapi.OwnedFilter())
	return func(began, now time.Time) []string { return k.table.replace(began, now, found) }, err
}
