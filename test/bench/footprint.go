package bench

import (
	"math"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// cpuTime is what this process has used so far, stubs included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// heaps are the live bytes of this process as the heap profile estimates them: those that the stub members allocated,
// and all others.
func heaps() (operator, stubs float64) {
	runtime.GC()
	runtime.GC() // the profile shows the state of the last complete cycle
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, false); !ok; n, ok = runtime.MemProfile(records, false) {
		records = make([]runtime.MemProfileRecord, n+64)
		if n, ok = runtime.MemProfile(records, false); ok {
			records = records[:n]
			break
		}
	}
	for _, record := range records {
		objects, bytes := float64(record.InUseObjects()), float64(record.InUseBytes())
		if objects == 0 {
			continue
		}
		// One in MemProfileRate bytes is sampled; this undoes it, as pprof does.
		bytes /= 1 - math.Exp(-bytes/objects/float64(runtime.MemProfileRate))
		if ofStub(record.Stack()) {
			stubs += bytes
		} else {
			operator += bytes
		}
	}
	return operator, stubs
}

// ofStub says whether a stub member did an allocation.
func ofStub(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "/test/bench.(*member).") || strings.Contains(frame.Function, "/test/bench.(*world).add") {
			return true
		}
		if !more {
			return false
		}
	}
}
