package model

import "hash/maphash"

// renaming gives each member another number. Members are alike: states that a renaming turns into each other are one.
type renaming struct {
	to, from [maxMembers]uint8
	sets     [1 << maxMembers]members // the renaming of every set of members
}

// one renames a member, and leaves nobody as it is.
func (r *renaming) one(m uint8) uint8 {
	if m == nobody {
		return m
	}
	return r.to[m]
}

// renamings returns all of them for a number of members.
func renamings(n int) []renaming {
	var all []renaming
	for _, order := range permutations(n) {
		var r renaming
		for m, q := range order {
			r.to[m], r.from[q] = q, uint8(m)
		}
		for set := range r.sets {
			for m := range n {
				if members(set).has(m) {
					r.sets[set] |= 1 << r.to[m]
				}
			}
		}
		all = append(all, r)
	}
	return all
}

func permutations(n int) [][]uint8 {
	if n == 0 {
		return [][]uint8{{}}
	}
	var all [][]uint8
	for _, p := range permutations(n - 1) {
		for i := range n {
			q := append([]uint8{}, p[:i]...)
			q = append(q, uint8(n-1))
			all = append(all, append(q, p[i:]...))
		}
	}
	return all
}

// seed differs in each process: two states that share a fingerprint by accident do not share it in the next run.
var seed = maphash.MakeSeed()

// canonical is the fingerprint that a state shares with those which a renaming turns it into. Two other states have the same one with
// a probability of 2⁻⁶⁴. Only renamings that sort the members by rank are tried, most often a single one.
func (m *Model) canonical(s *state) uint64 {
	var ranks [maxMembers]uint64
	for i := range m.bounds.Members {
		ranks[i] = s.rank(i)
	}
	least := ^uint64(0)
	var buffer [512]byte
	for i := range m.renamers {
		if r := &m.renamers[i]; r.sorts(ranks[:m.bounds.Members]) {
			least = min(least, maphash.Bytes(seed, m.encode(buffer[:0], s, r)))
		}
	}
	return max(least, 1) // 0 is an empty place in the set of states
}

// rank is a number that a member keeps when the members are renamed. It is made of what distinguishes members most often.
func (s *state) rank(m int) uint64 {
	mem := &s.member[m]
	own := byte(0)
	if int(s.leads) == m {
		own = 1
	}
	rank := uint64(0)
	for _, b := range []byte{own, mem.flags(), mem.held, mem.executed, mem.memory} {
		rank = rank<<8 | uint64(b)
	}
	return rank
}

// sorts says whether a renaming puts the members in the order of their ranks.
func (r *renaming) sorts(ranks []uint64) bool {
	for q := 1; q < len(ranks); q++ {
		if ranks[r.from[q-1]] > ranks[r.from[q]] {
			return false
		}
	}
	return true
}

// encode appends everything of a state, with the members renamed.
func (m *Model) encode(b []byte, s *state, r *renaming) []byte {
	n := m.bounds.Members
	b = append(b, s.count)
	for id := range int(s.count) {
		b = s.transaction[id].encode(b, r, n)
	}
	for q := range n {
		b = s.member[r.from[q]].encode(b, r, n)
	}
	rec, p, c, u := &s.records, &s.promotion, &s.certifying, &s.spent
	b = append(b, rec.epoch, r.one(rec.leader), rec.leaderEpoch, flag(rec.doubted, 0)|flag(rec.aloneUnknown, 1), r.one(rec.leaving))
	b = append(b, byte(rec.acknowledged), byte(rec.acknowledged>>8), flag(rec.ended.known, 0), rec.ended.leaderEpoch)
	b = append(b, byte(rec.ended.acknowledged), byte(rec.ended.acknowledged>>8))
	if rec.ended.known {
		b = append(b, r.one(rec.ended.leader))
	}
	for q := range n {
		b = append(b, rec.certified[r.from[q]])
	}
	b = append(b, byte(p.stage), r.one(p.candidate), p.rowEpoch, byte(p.mustHold), byte(p.mustHold>>8))
	b = append(b, r.one(c.voter), c.memory, byte(c.mustHold), byte(c.mustHold>>8))
	if c.voter != nobody {
		b = append(b, r.one(c.primary))
	}
	b = append(b, byte(s.acknowledged), byte(s.acknowledged>>8), r.one(s.leads))
	return append(b, u.writes, u.powerCuts, u.kills, u.promotions, u.lostRecords, u.certificates, u.voterChanges)
}

func (t *transaction) encode(b []byte, r *renaming, n int) []byte {
	b = append(b, r.one(t.server))
	if !t.isRow {
		return append(b, 0)
	}
	b = append(b, 1, t.row.epoch, r.one(t.row.primary), byte(r.sets[t.row.voters]), byte(r.sets[t.row.previous]))
	for q := range n {
		b = append(b, t.row.memory[r.from[q]])
	}
	return b
}

func (mem *member) encode(b []byte, r *renaming, n int) []byte {
	b = append(b, mem.held, mem.executed, mem.memory, r.one(mem.source), mem.waitFor, mem.flags())
	b = append(b, mem.log[:mem.held]...)
	for q := range n {
		b = append(b, mem.sent[r.from[q]], mem.answered[r.from[q]])
	}
	return b
}

func (mem *member) flags() byte {
	return flag(mem.writable, 0) | flag(mem.channel, 1) | flag(mem.receiving, 2) | flag(mem.acknowledging, 3) | flag(mem.synced, 4)
}

func flag(on bool, bit int) byte {
	if on {
		return 1 << bit
	}
	return 0
}
