package conn

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// Files of a Secret with a client certificate.
const (
	CAFile   = "ca.crt"
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// ReadIdentity reads the identity in a directory in which a Secret is mounted. Read it again for each connection: it is renewed.
func ReadIdentity(dir string) (mysql.Identity, error) {
	var identity mysql.Identity
	for name, into := range map[string]*[]byte{CAFile: &identity.CAPEM, CertFile: &identity.CertPEM, KeyFile: &identity.KeyPEM} {
		content, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // whoever runs it names it
		if err != nil {
			return identity, fmt.Errorf("read the pod's certificate: %w", err)
		}
		*into = content
	}
	return identity, nil
}
