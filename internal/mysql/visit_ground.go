package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Ground is a server made ready to be filled: it takes the largest statements there are, and none of its scheduled events
// runs meanwhile.
type Ground struct {
	v *Visit
	// present is max_allowed_packet as it is, packet as it was before any recovery raised it.
	present, packet int64
	// scheduler says whether the event scheduler is ON, OFF or DISABLED; resumes, whether End starts it.
	scheduler string
	resumes   bool
}

// groundQuery reads what PrepareGround changes, whether the scheduler was stopped by a statement or for good, and what was
// noted of max_allowed_packet.
const groundQuery = `SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.event_scheduler,
	IFNULL((SELECT VARIABLE_SOURCE FROM performance_schema.variables_info WHERE VARIABLE_NAME = 'event_scheduler'), ''),
	IFNULL((SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables WHERE VARIABLE_NAME = 'event_scheduler'), ''),
	IFNULL((SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'nairobi_mysql' AND TABLE_NAME = 'recovery'), '')`

// ground reads a server as it is, and what it was before a recovery that was cut off.
func (v *Visit) ground(ctx context.Context) (*Ground, error) {
	g := &Ground{v: v}
	var source, persisted, noted string
	if err := v.s.row(ctx, groundQuery, nil, &g.present, &g.scheduler, &source, &persisted, &noted); err != nil {
		return nil, fmt.Errorf("read the server's limits: %w", err)
	}
	g.packet = g.present
	if before, err := strconv.ParseInt(noted, 10, 64); err == nil && g.present == maxPacket {
		g.packet = before
	}
	g.resumes = g.scheduler == "ON" || g.scheduler == "OFF" && source == "DYNAMIC" && persisted != "OFF"
	return g, nil
}

// PrepareGround makes a server ready that BeginRecovery or ResumeLoaded has opened. Sessions that are to fill it are opened
// after it. What it changes is noted in the comment of the recovery's mark, for one that is cut off.
func (v *Visit) PrepareGround(ctx context.Context) (*Ground, error) {
	g, err := v.ground(ctx)
	if err != nil {
		return nil, err
	}
	statements := []string{
		fmt.Sprintf("ALTER TABLE %s COMMENT = '%d'", recoveryTable, g.packet),
		fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", maxPacket),
	}
	if g.scheduler == "ON" {
		statements = append(statements, "SET GLOBAL event_scheduler = OFF")
	}
	for _, statement := range statements {
		if err := v.exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the server ready to be filled: %w", err)
		}
	}
	return g, nil
}

// End puts back what PrepareGround changed. FinishRecovery comes before it: what events write then, they write to what is
// whole.
func (g *Ground) End(ctx context.Context) error {
	var err error
	if g.packet != maxPacket {
		err = g.v.exec(ctx, "SET GLOBAL max_allowed_packet = ?", g.packet)
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

// IsUnknownDatabase says whether a statement failed because there is no such database.
func IsUnknownDatabase(err error) bool { return isServerError(err, erBadDatabase) }
