package awsapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Kinds of resources that EC2 creates at most once per client token.
const (
	TokenInstance = "instance"
	TokenVolume   = "volume"
)

// ClientToken is the client token of one incarnation of one member's instance or volume: 64 hexadecimal digits, which is
// also the longest token that EC2 takes. EC2 remembers tokens per account, so the cluster's UID is part of it, and it
// answers a repeated token with the first resource even after that was terminated, so the incarnation is too. After the
// incarnations were forgotten nobody knows which tokens are used up: then so is the time since which they are counted anew.
func ClientToken(kind string, o Ownership, member string, incarnation int) string {
	parts := []string{"v1", kind, o.ClusterUID, member, strconv.Itoa(incarnation)}
	if !o.CountedSince.IsZero() {
		parts = append(parts, strconv.FormatInt(o.CountedSince.Unix(), 10))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "|")))
	return hex.EncodeToString(sum[:])
}
