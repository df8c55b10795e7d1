package simulation

import (
	"context"
	"errors"
	"strconv"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// keptVersions is how many versions of the records a cache may show.
	keptVersions = 8
	// cacheLags is how often in a hundred reads the cache shows what was, and cacheLag how long ago at the most, in milliseconds.
	cacheLags = 10
	cacheLag  = 3 * second
	// answersLost is how often in a hundred writes the API server's answer is lost.
	answersLost = 0.5
)

var errNoAnswer = errors.New("the API server does not answer")

// records are those of the present pass.
func (op *operator) records() topology.ClusterRecord { return op.stored.Now() }

// openRecords reads the records at the beginning of a pass.
func (op *operator) openRecords(p *process) error {
	w := op.w
	op.stored = &engine.Recorder{
		Store: configMap{op}, Memory: op.memory, WriterID: op.name,
		Lease: func(ctx context.Context) error { return processOf(ctx).holdsLease() },
	}
	if _, err := op.stored.Open(p.context(), w.kube.claimed); err != nil {
		return err
	}
	op.point(p)
	w.kube.claimed = true
	return nil
}

// recordVersion is a version of the members ConfigMap.
type recordVersion struct {
	at      int64
	version int
}

// setRecords stores records, whoever does.
func (k *kube) setRecords(records topology.ClusterRecord, now int64) {
	k.version++
	k.records, k.gone, k.lost = records, false, false
	k.past = append(k.past[max(0, len(k.past)-keptVersions+1):], recordVersion{now, k.version})
}

// configMap is the members ConfigMap as an operator reads it from its cache.
type configMap struct{ op *operator }

func (c configMap) Version(context.Context) (string, error) {
	w := c.op.w
	k := &w.kube
	if k.gone || k.version == 0 {
		return "", nil
	}
	shown := k.version
	if len(k.past) > 0 && w.chance(cacheLags) {
		at := max(w.now-w.between(0, cacheLag), c.op.born)
		for _, past := range k.past {
			if past.at <= at {
				shown = past.version
			}
		}
	}
	return strconv.Itoa(shown), nil
}

func (c configMap) Read(ctx context.Context) (engine.StoredRecords, error) {
	p, k := processOf(ctx), &c.op.w.kube
	c.op.point(p)
	p.sleep(c.op.w.between(1, 20))
	if k.gone || k.version == 0 {
		return engine.StoredRecords{}, nil
	}
	return engine.StoredRecords{Found: true, Readable: true, Records: k.records.Clone(), Version: strconv.Itoa(k.version)}, nil
}

func (c configMap) Write(ctx context.Context, version string, records topology.ClusterRecord) (string, error) {
	p, w := processOf(ctx), c.op.w
	c.op.point(p)
	p.sleep(w.between(1, 20))
	present := ""
	if !w.kube.gone && w.kube.version > 0 {
		present = strconv.Itoa(w.kube.version)
	}
	if version != present {
		return "", engine.ErrConflict
	}
	w.kube.setRecords(records.Clone(), w.now)
	written := strconv.Itoa(w.kube.version)
	if w.chance(answersLost) {
		w.say("%s: the answer to a write of the records is lost", c.op.name)
		return "", errNoAnswer
	}
	c.op.point(p)
	return written, nil
}

// turnstile is a lock of processes.
type turnstile struct{ busy bool }

func (t *turnstile) Lock(ctx context.Context) {
	for t.busy {
		processOf(ctx).sleep(1)
	}
	t.busy = true
}

func (t *turnstile) Unlock() { t.busy = false }
