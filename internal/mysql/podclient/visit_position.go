package podclient

import (
	"context"
	"fmt"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// Position is how far a server's history goes.
type Position struct {
	ServerUUID, Version string
	// Writable is true for the primary.
	Writable bool
	// Executed and Purged are GTID sets as text: of what is committed, and of what is no longer in its binary logs.
	Executed, Purged string
	// At is the server's clock.
	At time.Time
}

// Epoch reads the epoch of the cluster's membership; 0 where there is none, or it cannot be read.
func (v *Visit) Epoch(ctx context.Context) uint64 {
	if row, known := observe.ReadMembership(ctx, v.s); known && row != nil {
		return row.Epoch
	}
	return 0
}

// Position reads how far the server's history goes. It is cheap.
func (v *Visit) Position(ctx context.Context) (Position, error) {
	var p Position
	var readOnly bool
	var at string
	if err := v.s.Row(ctx, "SELECT @@server_uuid, @@version, @@GLOBAL.read_only, @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged, DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')", nil,
		&p.ServerUUID, &p.Version, &readOnly, &p.Executed, &p.Purged, &at); err != nil {
		return p, fmt.Errorf("read the server's position: %w", err)
	}
	var err error
	p.Executed, p.Purged, p.Writable = conn.Compact(p.Executed), conn.Compact(p.Purged), !readOnly
	if p.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return p, fmt.Errorf("read the server's clock: %w", err)
	}
	return p, nil
}
