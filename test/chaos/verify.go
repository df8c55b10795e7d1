package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// readTimeout bounds the reading of a member's rows.
	readTimeout = 30 * time.Second
	// CatchUp is how long a replica of a Ready cluster may take to apply what its primary has, in seconds.
	catchUp = 10
)

// errNotComparable says that a member could not be read, or has not got what the primary has: the cluster is not as Ready
// as its status says. It is no finding yet.
var errNotComparable = errors.New("the members cannot be compared")

// digest is a fingerprint of rows.
type digest struct{ count, sum uint64 }

// open connects to a member or a Service as an application does.
func (w *World) open(where target) (*sql.DB, error) { return w.access.openAt(where) }

// openAt connects to a member or a Service.
func (a access) openAt(where target) (*sql.DB, error) {
	connector, err := a.connector(where.address, where.name, readTimeout)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db, nil
}

// level waits, while clients write, until each replica has what the primary had a moment ago, so that the comparison need
// not stop them for long.
func (w *World) level(ctx context.Context, primary int, members map[int]target) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	executed := ""
	ask := func(ordinal int, question func(*sql.DB) error) error {
		db, err := w.open(members[ordinal])
		if err == nil {
			err = errors.Join(question(db), db.Close())
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errNotComparable, members[ordinal].name, err)
		}
		return nil
	}
	err := ask(primary, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT @@global.gtid_executed").Scan(&executed)
	})
	for ordinal := range members {
		if err == nil && ordinal != primary {
			err = ask(ordinal, func(db *sql.DB) error { return caughtUp(ctx, db, executed) })
		}
	}
	return err
}

// copyOfMember is what one member holds.
type copyOfMember struct {
	name     string
	executed string
	before   digest
	rows     []Row // of the round, in the order of their making
}

// verify compares the ledger with every member. The load is paused meanwhile. A difference is an error; so is
// errNotComparable, which may pass.
func (w *World) verify(ctx context.Context, primary int, members map[int]target) error {
	executed := ""
	ordinals := slices.Sorted(maps.Keys(members))
	slices.SortStableFunc(ordinals, func(a, b int) int { return boolRank(a == primary) - boolRank(b == primary) })
	var first digest
	held := map[string]string{}
	for at, ordinal := range ordinals {
		found, err := w.read(ctx, members[ordinal], at == 0, &executed)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errNotComparable, members[ordinal].name, err)
		}
		held[found.name] = found.executed
		if d := w.difference(found.rows); !d.Empty() {
			return &Loss{Member: members[ordinal].name, Difference: d}
		}
		entries := w.ledger.round(w.round)
		if found.before != w.settled {
			if err := w.verifyEarlier(ctx, members[ordinal]); err != nil {
				return err
			}
		}
		if stale, newer, bad := History(entries, found.rows); bad {
			return fmt.Errorf("server %d acknowledged %d, sent after server %d had acknowledged %d", stale.Server, stale.ID, newer.Server, newer.ID)
		}
		total := found.before.with(found.rows)
		if at == 0 {
			first = total
		} else if total != first {
			return fmt.Errorf("%s holds other rows than the primary: %+v, not %+v", found.name, total, first)
		}
	}
	if err := w.errant(ctx, members[primary], held); err != nil {
		return err
	}
	w.settled = first
	return nil
}

// difference compares the rows of the round with the ledger. Missing writes that the operator called uncovered are changed to
// that in the ledger, and are no difference any more.
func (w *World) difference(rows []Row) Difference {
	entries := w.ledger.round(w.round)
	d := Compare(entries, rows)
	if len(d.Lost) == 0 {
		return d
	}
	missing := slices.DeleteFunc(entries, func(e Entry) bool { return !slices.Contains(d.Lost, e.ID) })
	uncovered, lies := judgeMissing(missing, w.ledger.began, w.faultBegan, statementsOf(w.watch.since(w.faultBegan)))
	w.judge.add(lies...)
	w.ledger.uncover(uncovered)
	d.Lost = slices.DeleteFunc(d.Lost, func(id uint64) bool { return slices.Contains(uncovered, id) })
	return d
}

// verifyEarlier compares the rows of earlier rounds one by one. A write of unknown outcome may arrive late: what a client
// sent before it gave up is sent again by its kernel when the network is back.
func (w *World) verifyEarlier(ctx context.Context, where target) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	db, err := w.open(where)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNotComparable, where.name, err)
	}
	defer func() { _ = db.Close() }()
	rows, err := rowsOf(ctx, db, "round < ?", w.round)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNotComparable, where.name, err)
	}
	if d := Compare(w.ledger.before(w.round), rows); !d.Empty() {
		return &Loss{Member: where.name + ", earlier rounds", Difference: d}
	}
	return nil
}

func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// Loss is a difference between the ledger and a member.
type Loss struct {
	Member     string
	Difference Difference
}

// Error says what differs.
func (l *Loss) Error() string { return l.Member + ": " + l.Difference.String() }

// read reads a member's rows. Of the primary it takes what it has executed; a replica must have that, and nothing more.
func (w *World) read(ctx context.Context, where target, primary bool, executed *string) (copyOfMember, error) {
	c := copyOfMember{name: where.name}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	db, err := w.open(where)
	if err != nil {
		return c, err
	}
	defer func() { _ = db.Close() }()
	if primary {
		err = db.QueryRowContext(ctx, "SELECT @@global.gtid_executed").Scan(executed)
	} else {
		err = caughtUp(ctx, db, *executed)
	}
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT @@global.gtid_executed").Scan(&c.executed)
	}
	if err != nil {
		return c, err
	}
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*), "+sumOfRows+" FROM writes WHERE round < ?", w.round).
		Scan(&c.before.count, &c.before.sum); err != nil {
		return c, err
	}
	c.rows, err = rowsOf(ctx, db, "round = ?", w.round)
	return c, err
}

// errant looks for transactions that a replica has and the primary has not. The operator has to find them too.
func (w *World) errant(ctx context.Context, primary target, held map[string]string) error {
	db, err := w.open(primary)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNotComparable, primary.name, err)
	}
	defer func() { _ = db.Close() }()
	for name, executed := range held {
		surplus := ""
		if err := db.QueryRowContext(ctx, "SELECT GTID_SUBTRACT(?, @@global.gtid_executed)", executed).Scan(&surplus); err != nil {
			return fmt.Errorf("%w: %s: %w", errNotComparable, primary.name, err)
		}
		if surplus != "" {
			return fmt.Errorf("%w: %s holds errant transactions %s", errNotComparable, name, surplus)
		}
	}
	return nil
}

// caughtUp waits until a replica has executed a set.
func caughtUp(ctx context.Context, db *sql.DB, executed string) error {
	var late bool
	if err := db.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", executed, catchUp).Scan(&late); err != nil {
		return err
	}
	if late {
		return fmt.Errorf("it has not applied within %d s what the primary holds", catchUp)
	}
	return nil
}

// rowsOf reads the rows that meet a condition, in the order of their making.
func rowsOf(ctx context.Context, db *sql.DB, condition string, round int) ([]Row, error) {
	result, err := db.QueryContext(ctx, "SELECT id, round, worker, seq, server FROM writes WHERE "+condition+" ORDER BY pos", round)
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	var rows []Row
	for result.Next() {
		var r Row
		if err := result.Scan(&r.ID, &r.Round, &r.Worker, &r.Seq, &r.Server); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, result.Err()
}

// sumOfRows is Row.figure, added up by MySQL. It wraps at 2^63: such a run has billions of rows.
const sumOfRows = "COALESCE(CAST(SUM((id * 31 + round * 17 + worker * 7 + seq * 3 + server) % 1000003) AS UNSIGNED), 0)"

// figure is a number that changes with the row's contents.
func (r Row) figure() uint64 {
	return (r.ID*31 + uint64(r.Round)*17 + uint64(r.Worker)*7 + uint64(r.Seq)*3 + uint64(r.Server)) % 1000003 //nolint:gosec // none is negative
}

func (d digest) with(rows []Row) digest {
	for _, r := range rows {
		d.count++
		d.sum += r.figure()
	}
	return d
}
