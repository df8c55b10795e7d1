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

// EndReplay takes back what AllowProxies gave. The connection is a Loader's from then on.
func (v *Visit) EndReplay(ctx context.Context) error {
	if _, err := v.Loader(ctx); err != nil {
		return err
	}
	for _, statement := range []string{"DELETE FROM mysql.proxies_priv WHERE " + operatorsProxies, "FLUSH LOCAL PRIVILEGES"} {
		if err := v.exec(ctx, statement); err != nil {
			return fmt.Errorf("take the privilege to grant PROXY back: %w", err)
		}
	}
	return nil
}
