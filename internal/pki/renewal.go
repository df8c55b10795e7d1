package pki

import "time"

// IssuedAt is when a certificate of the cluster's authority was signed that is valid from notBefore on.
func IssuedAt(notBefore time.Time) time.Time { return notBefore.Add(backdate) }

// MemberRenewalWindow is how long before its end a member's certificate is renewed: a third of its life, so that two
// months of trouble do not cost a cluster its identity.
const MemberRenewalWindow = memberLife / 3

// MemberExpires is when a member's certificate ends that was signed at a time.
func MemberExpires(issued time.Time) time.Time { return issued.Add(memberLife) }
