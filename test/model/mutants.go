package model

// Mutant is an operator with one rule broken, and bounds within which that loses an acknowledged commit.
type Mutant struct {
	Name   string
	Rules  Rules
	Bounds Bounds
	// Steps is the length of a shortest counterexample.
	Steps int
}

// Mutants returns one for each rule that the proof rests on.
func Mutants() []Mutant {
	return append(append(certificateMutants(), recordMutants()...), voterMutants()...)
}

func mutant(rules Rules, bounds Bounds, steps int, name string, change func(*Rules)) Mutant {
	change(&rules)
	rules.name += ", broken: " + name
	bounds.Members, bounds.Reached = 3, 2
	return Mutant{name, rules, bounds, steps}
}

func certificateMutants() []Mutant {
	rules := WithCertificates()
	cut := Bounds{Writes: 1, PowerCuts: 1, Promotions: 1}
	certificate := Bounds{Writes: 1, PowerCuts: 1, Kills: 1, Promotions: 1, LostRecords: 1, Certificates: 1}
	twoCuts := certificate
	twoCuts.PowerCuts = 2
	return []Mutant{
		mutant(rules, cut, 6, "memories are not compared", func(r *Rules) {
			r.certified = func(*pass, int) bool { return true }
		}),
		mutant(rules, certificate, 10, "a voter is certified before it has caught up", func(r *Rules) {
			r.certifiedHolds = func(*state, int) transactions { return 0 }
		}),
		mutant(rules, certificate, 10, "a certificate does not wait for the commits that wait at the primary", func(r *Rules) {
			r.certifiedHolds = (*state).executed
		}),
		mutant(rules, twoCuts, 12, "a certificate names the memory at the time when it is written", func(r *Rules) {
			r.certifiedMemory = func(_, present uint8) uint8 { return present }
		}),
		mutant(rules, certificate, 11, "the first row of a primary certifies the present memories of all", func(r *Rules) {
			r.firstRow = certifyAll
		}),
		mutant(rules, cut, 7, "a voter is certified without a primary", func(r *Rules) {
			r.certifiesWithoutPrimary = true
		}),
		mutant(rules, Bounds{Writes: 1, Promotions: 2}, 7, "the primary of the newest row settles a proof, whatever the records say", func(r *Rules) {
			r.settles = namedPrimary
		}),
		mutant(rules, Bounds{Writes: 1, PowerCuts: 1, Promotions: 2}, 16, "a recorded primary settles a proof before its row is in its term", func(r *Rules) {
			r.settles = recordedPrimary
		}),
		mutant(rules, Bounds{Writes: 1, PowerCuts: 1, Promotions: 1, LostRecords: 1}, 9, "a primary leads without a proof when the records know of none", func(r *Rules) {
			r.leadsUnproven = func(p *pass, m int) bool { return p.s.records.ledLast(m) || p.s.records.leader == nobody }
		}),
		mutant(rules, cut, 6, "what a candidate must hold is not compared again when it is opened", func(r *Rules) {
			r.mayOpen = rowIsNotNewer
		}),
		mutant(Upgrading(), Bounds{Writes: 1, PowerCuts: 1, Promotions: 1, Certificates: 1}, 10, "a voter stops syncing when the primary has the row that certifies it", func(r *Rules) {
			r.mayStopSyncing = primaryCertifies
		}),
	}
}

func recordMutants() []Mutant {
	rules := WithCertificates()
	return []Mutant{
		mutant(rules, Bounds{Writes: 1, PowerCuts: 1, Promotions: 1}, 7, "who is recorded settles a proof by what it holds, whatever its own proof found", func(r *Rules) {
			r.recalls = func(p *pass) (transactions, bool) {
				_, ok := recallsProof(p)
				return p.s.position(int(p.s.records.leader)), ok
			}
		}),
		mutant(rules, Bounds{Writes: 1, Kills: 1, Promotions: 1}, 8, "a member that may have been opened counts as one that was not", func(r *Rules) {
			r.unopened = func(s *state, m int) bool { return !s.member[m].writable && !inTerm(&s.records, s.shown(m)) }
		}),
	}
}

// certifyAll breaks certifyPrimary.
func certifyAll(s *state, r *row, _ int) {
	for i := range r.memory {
		r.memory[i] = s.member[i].memory
	}
}

// primaryCertifies breaks the rule that a voter stops syncing when it has itself executed a row with its certificate: a row that it can
// still forget, together with commits, leaves it as a voter that syncs.
func primaryCertifies(s *state, m int) bool {
	shown := s.shown(m)
	for i := range s.member {
		if mem := &s.member[i]; mem.writable && s.shown(i).epoch > shown.epoch {
			shown = s.shown(i)
		}
	}
	return shown.memory[m] != onDisk
}

func voterMutants() []Mutant {
	rules := WithSyncedRelayLogs()
	return []Mutant{
		mutant(rules, Bounds{Writes: 1, Promotions: 1, VoterChanges: 2}, 19, "a voter that leaves acknowledges again", func(r *Rules) {
			r.acknowledges = func(_ *state, shown *row, m int) bool { return shown.mayAcknowledge(m) }
		}),
		mutant(rules, Bounds{Writes: 1, Kills: 2, Promotions: 3, LostRecords: 1, VoterChanges: 1}, 12, "a change is confirmed because the primary shows its first row", func(r *Rules) {
			r.changeIsAcknowledged = func(*pass, int) bool { return true }
		}),
	}
}
