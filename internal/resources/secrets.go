package resources

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Keys of the Secrets and of the ConfigMap.
const (
	KeyCertificate = corev1.TLSCertKey
	KeyPrivateKey  = corev1.TLSPrivateKeyKey
	KeyCA          = corev1.ServiceAccountRootCAKey
	KeyJoin        = "join.key"
	KeyMembers     = "members.json"

	// The keys of the Service Binding specification for Kubernetes, v1.1.0, "Well-known Secret Entries".
	KeyType     = "type"
	KeyProvider = "provider"
	KeyHost     = "host"
	KeyPort     = "port"
	KeyUsername = "username"
	KeyPassword = "password"
	KeyDatabase = "database"
	KeyURI      = "uri"
)

const (
	// bindingType is the value of "type"; bindingSecretType is what the specification makes of it for the Secret.
	bindingType       = "mysql"
	bindingSecretType = "servicebinding.io/" + bindingType

	// passwordLength gives 190 bits with the alphabet below.
	passwordLength = 32
	// passwordAlphabet needs no quoting in a URL, a shell, an option file or an SQL statement.
	passwordAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// AppCredentials is what an application needs to use its database.
type AppCredentials struct {
	Username, Password, Database string
	// CAPEM is the certificate of the cluster's authority, for clients that verify whom they talk to.
	CAPEM []byte
	// Type is that of the Secret that is there, which cannot be changed; empty for that of a new one.
	Type corev1.SecretType
}

// CASecret holds the cluster's authority. It carries the finalizer: deletion still needs to speak to the members.
// Its type is Opaque rather than kubernetes.io/tls, so that nothing takes the authority for a server's certificate.
func CASecret(c *v1alpha1.MySQLCluster, cert, key, joinKey []byte) *corev1ac.SecretApplyConfiguration {
	name := NamesOf(c.Name).CA
	return secret(c, name, ComponentCA, corev1.SecretTypeOpaque).
		WithFinalizers(v1alpha1.Finalizer).
		WithData(map[string][]byte{KeyCertificate: cert, KeyPrivateKey: key, KeyJoin: joinKey})
}

// OperatorTLSSecret holds the operator's client certificate. It carries the finalizer for the same reason as [CASecret].
func OperatorTLSSecret(c *v1alpha1.MySQLCluster, cert, key, ca []byte) *corev1ac.SecretApplyConfiguration {
	name := NamesOf(c.Name).OperatorTLS
	return secret(c, name, ComponentOperatorTLS, corev1.SecretTypeTLS).
		WithFinalizers(v1alpha1.Finalizer).
		WithData(map[string][]byte{KeyCertificate: cert, KeyPrivateKey: key, KeyCA: ca})
}

// AppSecret holds what an application needs, under the keys of the Service Binding specification.
func AppSecret(c *v1alpha1.MySQLCluster, credentials AppCredentials) *corev1ac.SecretApplyConfiguration {
	name := NamesOf(c.Name).App
	host, port := PrimaryHost(c), strconv.Itoa(v1alpha1.MySQLPort)
	uri := url.URL{
		Scheme: bindingType,
		User:   url.UserPassword(credentials.Username, credentials.Password),
		Host:   net.JoinHostPort(host, port),
		Path:   "/" + credentials.Database,
	}
	return secret(c, name, ComponentApp, cmp.Or(credentials.Type, bindingSecretType)).
		WithData(map[string][]byte{
			KeyType:     []byte(bindingType),
			KeyProvider: []byte(v1alpha1.FieldManager),
			KeyHost:     []byte(host),
			KeyPort:     []byte(port),
			KeyUsername: []byte(credentials.Username),
			KeyPassword: []byte(credentials.Password),
			KeyDatabase: []byte(credentials.Database),
			KeyURI:      []byte(uri.String()),
			KeyCA:       credentials.CAPEM,
		})
}

// MembersConfigMap holds the incarnation of each member's instance and volume; members is JSON.
func MembersConfigMap(c *v1alpha1.MySQLCluster, members []byte) *corev1ac.ConfigMapApplyConfiguration {
	name := NamesOf(c.Name).Members
	return corev1ac.ConfigMap(name, c.Namespace).
		WithFinalizers(v1alpha1.Finalizer).
		WithLabels(Labels(c, ComponentMembers)).
		WithAnnotations(mark(c)).
		WithOwnerReferences(owner(c)).
		WithData(map[string]string{KeyMembers: string(members)})
}

func secret(c *v1alpha1.MySQLCluster, name, component string, kind corev1.SecretType) *corev1ac.SecretApplyConfiguration {
	return ours(corev1ac.Secret(name, c.Namespace), c, component).
		WithType(kind)
}

// RandomPassword returns 32 random letters and digits.
func RandomPassword() (string, error) {
	// Bytes at or above the largest multiple of the alphabet's length are thrown away: taking the remainder of all of
	// them would make the first letters more likely.
	const limit = 256 - 256%len(passwordAlphabet)
	password := make([]byte, 0, passwordLength)
	for len(password) < passwordLength {
		var raw [passwordLength]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return "", fmt.Errorf("make password: %w", err)
		}
		for _, b := range raw {
			if int(b) < limit && len(password) < passwordLength {
				password = append(password, passwordAlphabet[int(b)%len(passwordAlphabet)])
			}
		}
	}
	return string(password), nil
}
