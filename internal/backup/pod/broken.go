package pod

import (
	"context"
	"io"
	"iter"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

// broken is a store that could not be opened: it says why whenever it is used.
type broken struct{ err error }

func (b broken) Put(context.Context, string, io.Reader) (int64, error) { return 0, b.err }
func (b broken) Create(context.Context, string, io.Reader) error       { return b.err }
func (b broken) Get(context.Context, string) (io.ReadCloser, error)    { return nil, b.err }
func (b broken) Delete(context.Context, ...string) error               { return b.err }
func (b broken) Sweep(context.Context, string) (int, error)            { return 0, b.err }
func (b broken) URL(key string) string                                 { return key }
func (b broken) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) { yield(store.Object{}, b.err) }
}
