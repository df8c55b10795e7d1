package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the garbage collector run less often: a schedule lives for milliseconds, and a third of the time went to it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(3000)
	os.Exit(m.Run())
}
