package pass

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// mutex is a lock of goroutines.
type mutex struct{ sync.Mutex }

func (m *mutex) Lock(context.Context) { m.Mutex.Lock() }

// ownWrites recognises what this process wrote into the members ConfigMap when the watch tells of it.
type ownWrites struct {
	mu sync.Mutex
	// text is what is being written or was written last: the watch may be faster than the API server's answer.
	text string
	// versions are the newest that came of it.
	versions []string
}

// ownVersions is how many versions are kept: as many as may be written before the watch tells of the first.
const ownVersions = 16

func (w *ownWrites) Begin(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = text
}

func (w *ownWrites) End(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions = append(w.versions, version)
	w.versions = w.versions[max(0, len(w.versions)-ownVersions):]
}

func (w *ownWrites) Made(cm *corev1.ConfigMap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cm.Data[resources.KeyMembers] == w.text || slices.Contains(w.versions, cm.ResourceVersion)
}

// recordsCache is what is known of the records.
type recordsCache struct {
	// Memory are the newest records that this process wrote; written tells its writes from others'.
	Memory  *engine.RecordMemory
	Written ownWrites
}
