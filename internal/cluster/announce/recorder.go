package announce

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// longestNote is what events.k8s.io accepts as a note, in bytes.
const longestNote = 1024

// Recorder shortens notes to what the API server accepts: an event with a longer one is lost.
type Recorder struct{ events.EventRecorder }

// Eventf records an event.
func (r Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventType, reason, action, "%s", text.Shorten(fmt.Sprintf(note, args...), longestNote))
}
