package simulation

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// flushSeed begins the numbers from which is drawn what people run on replicas.
const flushSeed = 0x666c7573

// flushed says whether people, or agents, run statements on replicas in a schedule that change no data and get into the binary log, among
// some that do change data. None of those that broke something before is among these, so that each goes on telling its story.
func flushed(schedule uint64) bool { return schedule%31 == 11 }

// flushing is what they run.
type flushing struct {
	w   *world
	rng *rand.Rand
}

// drawFlushes lets them come, in some schedules. In some the operator dies or freezes while it deals with it.
func drawFlushes(w *world, seed, schedule uint64) {
	if !flushed(schedule) {
		return
	}
	f := flushing{w, rand.New(rand.NewPCG(seed^flushSeed, schedule))}
	for range 2 + f.rng.IntN(6) {
		w.after(f.rng.Int64N(w.shape.span+1), f.once)
	}
	if w.scenario == nil && f.rng.IntN(2) == 0 {
		w.aimed = aim{kind: "AdoptHarmless", calls: 1 + f.rng.IntN(12)}
		if f.rng.IntN(3) == 0 {
			w.aimed.freeze = (5 + f.rng.Int64N(30)) * second
		}
	}
}

// once runs one statement on some replica.
func (f flushing) once() {
	w := f.w
	node, other, kind := f.rng.IntN(w.desired.Replicas), f.rng.IntN(w.desired.Replicas), f.rng.IntN(6)
	s := w.serverOf(node)
	if w.healed > 0 || s == nil || !mayBeWrittenTo(s) {
		return
	}
	switch kind {
	case 0:
		w.say("PEOPLE: %s: rows are written to a replica", s.on.member)
		writeByHand(s, false)
	case 1:
		// What people do who read how errant transactions are got rid of, and do it in the wrong place.
		t := writeByHand(s, false)
		w.say("PEOPLE: %s: rows are written to a replica", s.on.member)
		if to := w.serverOf(other); to != nil && to != s && mayBeWrittenTo(to) {
			w.say("PEOPLE: %s: an empty transaction with the same GTID", to.on.member)
			covered := s.st.binlog[len(s.st.binlog)-1]
			t.harmless = true
			logByHand(to, t)
			w.ledger.covered.by[covered] = to.st.binlog[len(to.st.binlog)-1]
		}
	default:
		w.say("PEOPLE: %s: FLUSH STATUS on a replica", s.on.member)
		writeByHand(s, true)
	}
}

// mayBeWrittenTo says whether a person may get something into a replica's binary log. Before the first row is written nobody but the
// operator has an account.
func mayBeWrittenTo(s *mysqld) bool {
	return s.st.row != nil && s.w.shape.volumesLost == 0 && !s.writable && s.st.committed == len(s.st.binlog) && !s.st.hollow
}

// writeByHand commits a transaction that nobody else has. A harmless one changes no data.
func writeByHand(s *mysqld, harmless bool) transaction {
	return logByHand(s, transaction{uuid: s.st.uuid, number: s.w.ledger.next(s.st.uuid, s.st.executed.bitset), client: -1, harmless: harmless})
}

func logByHand(s *mysqld, t transaction) transaction {
	id := s.w.ledger.record(t)
	s.st.binlog = append(s.st.binlog, id)
	s.st.committed = len(s.st.binlog)
	s.execute(id)
	s.w.wake()
	return t
}

// LoggedTransactions is what *admin.Member does.
func (m *member) LoggedTransactions(ctx context.Context, gtids string) (found []mysql.LoggedTransaction, err error) {
	wanted := m.op.w.ledger.parse(gtids)
	err = m.exchange(processOf(ctx), func(s *mysqld) error {
		for _, id := range s.st.binlog[:s.st.committed] {
			t := s.w.ledger.all[id]
			text := gtidText(t)
			if !wanted.Contains(gtid.MustParse(text)) {
				continue
			}
			logged := mysql.LoggedTransaction{GTID: text, Statements: []string{"BEGIN"}, Others: 3}
			if t.harmless {
				logged.Statements, logged.Others = []string{"FLUSH STATUS"}, 0
			}
			found = append(found, logged)
		}
		return nil
	})
	return found, err
}

func gtidText(t transaction) string { return uuidText(t.uuid) + ":" + strconv.Itoa(t.number) }

// coverAfter is how long an adopted transaction may wait before an empty one follows it.
const coverAfter = 100

// AdoptTransactions is what *admin.Member does.
func (m *member) AdoptTransactions(ctx context.Context, gtids []string) error {
	return m.control(ctx, func(c writer) error {
		if err := c.refuseStranded(); err != nil {
			return err
		}
		for _, text := range gtids {
			if err := adopt(m, c, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// RetireTransactions is what *admin.Member does, but for the record: nobody archives here.
func (m *member) RetireTransactions(ctx context.Context, gtids []string) error {
	return m.AdoptTransactions(ctx, gtids)
}

// adopt commits an empty transaction with another server's GTID.
func adopt(m *member, c writer, text string) error {
	var adopted *commit
	if err := c.do(func(s *mysqld) error {
		switch {
		case s.superReadOnly:
			return errReadOnly
		case s.w.ledger.covers(&s.st.executed, text):
			return nil
		}
		source, number, _ := strings.Cut(text, "-0000-0000-0000-000000000000:")
		uuid, err := strconv.Atoi(source)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		s.w.say("%s: on %s: adopt %s", m.op.name, s.on.member, text)
		adopted = s.log(transaction{uuid: uuid, number: n, client: -1, harmless: true}, nil)
		return nil
	}); err != nil || adopted == nil {
		return err
	}
	if c.p.sleep(coverAfter); adopted.done {
		return nil
	}
	err := m.commit(c.p, func(*mysqld) (*transaction, error) { return &transaction{}, nil })
	if err == nil && !adopted.done {
		err = errHangUp
	}
	return err
}
