package chaos

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the machine that a figure was measured on.
func Machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := ""
	var system unix.Sysinfo_t
	if unix.Sysinfo(&system) == nil {
		memory = fmt.Sprintf(", %d GiB", system.Totalram*uint64(system.Unit)>>30)
	}
	return fmt.Sprintf("%d × %s%s", runtime.NumCPU(), model, memory)
}

// loadAverage is how many processes ran or wanted to, on average over the last minute; 0 when nobody knows.
func loadAverage() float64 {
	var load float64
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 0
	}
	return load
}
