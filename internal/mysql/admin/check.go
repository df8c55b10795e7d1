package admin

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

var (
	serialNumber = regexp.MustCompile(`^[0-9a-f]{1,40}$`)
	hostName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
)

// Limits of MySQL's names, in characters.
const (
	maxDatabaseName = 64
	maxUserName     = 32
	maxHostName     = 255
)

// databasePattern escapes a database's name for GRANT, where _ and % are wildcards. MySQL stores it in that form, of which
// maxDatabaseName is the limit as well, and in lower case with lower_case_table_names.
func databasePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`).Replace(name)
}

// checkHost refuses what is neither an IP address nor a DNS name.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	if len(host) > maxHostName || !hostName.MatchString(host) {
		return fmt.Errorf("%w: %q is no host", mysql.ErrInvalidArgument, host)
	}
	return nil
}

// checkPort refuses what is no TCP port.
func checkPort(port int) error {
	if port < 1 || port > math.MaxUint16 {
		return fmt.Errorf("%w: %d is no port", mysql.ErrInvalidArgument, port)
	}
	return nil
}
