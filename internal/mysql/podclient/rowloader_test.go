package podclient

import "testing"

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"0-1": 2, "0": 1, "0-3,8": 5, "0-3, 8-9": 6, "": 0, "3-1": 0, "many": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q are %d, not %d", list, got, want)
		}
	}
}
