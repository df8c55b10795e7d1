package task

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Keys of a user's Secret with credentials for S3, and the names of their files in S3Dir.
const (
	KeyAccessKeyID     = "accessKeyID"
	KeySecretAccessKey = "secretAccessKey"
	KeySessionToken    = "sessionToken"
)

// Keys are what a user's Secret says.
type Keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// KeyError says, behind the name of a Secret, what is wrong with one of its keys.
type KeyError struct {
	Key string
	// Malformed says that AWS cannot have made what is there; otherwise nothing is.
	Malformed bool
}

func (e *KeyError) Error() string {
	if e.Malformed {
		return fmt.Sprintf("has in %s a space, a line break or another character that no AWS key has; write the key alone", e.Key)
	}
	return "has no key " + e.Key
}

// Reason is the one of a condition.
func (e *KeyError) Reason() string {
	if e.Malformed {
		return v1alpha1.ReasonCredentialsInvalid
	}
	return v1alpha1.ReasonCredentialsMissing
}

// ReadKeys reads a user's Secret. An error is a *KeyError. All that AWS makes is printable ASCII, and no HTTP request can be signed with a
// line break.
func ReadKeys(data map[string][]byte) (Keys, error) {
	keys := Keys{ValueOf(data[KeyAccessKeyID]), ValueOf(data[KeySecretAccessKey]), ValueOf(data[KeySessionToken])}
	for _, key := range []struct {
		name, value string
		optional    bool
	}{{KeyAccessKeyID, keys.AccessKeyID, false}, {KeySecretAccessKey, keys.SecretAccessKey, false}, {KeySessionToken, keys.SessionToken, true}} {
		switch {
		case key.value == "" && !key.optional:
			return keys, &KeyError{Key: key.name}
		case strings.ContainsFunc(key.value, func(r rune) bool { return r <= ' ' || r > '~' }):
			return keys, &KeyError{Key: key.name, Malformed: true}
		}
	}
	return keys, nil
}

// ValueOf is what a key of a user's Secret says: without the line ends that editors, and echo, put behind it. Empty is none.
func ValueOf(content []byte) string { return strings.TrimRight(string(content), "\r\n") }
