package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Outcome is what a client was told of a write.
type Outcome byte

const (
	// Acknowledged: MySQL answered OK. The row must be there for ever.
	Acknowledged Outcome = 'A'
	// Unknown: the connection was lost, or no answer came in time. The row may be there.
	Unknown Outcome = 'U'
	// Refused: MySQL answered with an error. The row must not be there.
	Refused Outcome = 'R'
	// Uncovered: MySQL answered OK in a time of which the operator said that nobody knows what was kept. The row may be there.
	Uncovered Outcome = 'X'
)

// answered says whether the client was told that its write is committed.
func (o Outcome) answered() bool { return o == Acknowledged || o == Uncovered }

// Entry is one write that was sent.
type Entry struct {
	ID     uint64
	Round  int
	Worker int
	Seq    uint32
	// Server is the server_id of the member that the connection led to.
	Server uint32
	// Sent and Answered are times since the run began; Answered is when the client gave up if the outcome is Unknown.
	Sent, Answered time.Duration
	Outcome        Outcome
}

// Ledger holds every write that was sent, in memory and in a file beside. Safe for concurrent use.
type Ledger struct {
	began time.Time

	mu      sync.Mutex
	lastID  uint64
	entries []Entry // in the order of their answers
	pauses  []span  // in which nobody was meant to write
	file    *os.File
	lines   *bufio.Writer
}

// NewLedger begins an empty ledger and its file.
func NewLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("begin the ledger: %w", err)
	}
	return &Ledger{began: time.Now(), file: file, lines: bufio.NewWriter(file)}, nil
}

// now is the ledger's time.
func (l *Ledger) now() time.Duration { return time.Since(l.began) }

// next returns an id that was never given before.
func (l *Ledger) next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	return l.lastID
}

// record writes down the outcome of a write. The file is for people who look into a failure; the comparison uses memory.
func (l *Ledger) record(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	_, _ = fmt.Fprintf(l.lines, "%c id=%d round=%d worker=%d seq=%d server=%d sent=%.6f answered=%.6f\n",
		e.Outcome, e.ID, e.Round, e.Worker, e.Seq, e.Server, e.Sent.Seconds(), e.Answered.Seconds())
}

// uncover changes acknowledged writes to uncovered ones.
func (l *Ledger) uncover(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		if e := &l.entries[i]; e.Outcome == Acknowledged && slices.Contains(ids, e.ID) {
			e.Outcome = Uncovered
			_, _ = fmt.Fprintf(l.lines, "%c id=%d\n", e.Outcome, e.ID)
		}
	}
}

// span is a stretch of time since the run began.
type span struct{ from, to time.Duration }

// paused notes that nobody was meant to write.
func (l *Ledger) paused(from, to time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauses = append(l.pauses, span{from, to})
}

// pausesSince returns the pauses that ended at or after a time.
func (l *Ledger) pausesSince(at time.Duration) []span {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.pauses), func(s span) bool { return s.to < at })
}

// sync puts on disk what was recorded.
func (l *Ledger) sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.lines.Flush(), l.file.Sync())
}

// Close ends the file.
func (l *Ledger) Close() error {
	return errors.Join(l.sync(), l.file.Close())
}

// round returns the entries of one round.
func (l *Ledger) round(number int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Entry
	for i := len(l.entries) - 1; i >= 0 && l.entries[i].Round >= number; i-- {
		if l.entries[i].Round == number {
			found = append(found, l.entries[i])
		}
	}
	return found
}

// before returns the entries of all rounds before one.
func (l *Ledger) before(number int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.entries), func(e Entry) bool { return e.Round >= number })
}

// lastAck is when a client of the Service was last told that its write is done; 0 if never.
func (l *Ledger) lastAck() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.entries) - 1; i >= 0; i-- {
		if e := l.entries[i]; e.Outcome.answered() && e.Worker < directWorkers {
			return e.Answered
		}
	}
	return 0
}

// lastServer is the member that last acknowledged a write to a client of the Service; 0 if none did.
func (l *Ledger) lastServer() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.entries) - 1; i >= 0; i-- {
		if e := l.entries[i]; e.Outcome.answered() && e.Worker < directWorkers {
			return e.Server
		}
	}
	return 0
}
