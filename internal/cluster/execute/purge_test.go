package execute

import (
	"fmt"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestTheArchiveNeedsTheBinaryLogs until it holds what is in them, or almost nothing is left of the disk.
func TestTheArchiveNeedsTheBinaryLogs(t *testing.T) {
	disk := func(free uint64) *topology.Disk { return &topology.Disk{SizeBytes: 1000, FreeBytes: free} }
	for name, row := range map[string]struct {
		purge
		archived int // logs that the archive holds, of three that the replicas do not need
		want     string
	}{
		"no archive":                    {purge{disk: disk(10)}, 0, "3 0"},
		"an archive that is behind":     {purge{archives: true, disk: disk(100)}, 0, "0 0"},
		"what it holds":                 {purge{archives: true, disk: disk(100)}, 2, "2 0"},
		"what it holds, on a full disk": {purge{archives: true, disk: disk(10)}, 2, "2 0"},
		"the last resort":               {purge{archives: true, disk: disk(10)}, 0, "1 1"},
		"a disk that nobody knows":      {purge{archives: true}, 0, "0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			row.replicas = []string{"a", "b"}
			removed, unarchived, err := row.run(func(executed []string, atMost int) (int, error) {
				logs := 3
				if len(executed) > 2 {
					logs = row.archived
				}
				if atMost > 0 {
					logs = min(logs, atMost)
				}
				return logs, nil
			})
			if got := fmt.Sprint(removed, unarchived); got != row.want || err != nil {
				t.Errorf("removed and not archived are %s, not %s: %v", got, row.want, err)
			}
		})
	}
}
