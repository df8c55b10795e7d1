package ready

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// member is what one member said of its way to Ready.
type member struct {
	name, address string // host:port of its mysqld
	// power is when its first process started; the others are the stages of its first start of mysqld.
	power, volume, initialise, starting, started time.Time
	// plugged is when its volume was there.
	plugged time.Time
	// clone is nil for the first member.
	clone *clone
}

var errIncomplete = errors.New("a stage is missing")

// understand puts together what a member said.
func understand(name, address string, power, plugged time.Time, moments []moment, c *clone) (member, error) {
	m := member{name: name, address: address, power: power, plugged: plugged, clone: c}
	for _, into := range []struct {
		stage string
		at    *time.Time
	}{{stageVolume, &m.volume}, {stageInitialise, &m.initialise}, {stageStarting, &m.starting}, {stageStarted, &m.started}} {
		i := slices.IndexFunc(moments, func(x moment) bool { return x.stage == into.stage })
		if i < 0 {
			return m, fmt.Errorf("%s never said %q: %w", name, into.stage, errIncomplete)
		}
		*into.at = moments[i].at
	}
	return m, nil
}

// waited is how long it had nothing to do because its volume was not there yet.
func (m member) waited() time.Duration { return max(0, m.plugged.Sub(m.volume)) }

// boot is its own time from power to the point at which it has a place for data.
func (m member) boot() time.Duration { return m.initialise.Sub(m.power) - m.waited() }

// initialised is the time in which it made its data directory, start that in which mysqld started on it.
func (m member) initialised() time.Duration { return m.starting.Sub(m.initialise) }
func (m member) start() time.Duration       { return m.started.Sub(m.starting) }

// piece is a part of a chain.
type piece struct {
	what string
	took time.Duration
}

// chain is work that has to be done one after the other.
type chain []piece

func (c chain) took() time.Duration {
	var sum time.Duration
	for _, p := range c {
		sum += p.took
	}
	return sum
}

func (c chain) with(what string, took time.Duration) chain {
	return append(slices.Clone(c), piece{what, took})
}

func longest(chains ...chain) chain {
	return slices.MaxFunc(chains, func(a, b chain) int { return int(a.took() - b.took()) })
}

var errNoDonor = errors.New("the donor is no member")

// longestChain is the least time that the members would have taken with nobody between them: all are powered on at once,
// each CLONE begins when both ends are up and the donor serves no other (a server serves one at a time), in the order in
// which they began.
func longestChain(members []member) (chain, error) {
	up, served := map[string]chain{}, map[string]chain{} // by address: until it serves, until it may be a donor again
	var seeded []member
	var ends []chain
	for _, m := range members {
		own := chain{}.with(m.name+" boots", m.boot()).with(m.name+" initialises", m.initialised()).with(m.name+" starts mysqld", m.start())
		up[m.address] = own
		if m.clone == nil {
			served[m.address] = own
			ends = append(ends, own)
		} else {
			seeded = append(seeded, m)
		}
	}
	slices.SortFunc(seeded, func(a, b member) int { return a.clone.began.Compare(b.clone.began) })
	for _, m := range seeded {
		donor, ok := served[m.clone.donor]
		if !ok {
			return nil, fmt.Errorf("%s was seeded from %s: %w", m.name, m.clone.donor, errNoDonor)
		}
		begins := longest(up[m.address], donor)
		served[m.clone.donor] = begins.with("the donor of "+m.name+" is busy", m.clone.held)
		served[m.address] = begins.with(m.name+" is seeded by CLONE", m.clone.took)
		ends = append(ends, served[m.address])
	}
	if len(ends) == 0 {
		return nil, errIncomplete
	}
	return longest(ends...), nil
}
