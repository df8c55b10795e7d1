package observe

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestBootIsReadFromTheConsole: what a console shows is kept for the instance that showed it, with what the stage says of the boot.
func TestBootIsReadFromTheConsole(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r := &Database{Ports: &pass.Ports{Clock: clock}}
	s := &pass.Pass{Cache: pass.NewCache("uid")}
	look := func(instance, text string) topology.Boot {
		clock.Step(time.Minute)
		answer := make(chan string, 1)
		answer <- text
		s.Cache.Looks.Consoles[instance] = answer
		m := &topology.Member{Name: "orders-0"}
		r.readConsole(t.Context(), s, m, instance)
		return m.Boot
	}
	for _, step := range []struct {
		instance, text, stage string
		slow                  bool
		failure               string
	}{
		{"i-1", "nairobi-mysql: configure\n", "configure", false, ""},
		{"i-1", "nairobi-mysql: configure\nnairobi-mysql: download\n", "download", true, ""},
		{"i-1", "nairobi-mysql: download\nnairobi-mysql: failed: no room\n", "failed: no room", false, "no room"},
		{"i-1", "nairobi-mysql: failed: no room\nnairobi-mysql: download\n", "download", true, "no room"},
		{"i-2", "nairobi-mysql: initialise\n", "initialise", true, ""},
	} {
		got := look(step.instance, step.text)
		want := topology.Boot{Instance: step.instance, Stage: step.stage, Since: clock.Now(), Slow: step.slow, Failure: step.failure}
		if got != want {
			t.Errorf("it is %+v, want %+v", got, want)
		}
		if again := look(step.instance, ""); again != want {
			t.Errorf("a console that shows nothing changes it to %+v", again)
		}
	}
}
