package podclient

import (
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// IsRefusal says whether an error is an answer of the server.
func IsRefusal(err error) bool { return conn.IsRefusal(err) }

// IsUnknownDatabase says whether a statement failed because there is no such database.
func IsUnknownDatabase(err error) bool { return conn.IsServerError(err, mysql.ErBadDB) }

// IsNoSuchGrant says whether a REVOKE failed because there is no such privilege at that level.
func IsNoSuchGrant(err error) bool { return conn.IsServerError(err, mysql.ErNonexistingGrant) }

// IsPartlyRevoked says whether partial_revokes could not be switched off because there is a partial revoke.
func IsPartlyRevoked(err error) bool { return conn.IsServerError(err, mysql.ErPartialRevokesExist) }

// IsProxyDenied says whether a statement about PROXY failed because the account may not grant it.
func IsProxyDenied(err error) bool { return conn.IsServerError(err, mysql.ErAccessDeniedNoPassword) }
