package mysql

import "bytes"

// Identity is what the operator shows and trusts: the cluster CA's certificate, and the operator's own certificate and key, in PEM.
type Identity struct {
	CAPEM, CertPEM, KeyPEM []byte
}

// Equal says whether two identities are the same.
func (i Identity) Equal(other Identity) bool {
	return bytes.Equal(i.CAPEM, other.CAPEM) && bytes.Equal(i.CertPEM, other.CertPEM) && bytes.Equal(i.KeyPEM, other.KeyPEM)
}

// Endpoint says where a member is and who it must prove to be.
type Endpoint struct {
	// Key is unique per instance, for example "<cluster uid>/<member>/<instance id>": connections are kept under it.
	Key string
	// Address is host:port to dial.
	Address string
	// ServerName is the DNS name or IP address that the member's certificate must carry.
	ServerName string
}
