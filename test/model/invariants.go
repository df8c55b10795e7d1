package model

import "fmt"

// lead has the clients write to a member from now on. It fails when an invariant is broken: whoever takes writes holds all that was
// acknowledged.
func (s *state) lead(m int) error {
	s.leads = uint8(m)
	if lacks := s.acknowledged &^ s.position(m); lacks != 0 {
		return fmt.Errorf("%s becomes the primary and lacks %s, which was acknowledged", name(m), lacks)
	}
	return nil
}

// leadRecorded is lead for a member that the operator goes by without a proof. The rules may allow it to lack something: too few others lack
// it as well for a commit to be acknowledged. Then its answers are judged alone.
func (t *transitions) leadRecorded(s *state, m int) error {
	if t.rules.mayLeadBehind {
		return nil
	}
	return s.lead(m)
}

// answer answers the commits of a primary that have the acknowledgements that they wait for, in the order of its binary log. It fails when
// an invariant is broken.
func (t *transitions) answer(s *state, primary int) error {
	mem := &s.member[primary]
	for mem.executed < mem.held && s.acknowledgers(primary) >= int(mem.waitFor) {
		id := int(mem.log[mem.executed])
		committed := &s.transaction[id]
		mem.executed++
		if committed.isRow {
			if committed.row.settled() {
				mem.waitFor = uint8(committed.row.voters.waitFor())
			}
			continue
		}
		s.acknowledged |= 1 << id
		if err := t.judgeAnswer(s, primary, id); err != nil {
			return err
		}
	}
	return nil
}

// judgeAnswer fails when a client must not have been answered: the member that clients write to holds all that was. So no former primary
// answers what that one lacks. Where a member may lead behind, clients write to whoever answers and holds everything.
func (t *transitions) judgeAnswer(s *state, primary, id int) error {
	if t.rules.mayLeadBehind && s.position(primary).contains(s.acknowledged) {
		s.leads = uint8(primary)
	}
	if lacks := s.acknowledged &^ s.position(int(s.leads)); lacks != 0 {
		return fmt.Errorf("%s acknowledges t%d to a client, and %s, to which clients write, lacks %s", name(primary), id, name(s.leads), lacks)
	}
	return nil
}

// acknowledgers counts the replicas whose acknowledgements of the oldest commit that waits have arrived at a primary. MySQL counts
// every replica, and an acknowledgement stands for all that is before it in the binary log.
func (s *state) acknowledgers(primary int) int {
	mem, n := &s.member[primary], 0
	for _, position := range mem.answered {
		if position > mem.executed {
			n++
		}
	}
	return n
}
