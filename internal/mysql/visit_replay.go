package mysql

import (
	"context"
	"errors"
	"fmt"
)

// ReplayGround is a server made ready to have transactions replayed: it takes the largest statements there are, and none
// of its scheduled events runs meanwhile.
type ReplayGround struct {
	v         *Visit
	packet    int64
	scheduler string
}

// schedulerQuery reads what PrepareReplay changes, and whether the scheduler is stopped by a statement or for good.
const schedulerQuery = `SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.event_scheduler,
	IFNULL((SELECT VARIABLE_SOURCE FROM performance_schema.variables_info WHERE VARIABLE_NAME = 'event_scheduler'), ''),
	IFNULL((SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables WHERE VARIABLE_NAME = 'event_scheduler'), '')`

// PrepareReplay makes a server ready that BeginRecovery has opened. Sessions that are to replay are opened after it.
func (v *Visit) PrepareReplay(ctx context.Context) (*ReplayGround, error) {
	g := &ReplayGround{v: v}
	var source, persisted string
	if err := v.s.row(ctx, schedulerQuery, nil, &g.packet, &g.scheduler, &source, &persisted); err != nil {
		return nil, fmt.Errorf("prepare the replay: %w", err)
	}
	stopped := g.scheduler == "OFF" && source == "DYNAMIC" && persisted != "OFF"
	if err := v.exec(ctx, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, GLOBAL super_read_only = OFF", maxPacket)); err != nil {
		return nil, fmt.Errorf("prepare the replay: %w", err)
	}
	if g.scheduler == "ON" {
		if err := v.exec(ctx, "SET GLOBAL event_scheduler = OFF"); err != nil {
			return nil, fmt.Errorf("prepare the replay: %w", err)
		}
	}
	if stopped { // by a replay that was cut off
		g.scheduler = "ON"
	}
	return g, nil
}

// End puts back what PrepareReplay changed.
func (g *ReplayGround) End(ctx context.Context) error {
	err := g.v.exec(ctx, "SET GLOBAL max_allowed_packet = ?", g.packet)
	if g.scheduler == "ON" {
		err = errors.Join(err, g.v.exec(ctx, "SET GLOBAL event_scheduler = ON"))
	}
	if err != nil {
		return fmt.Errorf("end the replay: %w", err)
	}
	return nil
}

// IsUnknownDatabase says whether a statement failed because there is no such database.
func IsUnknownDatabase(err error) bool { return isServerError(err, erBadDatabase) }
