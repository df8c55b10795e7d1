package pki

// MemberRenewalWindow is how long before its end a member's certificate is renewed: a third of its life, so that two
// months of trouble do not cost a cluster its identity.
const MemberRenewalWindow = memberLife / 3
