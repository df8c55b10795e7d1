package podclient

import (
	"context"
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// operatorsProxies are the rows of mysql.proxies_priv by which the operator's account is a proxy for everybody.
const operatorsProxies = "User = '" + mysql.OperatorUser + "' AND Proxied_host = '' AND Proxied_user = ''"

// AllowProxies are the statements that let the operator's account grant and revoke PROXY, as root@localhost may, until EndReplay. They stay out
// of the binary log.
var AllowProxies = []string{
	"SET @@SESSION.sql_log_bin = 0",
	"INSERT IGNORE INTO mysql.proxies_priv (Host, User, Proxied_host, Proxied_user, With_grant, Grantor) VALUES ('%', '" + mysql.OperatorUser + "', '', '', 1, '')",
	"FLUSH LOCAL PRIVILEGES", "SET @@SESSION.sql_log_bin = 1",
}

// EndReplay brings a server into which a ReplaySession has replayed transactions into the state of a replica that has applied them: its scheduled
// events are off. It takes back what AllowProxies gave. The connection is a Loader's from then on.
func (v *Visit) EndReplay(ctx context.Context) error {
	l, err := v.Loader(ctx)
	if err != nil {
		return err
	}
	for _, statement := range []string{"DELETE FROM mysql.proxies_priv WHERE " + operatorsProxies, "FLUSH LOCAL PRIVILEGES"} {
		if err := v.exec(ctx, statement); err != nil {
			return fmt.Errorf("take the privilege to grant PROXY back: %w", err)
		}
	}
	if err := l.switchEventsOff(ctx); err != nil {
		return fmt.Errorf("switch the scheduled events off: %w", err)
	}
	return nil
}

// switchEventsOff does to the scheduled events what MySQL does on a replica. Those of a database that is read-only cannot be altered.
func (l *Loader) switchEventsOff(ctx context.Context) error {
	r := definitionReader{s: l.v.s}
	if err := r.list(ctx, eventQuery+" AND STATUS = 'ENABLED' AND EVENT_SCHEMA NOT IN (SELECT SCHEMA_NAME FROM information_schema.SCHEMATA_EXTENSIONS WHERE OPTIONS LIKE '%READ ONLY=1%')"); err != nil {
		return err
	}
	if err := l.makeDefiners(ctx, r.found.Programs); err != nil {
		return err
	}
	for _, p := range r.found.Programs {
		if err := r.program(ctx, &p); err != nil {
			return fmt.Errorf("%s: %w", p.Title(), err)
		}
		definer, _ := p.definer()
		p.Statement = SQLText("ALTER DEFINER = " + definer.Quoted() + " EVENT " + p.quoted() + " DISABLE ON REPLICA")
		if err := l.make(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.Title(), err)
		}
	}
	return l.End(ctx, Definitions{})
}
