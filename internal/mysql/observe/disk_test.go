package observe

import (
	"testing"
	"time"
)

func TestBootReport(t *testing.T) {
	for report, want := range map[string]struct {
		boot  string
		ended bool
	}{
		"":                           {"", false},
		"one\n":                      {"one", false},
		"one\nShutdown complete\n":   {"one", true},
		"one\nShutdown incomplete\n": {"one", false},
	} {
		if boot, ended := bootOf(report); boot != want.boot || ended != want.ended {
			t.Errorf("%q: %q, %t", report, boot, ended)
		}
	}
}

func TestDiskReportThatMakesNoSense(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for report, ok := range map[string]bool{
		"1000 10 1800000000\n":                true,
		"1000 0 1800000000\n":                 true,
		"18446744073709551615 1 1800000000\n": true,
		"1000 10 1800000000":                  false, // cut off
		"":                                    false,
		"1000 10\n":                           false,
		"0 0 1800000000\n":                    false,
		"10 1000 1800000000\n":                false,
		"1000 -1 1800000000\n":                false,
		"18446744073709551616 1 1800000000\n": false,
		"1000 10 9223372036854775807\n":       false,
		"a lot\n":                             false,
	} {
		if got := diskOf(report, now); (got != nil) != ok {
			t.Errorf("%q: %+v", report, got)
		}
	}
}
