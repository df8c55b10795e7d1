package podclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// groundVariables are global variables that a server has otherwise while it is filled: it takes the largest statements there are,
// functions that do not say what they read, tables that only can be in files of their own, keys as long as a table can have, and
// whatever regular expressions in CHECKs take, and drops any role.
var groundVariables = []groundVariable{
	{"max_allowed_packet", strconv.Itoa(conn.MaxPacket), false}, {"log_bin_trust_function_creators", "1", false}, {"innodb_file_per_table", "1", false},
	{"innodb_default_row_format", "dynamic", true}, {"regexp_time_limit", "0", false}, {"regexp_stack_limit", "0", false}, {"mandatory_roles", "", true},
}

type groundVariable struct {
	name, during string
	text         bool
}

// set is the assignment of a value.
func (g groundVariable) set(value string) string {
	if g.text {
		value = conn.QuoteText(value)
	}
	return "GLOBAL " + g.name + " = " + value
}

// Ground is a server made ready to be filled, on which none of its scheduled events runs meanwhile.
type Ground struct {
	v *Visit
	// before are groundVariables as they were before any recovery changed them, by their names.
	before map[string]string
	// scheduler says whether the event scheduler is ON, OFF or DISABLED; resumes, whether End starts it.
	scheduler string
	resumes   bool
}

// groundQuery reads, besides the variables, whether the scheduler was stopped by a statement or for good, and the comment that
// PrepareGround left.
const groundQuery = `SELECT @@GLOBAL.event_scheduler,
	IFNULL((SELECT VARIABLE_SOURCE FROM performance_schema.variables_info WHERE VARIABLE_NAME = 'event_scheduler'), ''),
	IFNULL((SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables WHERE VARIABLE_NAME = 'event_scheduler'), ''),
	IFNULL((SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'recovery'), '')`

// ground reads a server as it is, and what it was before a recovery that was cut off.
func (v *Visit) ground(ctx context.Context) (*Ground, error) {
	var source, persisted, comment string
	g, query := &Ground{v: v, before: map[string]string{}}, groundQuery
	values := make([]string, len(groundVariables))
	into := []any{&g.scheduler, &source, &persisted, &comment}
	for i, variable := range groundVariables {
		query += ", @@GLOBAL." + variable.name
		into = append(into, &values[i])
	}
	if err := v.s.Row(ctx, query, nil, into...); err != nil {
		return nil, fmt.Errorf("read the server's limits: %w", err)
	}
	recorded := recordedGround(comment)
	for i, variable := range groundVariables {
		g.before[variable.name] = values[i]
		if before, known := recorded[variable.name]; known && values[i] == variable.during {
			g.before[variable.name] = before
		}
	}
	g.resumes = g.scheduler == "ON" || g.scheduler == "OFF" && source == "DYNAMIC" && persisted != "OFF"
	return g, nil
}

// recordedGround reads the comment that PrepareGround left. Older operators left the values of four variables with blanks between them.
func recordedGround(comment string) map[string]string {
	recorded := map[string]string{}
	if json.Unmarshal([]byte(comment), &recorded) == nil {
		return recorded
	}
	older := []string{"max_allowed_packet", "log_bin_trust_function_creators", "innodb_file_per_table", "mandatory_roles"}
	for i, value := range strings.SplitN(comment, " ", len(older)) {
		if comment != "" {
			recorded[older[i]] = value
		}
	}
	return recorded
}

// PrepareGround makes a server ready that a Recovery has opened. Sessions that are to fill it are opened
// after it. It records what it changes in the comment of the recovery's mark, for one that is cut off.
func (v *Visit) PrepareGround(ctx context.Context) (*Ground, error) {
	g, err := v.ground(ctx)
	if err != nil {
		return nil, err
	}
	recorded, err := json.Marshal(g.before)
	if err != nil {
		return nil, fmt.Errorf("record the server's limits: %w", err)
	}
	var settings []string
	for _, variable := range groundVariables {
		settings = append(settings, variable.set(variable.during))
	}
	statements := []string{
		"ALTER TABLE " + recoveryTable + " COMMENT = " + conn.QuoteText(string(recorded)),
		"SET " + strings.Join(settings, ", "),
	}
	for _, statement := range statements {
		if err := v.exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the server ready to be filled: %w", err)
		}
	}
	return g, g.stopEvents(ctx)
}

// stopEvents stops the event scheduler where it runs.
func (g *Ground) stopEvents(ctx context.Context) error {
	if g.scheduler != "ON" {
		return nil
	}
	if err := g.v.exec(ctx, "SET GLOBAL event_scheduler = OFF"); err != nil {
		return fmt.Errorf("stop the event scheduler: %w", err)
	}
	return nil
}

// End puts back what PrepareGround changed. Recovery.Finish comes before it: what events write then, they write to what is
// whole.
func (g *Ground) End(ctx context.Context) error {
	var err error
	for _, variable := range groundVariables {
		if before := g.before[variable.name]; before != variable.during {
			err = errors.Join(err, g.v.exec(ctx, "SET "+variable.set(before)))
		}
	}
	if g.resumes {
		err = errors.Join(err, g.v.exec(ctx, "SET GLOBAL event_scheduler = ON"))
	}
	if err != nil {
		return fmt.Errorf("put the server's limits back: %w", err)
	}
	return nil
}

// EndGround is End for a recovery that was done and cut off before it.
func (v *Visit) EndGround(ctx context.Context) error {
	g, err := v.ground(ctx)
	if err != nil {
		return err
	}
	return g.End(ctx)
}
