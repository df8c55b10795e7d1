// Package releasekeys holds the OpenPGP keys by whose signatures instances trust MySQL's tarballs.
package releasekeys

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// mysql is the key block that https://repo.mysql.com/RPM-GPG-KEY-mysql-2025 has. It is the key of 2023 with a later expiry.
//
//go:embed mysql.asc
var mysql string

// MaxSize is how large a keyring may be, in bytes: it is part of the user data of every instance that verifies a signature.
const MaxSize = 4096

// Key is a primary key of a Keyring.
type Key struct {
	// Fingerprint is in upper-case hexadecimal.
	Fingerprint string
	// Expires is zero for a key that never does.
	Expires time.Time
}

// Keyring is what a signature is verified with.
type Keyring struct {
	// Packets is the keyring as gpgv and sqv read it: each key with its newest self-signature, and nothing else.
	Packets []byte
	Keys    []Key
}

// MySQL returns the keys of MySQL's release engineering that this build knows.
var MySQL = sync.OnceValue(func() Keyring {
	ring, err := Parse(mysql)
	if err != nil {
		panic("the embedded key block: " + err.Error()) // a test reads it
	}
	return ring
})

// Parse reads one or several armored public key blocks.
func Parse(armored string) (Keyring, error) {
	var ring Keyring
	for block := range blocks(armored) {
		entities, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block))
		if err != nil {
			return Keyring{}, fmt.Errorf("read a public key block: %w", err)
		}
		for _, entity := range entities {
			if err := ring.add(entity); err != nil {
				return Keyring{}, err
			}
		}
	}
	if len(ring.Keys) == 0 {
		return Keyring{}, errors.New("there is no public key block in it")
	}
	if len(ring.Packets) > MaxSize {
		return Keyring{}, fmt.Errorf("the keys have %d bytes; at most %d fit into the user data of an instance: leave out the keys that sign no release in use", len(ring.Packets), MaxSize)
	}
	return ring, nil
}

// Notice is how long before the keys expire people are warned: new ones come with a release of the operator, or by hand.
const Notice = 90 * 24 * time.Hour

// Expires returns when the last of the keys expires; false when one never does.
func (r Keyring) Expires() (time.Time, bool) {
	var last time.Time
	for _, key := range r.Keys {
		if key.Expires.IsZero() {
			return time.Time{}, false
		}
		if key.Expires.After(last) {
			last = key.Expires
		}
	}
	return last, len(r.Keys) > 0
}

// Expired returns when the last of the keys expired; false when one is valid.
func (r Keyring) Expired(now time.Time) (time.Time, bool) {
	at, ends := r.Expires()
	return at, ends && !at.After(now)
}

// Expiring returns when the last of the keys expires; false when that is more than Notice away, or past.
func (r Keyring) Expiring(now time.Time) (time.Time, bool) {
	at, ends := r.Expires()
	return at, ends && at.After(now) && !at.After(now.Add(Notice))
}

const blockEnd = "-----END PGP PUBLIC KEY BLOCK-----"

// blocks yields the armored blocks of a text, because the library reads one.
func blocks(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			block, rest, found := strings.Cut(text, blockEnd)
			if !found {
				return
			}
			if !yield(block + blockEnd + "\n") {
				return
			}
			text = rest
		}
	}
}

// add appends a primary key with what is needed to verify a signature by it.
func (r *Keyring) add(entity *openpgp.Entity) error {
	key := Key{Fingerprint: strings.ToUpper(hex.EncodeToString(entity.PrimaryKey.Fingerprint))}
	if entity.PrivateKey != nil {
		return fmt.Errorf("%s is a private key: give the public key alone", key.Fingerprint)
	}
	identity := entity.PrimaryIdentity()
	if identity == nil || identity.SelfSignature == nil {
		return fmt.Errorf("key %s has no user id that it signed", key.Fingerprint)
	}
	if len(entity.Revocations) > 0 {
		return fmt.Errorf("key %s is revoked: take it out", key.Fingerprint)
	}
	if seconds := identity.SelfSignature.KeyLifetimeSecs; seconds != nil && *seconds > 0 {
		key.Expires = entity.PrimaryKey.CreationTime.Add(time.Duration(*seconds) * time.Second).UTC()
	}
	if slices.ContainsFunc(r.Keys, func(k Key) bool { return k.Fingerprint == key.Fingerprint }) {
		return fmt.Errorf("key %s is in it twice: leave out the older one", key.Fingerprint)
	}
	var b bytes.Buffer
	packets := []serializer{entity.PrimaryKey, identity.UserId, identity.SelfSignature}
	for _, sub := range entity.Subkeys {
		if sub.Sig.FlagsValid && sub.Sig.FlagSign {
			packets = append(packets, sub.PublicKey, sub.Sig)
		}
	}
	for _, p := range packets {
		if err := p.Serialize(&b); err != nil {
			return fmt.Errorf("write key %s: %w", key.Fingerprint, err)
		}
	}
	r.Packets, r.Keys = append(r.Packets, b.Bytes()...), append(r.Keys, key)
	return nil
}

// serializer is a packet of OpenPGP.
type serializer interface{ Serialize(io.Writer) error }

var (
	_ serializer = (*packet.PublicKey)(nil)
	_ serializer = (*packet.UserId)(nil)
	_ serializer = (*packet.Signature)(nil)
)
