package archive

import (
	"fmt"
	"time"
)

// ClockTolerance is how much later than the archiver's clock a server may say that a transaction was committed. What is later still
// comes from a clock that is wrong, or from somebody who sets original_commit_timestamp.
const ClockTolerance = time.Minute

// Committed returns when a transaction of the segment was committed, by what its server says: never long after the segment was
// complete.
func (h *Header) Committed(stated time.Time) time.Time {
	if stated.Sub(h.ClosedAt) > ClockTolerance {
		return h.ClosedAt
	}
	return stated
}

// Corroborates says whether the segment was complete about when one of its transactions was committed by what its server says. A
// segment that was read long after that, or before, says nothing of it.
func (h *Header) Corroborates(stated time.Time) bool {
	return h.ClosedAt.Sub(stated).Abs() <= ClockTolerance
}

// Until returns the latest commit in the archive up to and including the segment. Earlier releases inherited any time in Reaches.
func (h *Header) Until() time.Time {
	if h.Reaches.Sub(h.ClosedAt) > ClockTolerance {
		return h.Committed(h.Last)
	}
	return h.Reaches
}

// ahead returns what to report of a segment with a time ahead.
func (h *Header) ahead() TimeAhead {
	return TimeAhead{fmt.Sprintf("%s was archived at %s, and says that it was committed at %s", h.Ahead, h.ClosedAt.Format(time.RFC3339), h.Last.UTC().Format(time.RFC3339)), h.ClosedAt}
}
