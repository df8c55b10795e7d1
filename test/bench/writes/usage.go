package writes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of processor times in /proc.
const tick = time.Second / 100

// usage is processor time that was used up to a moment, or between two.
type usage struct {
	at      time.Duration // of the clock
	machine time.Duration // by everything, of all processors
	primary time.Duration // by the server that the clients write to
	replica time.Duration // by the replicas together
	clients time.Duration // by this process
}

// since is what was used after an earlier moment.
func (u usage) since(earlier usage) usage {
	return usage{u.at - earlier.at, u.machine - earlier.machine, u.primary - earlier.primary, u.replica - earlier.replica, u.clients - earlier.clients}
}

// per says how many processors a time kept busy.
func (u usage) per(used time.Duration) float64 { return used.Seconds() / max(u.at.Seconds(), 1e-9) }

// others is what is neither a server's of the variant nor the clients'.
func (u usage) others() time.Duration { return max(0, u.machine-u.primary-u.replica-u.clients) }

// used reads what was used until now. replicas are those of the variant.
func used(started time.Time, primary *node, replicas []*node) (usage, error) {
	u := usage{at: time.Since(started)}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	if u.machine, err = machineTime(string(stat)); err != nil {
		return u, err
	}
	if u.primary, err = timeOf(primary.server.PID()); err != nil {
		return u, err
	}
	for _, n := range replicas {
		t, err := timeOf(n.server.PID())
		if err != nil {
			return u, err
		}
		u.replica += t
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return u, fmt.Errorf("read this process's time: %w", err)
	}
	u.clients = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return u, nil
}

// machineTime is the time in proc(5)'s stat that processors were neither idle nor waited for a disk.
func machineTime(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var busy time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		busy += time.Duration(n) * tick
	}
	return busy, nil
}

func timeOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return processTime(string(stat))
}

// processTime is utime and stime in proc(5)'s stat of a process, whose name may hold anything.
func processTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("a process's stat is %q", stat)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("a process's stat is %q: %w", stat, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
