package ready

import (
	"fmt"
	"strings"
	"time"
)

// cloneQuery reads how a member was seeded, one line for the whole and one for each stage. Times are as performance_schema
// has them, in the server's time zone; so the session must not have another.
const cloneQuery = `SELECT 'CLONE', STATE, SOURCE, UNIX_TIMESTAMP(BEGIN_TIME), UNIX_TIMESTAMP(END_TIME) FROM performance_schema.clone_status
	UNION ALL SELECT STAGE, STATE, '', UNIX_TIMESTAMP(BEGIN_TIME), UNIX_TIMESTAMP(END_TIME) FROM performance_schema.clone_progress`

// lastDonorStage is the last stage that the donor has a part in; it is free for the next CLONE then.
const lastDonorStage = "REDO COPY"

// completed is the state of a CLONE, and of a stage, that is done.
const completed = "Completed"

// clone is how a member was seeded, by its own words.
type clone struct {
	donor string // host:port
	began time.Time
	// took is the time until the member served the copy; held that part of it in which the donor was busy.
	took, held time.Duration
}

// readClone reads what cloneQuery answers, as `mysql --batch --skip-column-names` prints it. It is nil for a member that
// was never seeded.
func readClone(text string) (*clone, error) {
	var c *clone
	var donorFree time.Time
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		const columns = 5
		if len(fields) != columns {
			return nil, fmt.Errorf("read the state of CLONE from %q: not %d columns", line, columns)
		}
		what, state, source := fields[0], fields[1], fields[2]
		if what != "CLONE" && what != lastDonorStage {
			continue
		}
		if state != completed {
			return nil, fmt.Errorf("read the state of CLONE: %s is %s", what, state)
		}
		began, err := readSeconds(fields[3])
		if err != nil {
			return nil, err
		}
		ended, err := readSeconds(fields[4])
		if err != nil {
			return nil, err
		}
		if what == "CLONE" {
			c = &clone{donor: source, began: began, took: ended.Sub(began)}
		} else {
			donorFree = ended
		}
	}
	if c != nil {
		if donorFree.IsZero() {
			return nil, fmt.Errorf("read the state of CLONE: no stage %s", lastDonorStage)
		}
		c.held = donorFree.Sub(c.began)
	}
	return c, nil
}
