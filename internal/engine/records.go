package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// NoWriterID stands in the records of a new cluster for the WriterID of the process that wrote them, which distinguishes them from records that somebody emptied.
const NoWriterID = "-"

// ErrNowhere: nothing new can be stored where the records were, because it is being deleted.
var ErrNowhere = errors.New("nothing new can be stored any more")

// ErrTooLarge: the records are larger than what is read again.
var ErrTooLarge = errors.New("the records are too large")

// RecordStore is where the records of one cluster are kept.
type RecordStore interface {
	// Version is that which a cache shows, empty for none. It may lag behind.
	Version(ctx context.Context) (string, error)
	// Read returns them as they are stored.
	Read(ctx context.Context) (StoredRecords, error)
	// Write stores records in place of those of a version, which is empty where there are none, and returns the new version.
	// ErrConflict, ErrNowhere and ErrTooLarge stored nothing; after any other error nobody knows.
	Write(ctx context.Context, version string, records topology.ClusterRecord) (newVersion string, err error)
}

// StoredRecords are records as they were read.
type StoredRecords struct {
	// Found says whether there are any, Readable whether they can be decoded.
	Found, Readable bool
	Records         topology.ClusterRecord
	Version         string
	// Schema is that of Records, also where they are not readable.
	Schema int
	// Size is how long they are, in bytes.
	Size int
	// Disowned is true when somebody took the cluster off as their owner.
	Disowned bool
}

// Lock is taken by one thread at a time.
type Lock interface {
	Lock(ctx context.Context)
	Unlock()
}

// RecordMemory is what an operator process knows of the records of one cluster. From its first write on it goes by what it wrote last:
// while it leads nobody else decides, and what differs in the store is put back.
type RecordMemory struct {
	lock Lock
	// known is true once it wrote them; records are what it wrote last.
	known   bool
	records topology.ClusterRecord
	// version is that under which they are stored, empty for none.
	version string
	// unanswered is true after a write whose answer was lost, until the next that is answered. Nothing was done that rests on it.
	unanswered bool
	// nowhere is true while nothing can be stored.
	nowhere bool
}

// NewRecordMemory remembers nothing yet.
func NewRecordMemory(lock Lock) *RecordMemory { return &RecordMemory{lock: lock} }

// Recorder reads and saves the records in one pass.
type Recorder struct {
	Store  RecordStore
	Memory *RecordMemory
	// WriterID names this process, unlike any other that ever led; empty when there can be no other.
	WriterID string
	// Lease takes a fresh look at the leader's lease, and fails unless this process holds it. Nil: there is no election.
	Lease func(context.Context) error
	// Accept checks what was read, and may correct it. Nil: everything is accepted.
	Accept func(*StoredRecords) error
	// PutBack is called when records were put back that somebody had changed. Nil: nobody is told.
	PutBack func()

	now     atomic.Pointer[topology.ClusterRecord]
	version string
	// Lost is true when they are gone although the cluster was claimed before, Disowned when somebody took the cluster off as
	// their owner, edited when somebody else changed what they say, which is put back.
	Lost, Disowned bool
	edited         bool
}

// Now returns the records as this pass knows them, and saved them last. They are shared: whoever changes them changes a clone.
func (r *Recorder) Now() topology.ClusterRecord {
	if known := r.now.Load(); known != nil {
		return *known
	}
	return topology.ClusterRecord{}
}

// Set has the pass go by records.
func (r *Recorder) Set(records topology.ClusterRecord) { r.now.Store(&records) }

// Open reads the records at the beginning of a pass. A claimed cluster had some before; of one that is not they are made. It says
// whether there is anywhere to store them.
func (r *Recorder) Open(ctx context.Context, claimed bool) (stored bool, err error) {
	r.Memory.lock.Lock(ctx)
	defer r.Memory.lock.Unlock()
	found, err := r.read(ctx)
	switch {
	case err != nil:
		return false, err
	case found && claimed && r.Now().Empty():
		r.Lost = true // somebody emptied them: those of a new cluster name NoWriterID
	case found:
	case claimed && r.Memory.nowhere:
		r.Set(r.Memory.records.Clone())
	case claimed:
		if err := r.miss(ctx); err != nil {
			return false, err
		}
	default:
		if err := r.write(ctx, topology.ClusterRecord{WriterID: NoWriterID}); err != nil {
			return false, err
		}
	}
	return !r.Memory.nowhere, nil
}

// read reads the records, and says whether there are any.
func (r *Recorder) read(ctx context.Context) (bool, error) {
	m := r.Memory
	if m.version != "" {
		shown, err := r.Store.Version(ctx)
		switch {
		case err != nil:
			return false, err
		case shown == m.version:
			r.Set(m.records.Clone())
			r.version = m.version
			return true, nil
		}
	}
	read, err := r.Store.Read(ctx)
	if err != nil || !read.Found {
		return false, err
	}
	m.nowhere = false
	r.Disowned, r.version = read.Disowned, read.Version
	if m.known {
		switch ours, err := r.recognise(ctx, read); {
		case err != nil:
			return false, err
		case ours:
			r.Set(m.records.Clone())
			return true, nil
		}
	}
	return true, r.believe(read)
}

// recognise says whether to go by what this process knows, and not by what was read: both are the same, or it is put back.
func (r *Recorder) recognise(ctx context.Context, read StoredRecords) (bool, error) {
	m := r.Memory
	same := read.Version == m.version || read.Readable && read.Records.Equal(m.records)
	if !same {
		edited, err := r.isEdit(ctx, read.Records)
		r.edited = edited
		return edited, err
	}
	if !read.Disowned {
		m.version = read.Version
	}
	return true, nil
}

// believe goes by records that somebody else wrote, until this process writes them.
func (r *Recorder) believe(read StoredRecords) error {
	r.Memory.known, r.Memory.version = false, ""
	if read.Schema > topology.RecordsSchema {
		return newerRecords(read.Schema)
	}
	if !read.Readable {
		r.Lost = true // they are made again from tags
		return nil
	}
	if r.Accept != nil {
		if err := r.Accept(&read); err != nil {
			return err
		}
	}
	r.Set(read.Records.Clone())
	return nil
}

// newerRecords is the problem of records that a newer operator wrote.
func newerRecords(schema int) *Problem {
	return &Problem{Reason: v1alpha1.ReasonNewerRecords, After: AfterPerson, Message: fmt.Sprintf(
		"a newer operator has recorded the state of this cluster with schema %d; this one knows schema %d, and changes nothing. Install the newer operator again", schema, topology.RecordsSchema)}
}

// isEdit says whether somebody else than an operator wrote the records that differ from what this process wrote last: it leads still,
// so that nobody else decides. What was restored from a copy tells of another time, and what was made up of none: who is known to have
// acknowledged commits alone, and how many incarnations are used up, is nowhere else.
//
// An operator without a name cannot tell its own writes from another's.
func (r *Recorder) isEdit(ctx context.Context, records topology.ClusterRecord) (bool, error) {
	if r.WriterID == "" {
		return false, nil
	}
	if r.Lease == nil {
		return slices.Contains([]string{"", NoWriterID, r.WriterID}, records.WriterID), nil
	}
	if err := r.Lease(ctx); err != nil {
		return false, fmt.Errorf("the records are not as this process wrote them: %w", err)
	}
	return true, nil
}

// miss takes the records that this process wrote last in place of those that are gone, or else holds them for lost.
func (r *Recorder) miss(ctx context.Context) error {
	if r.Memory.known {
		switch known, err := r.isEdit(ctx, topology.ClusterRecord{}); {
		case err != nil:
			return err
		case known:
			r.Set(r.Memory.records.Clone())
			r.edited = true
			return nil
		}
	}
	r.Lost = true
	return nil
}

// Moves says whether records differ from the present ones in more than epochs. An epoch is taken whenever a row is to be written, also
// in vain: it says nothing of the outcome. Nor does the one with which a term is to begin, nor who it was that decided.
func (r *Recorder) Moves(next topology.ClusterRecord) bool {
	now := r.Now()
	next.Epoch, next.LeaderEpoch, next.WriterID = now.Epoch, now.LeaderEpoch, now.WriterID
	return !next.Equal(now)
}

// Remember saves what a plan needs before any of its actions is taken. It asks for the lease before the records become this process's
// own: one that was replaced, and does not know yet, must not take them back. They were read before, so that whoever becomes leader
// after the look has them changed, or finds ours changed. led is false when the lease is another's.
func (r *Recorder) Remember(ctx context.Context, next topology.ClusterRecord) (led bool, err error) {
	if !next.Empty() {
		next.WriterID = cmp.Or(r.WriterID, NoWriterID) // what was added here makes records of none
	}
	if next.WriterID != r.Now().WriterID && r.Lease != nil {
		if err := r.Lease(ctx); err != nil {
			return false, fmt.Errorf("take the records over: %w", err)
		}
	}
	return true, r.Save(ctx, func(records *topology.ClusterRecord) { *records = next })
}

// Save writes changed records by compare-and-swap: ErrConflict means that somebody else decided meanwhile, and
// ends the pass. Actions of several members may save at the same time.
func (r *Recorder) Save(ctx context.Context, change func(*topology.ClusterRecord)) error {
	r.Memory.lock.Lock(ctx)
	defer r.Memory.lock.Unlock()
	next := r.Now().Clone()
	change(&next)
	if next.Equal(r.Now()) && !r.Lost && !r.Disowned && !r.edited {
		return nil
	}
	unanswered := r.Memory.unanswered
	if err := r.write(ctx, next); err != nil {
		return err
	}
	if r.edited && !r.Memory.nowhere && !unanswered && r.PutBack != nil {
		r.PutBack()
	}
	r.Lost, r.Disowned, r.edited = false, false, false
	return nil
}

// write stores records. The caller holds the memory.
func (r *Recorder) write(ctx context.Context, next topology.ClusterRecord) error {
	m := r.Memory
	next.Schema = next.Needed()
	version, err := r.Store.Write(ctx, r.version, next)
	m.nowhere = errors.Is(err, ErrNowhere)
	switch {
	case err == nil, m.nowhere:
	case errors.Is(err, ErrConflict), errors.Is(err, ErrTooLarge):
		return err
	default:
		m.unanswered = true
		return err
	}
	r.Set(next)
	r.version = version
	m.known, m.records, m.version, m.unanswered = true, next.Clone(), version, false
	return nil
}
