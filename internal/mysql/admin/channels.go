package admin

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// ofOurs ends each statement about the channel by which a member follows its primary, the default one. Without it MySQL takes the statement
// to be about all channels, or refuses it (3079), once a person has made another.
const ofOurs = " FOR CHANNEL ''"

// namedChannels are those of people, such as of a migration into the primary.
func namedChannels(ctx context.Context, s *conn.Session, running bool) ([]string, error) {
	query := "SELECT CHANNEL_NAME FROM performance_schema.replication_connection_configuration WHERE CHANNEL_NAME <> ''"
	if running {
		query = `SELECT CHANNEL_NAME FROM performance_schema.replication_connection_status JOIN performance_schema.replication_applier_status applier USING (CHANNEL_NAME)
			WHERE CHANNEL_NAME <> '' AND (replication_connection_status.SERVICE_STATE <> 'OFF' OR applier.SERVICE_STATE <> 'OFF')`
	}
	var names []string
	err := s.Rows(ctx, query, nil, conn.Append(&names, func(name *string) []any { return []any{name} }))
	return names, err
}

// stopNamedChannels stops what writes to a member besides its clients: read-only holds for clients alone.
func stopNamedChannels(ctx context.Context, s *conn.Session) error {
	names, err := namedChannels(ctx, s, true)
	if err != nil {
		return err
	}
	for _, name := range names {
		s.Options().Logger.Info("stopping a replication channel of a member that is no primary any more", "channel", name)
		if err := stopThreads(ctx, s, "STOP REPLICA FOR CHANNEL ?", name); err != nil {
			return err
		}
	}
	return nil
}

// dropNamedChannels ends all channels of a replica but ours: what they write is errant.
func dropNamedChannels(ctx context.Context, s *conn.Session) error {
	if err := stopNamedChannels(ctx, s); err != nil {
		return err
	}
	names, err := namedChannels(ctx, s, false)
	if err != nil {
		return err
	}
	for _, name := range names {
		s.Options().Logger.Info("removing a replication channel of a replica", "channel", name)
		if err := s.Change(ctx, "channel/reset", "RESET REPLICA ALL FOR CHANNEL ?", name); err != nil {
			return err
		}
	}
	return nil
}
