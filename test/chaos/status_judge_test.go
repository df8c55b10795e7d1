package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// moments are events for a statusJudge, in the order of their times.
type moments struct {
	judge *statusJudge
	now   time.Duration
}

// during lets an operator renew its lease, and clients write, until a second of the ledger. A letter is off when it is
// missing: a is an acknowledged write, f a failed one, r a renewal.
func (m *moments) during(until float64, what string) {
	for end := time.Duration(until * float64(time.Second)); m.now < end; m.now += time.Second / 2 {
		for _, event := range what {
			switch event {
			case 'a', 'f':
				m.judge.write(m.now, event == 'a')
			case 'r':
				m.judge.renewal(m.now, "one")
			}
		}
	}
}

func (m *moments) status(available, healthy bool) { m.judge.status(m.now, available, healthy) }

// claimsOfLies are the claims of lies, with their whole seconds.
func claimsOfLies(lies []Lie) []string {
	var text []string
	for _, l := range lies {
		text = append(text, fmt.Sprintf("%s %d-%d", l.Claim, int(l.From.Seconds()), int(l.Until.Seconds())))
	}
	return text
}

func TestAStatusThatTheLedgerDisprovesIsALie(t *testing.T) {
	// Every row begins with half a minute in which all is well and status says so. The last write is acknowledged at 29.5 s.
	for name, row := range map[string]struct {
		happens func(m *moments)
		want    []string
	}{
		"all is well": {happens: func(m *moments) { m.during(120, "ar") }},
		"a short gap": {happens: func(m *moments) { m.during(44, "fr"); m.during(60, "ar") }},
		"status says so in time": {happens: func(m *moments) {
			m.during(40, "fr")
			m.status(false, false)
			m.during(90, "fr")
		}},
		"status never says so": {
			happens: func(m *moments) { m.during(60, "fr"); m.during(70, "ar") },
			want:    []string{"Available=True 44-59", "Degraded=False 44-59"},
		},
		"status says half of it": {
			happens: func(m *moments) { m.during(40, "fr"); m.status(false, true); m.during(60, "fr") },
			want:    []string{"Degraded=False 44-59"},
		},
		"status says so late": {
			happens: func(m *moments) { m.during(50, "fr"); m.status(false, false); m.during(60, "fr") },
			want:    []string{"Available=True 44-49", "Degraded=False 44-49"},
		},
		"one write in between": {
			happens: func(m *moments) {
				m.during(50, "fr")
				m.during(50.5, "ar")
				m.status(true, false)
				m.during(70, "fr")
			},
			want: []string{"Available=True 44-49", "Degraded=False 44-49", "Available=True 65-69"},
		},
		"a new claim before the first write": {happens: func(m *moments) {
			m.during(40, "fr")
			m.status(false, false)
			m.during(60, "fr")
			m.status(true, true)
			m.during(63, "fr")
			m.during(90, "ar")
		}},
		"a new claim, and no write follows": {
			happens: func(m *moments) {
				m.during(40, "fr")
				m.status(false, false)
				m.during(60, "fr")
				m.status(true, false)
				m.during(70, "fr")
			},
			want: []string{"Available=True 65-69"},
		},
		"nobody writes":                        {happens: func(m *moments) { m.during(90, "r"); m.during(91, "fr"); m.during(100, "ar") }},
		"the API server or operator is frozen": {happens: func(m *moments) { m.during(90, "f"); m.during(104, "fr"); m.during(110, "ar") }},
		"a new leader keeps the old status": {
			happens: func(m *moments) { m.during(60, "f"); m.during(80, "fr") },
			want:    []string{"Available=True 75-79", "Degraded=False 75-79"},
		},
		"an operator that is frozen after its lie has lied until then": {
			happens: func(m *moments) { m.during(50, "fr"); m.during(90, "f") },
			want:    []string{"Available=True 44-49", "Degraded=False 44-49"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &moments{judge: newStatusJudge()}
			m.status(true, true)
			m.during(30, "ar")
			row.happens(m)
			if got := claimsOfLies(m.judge.found(0)); !slices.Equal(got, row.want) {
				t.Errorf("lies %q, want %q", got, row.want)
			}
		})
	}
}

func TestAPauseOfTheLoadIsNoSilence(t *testing.T) {
	m := &moments{judge: newStatusJudge()}
	m.status(true, true)
	m.during(30, "ar")
	m.during(42, "fr") // 12 s of silence
	for range 4 {      // pauses that are each shorter than attemptGap
		m.during(m.now.Seconds()+3, "r")
		m.judge.paused(m.now)
	}
	m.during(m.now.Seconds()+2, "fr")
	if lies := m.judge.found(0); len(lies) > 0 {
		t.Errorf("pauses count as silence: %v", lies)
	}
	m.during(m.now.Seconds()+3, "fr")
	if lies := m.judge.found(0); len(lies) != 2 {
		t.Errorf("after more than %s of silence the lies are %v", statusAllowance, lies)
	}
}

func TestNothingIsJudgedWithoutARenewal(t *testing.T) {
	m := &moments{judge: newStatusJudge()}
	m.status(true, true)
	m.during(90, "f")
	if lies := m.judge.found(0); len(lies) > 0 || m.judge.leading() {
		t.Errorf("no operator was seen, and the lies are %v", lies)
	}
}
