package announce

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// TestNoEventIsTooLong: the API server refuses an event with a longer note, and with half a character in it.
func TestNoEventIsTooLong(t *testing.T) {
	fake := events.NewFakeRecorder(1)
	Recorder{fake}.Eventf(nil, nil, corev1.EventTypeWarning, "Reason", Act, "Table %s is %d%% broken: %s", "büro", 100, strings.Repeat("ü", longestNote))
	note := strings.TrimPrefix(<-fake.Events, "Warning Reason ")
	if len(note) > longestNote || len(note) < longestNote-3 || !utf8.ValidString(note) || !strings.HasPrefix(note, "Table büro is 100% broken: ü") || !strings.HasSuffix(note, "ü…") {
		t.Errorf("the note has %d bytes: %s", len(note), note)
	}
}
