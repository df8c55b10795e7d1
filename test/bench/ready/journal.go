package ready

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stagePrefix is how the bootstrap of a member begins what it says (internal/bootstrap).
const stagePrefix = "nairobi-mysql: "

// Stages of a member's bootstrap that divide its time.
const (
	stageVolume     = "volume"     // it looks for its volume, and waits for it
	stageInitialise = "initialise" // it makes a data directory
	stageStarting   = "starting"   // mysqld is started on it
	stageStarted    = "started"    // mysqld serves
)

// moment is a stage, and when a member said so.
type moment struct {
	stage string
	at    time.Time
}

// maxJournalLine bounds a line of the journal, in bytes; mysqld's longest are a few KiB.
const maxJournalLine = 1 << 20

// readJournal finds the stages in what `journalctl --output=json` prints.
func readJournal(text []byte) ([]moment, error) {
	var moments []moment
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxJournalLine)
	for lines.Scan() {
		var entry struct {
			At      string          `json:"__REALTIME_TIMESTAMP"` // microseconds since 1970
			Message json.RawMessage `json:"MESSAGE"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		var message string
		if json.Unmarshal(entry.Message, &message) != nil {
			continue // a message that is not text is a list of bytes
		}
		stage, ok := strings.CutPrefix(strings.TrimSpace(message), stagePrefix)
		if !ok {
			continue
		}
		micros, err := strconv.ParseInt(entry.At, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the time of %q in the journal: %w", message, err)
		}
		moments = append(moments, moment{stage, time.UnixMicro(micros)})
	}
	return moments, lines.Err()
}

// bootTimeLayout is that of `systemctl show --timestamp=us+utc`.
const bootTimeLayout = "Mon 2006-01-02 15:04:05.999999 MST"

var errNotPrinted = errors.New("it does not say")

// readBootTime finds in what `systemctl show --property=UserspaceTimestamp --timestamp=us+utc` prints when the member's
// first process was started.
func readBootTime(text string) (time.Time, error) {
	value, ok := strings.CutPrefix(strings.TrimSpace(text), "UserspaceTimestamp=")
	if !ok {
		return time.Time{}, fmt.Errorf("read systemd's start from %q: %w", text, errNotPrinted)
	}
	at, err := time.Parse(bootTimeLayout, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("read systemd's start: %w", err)
	}
	return at, nil
}

// readSeconds reads seconds since 1970 with a fraction, as stat and UNIX_TIMESTAMP() print them.
func readSeconds(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(strings.TrimSpace(text), ".")
	const nanoDigits = 9
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read a time: %w", err)
	}
	nanos, err := strconv.ParseInt((fraction + strings.Repeat("0", nanoDigits))[:nanoDigits], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read a time: %w", err)
	}
	return time.Unix(seconds, nanos), nil
}
