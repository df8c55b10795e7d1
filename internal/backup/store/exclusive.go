package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
)

// exclusive remembers whether a store has proven that it rejects a conditional write of an object that exists.
type exclusive struct {
	mu     sync.Mutex
	proven bool
}

// conditional is a store with the conditional writes that Create consists of.
type conditional interface {
	Store
	createAtOnce(ctx context.Context, key string) error
	createInParts(ctx context.Context, key string) error
}

// prove fails with ErrOverwrites where a store ignores If-None-Match, as several do: Create would then replace what another writer
// stored. It tries once, beside the object that is to be created, in one call and in parts.
func (e *exclusive) prove(ctx context.Context, s conditional, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proven {
		return nil
	}
	probe := key + ".probe-" + rand.Text()
	if _, err := s.Put(ctx, probe, bytes.NewReader(nil)); err != nil {
		return err
	}
	err := errors.Join(mustExist(s.URL(probe), s.createAtOnce(ctx, probe)), mustExist(s.URL(probe), s.createInParts(ctx, probe)))
	// Where nothing may be deleted, as under a retention lock, the empty object stays.
	if deletion := s.Delete(ctx, probe); err == nil && deletion != nil && !errors.Is(deletion, ErrDenied) {
		err = deletion
	}
	e.proven = err == nil
	return err
}

// mustExist turns the answer to a Create of an object that exists into what is wrong with the store.
func mustExist(url string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("create %s twice: %w", url, ErrOverwrites)
	case errors.Is(err, ErrExists):
		return nil
	}
	return err
}
