// Package admin changes members: roles, replication, membership, accounts, settings, certificates. Its methods are named after what they
// are for; each re-reads what it needs before it writes, may run twice, and may be cut off half way.
// internal/cluster imports it, and tests of what needs a primary; it stands on conn and observe.
package admin
