// Package topology is the operator's planner: a pure function from what is wanted (Desired) and what was seen
// (Observed) to what to do next (Plan). It holds no client, speaks no SQL, calls no AWS, and has no clock but
// Observed.Now, so every decision can be replayed in a test.
//
// A plan is small on purpose. It lists only actions that are right whatever becomes of the other actions of the
// same plan; the next pass sees their effect. That is why a crash between any two actions, or twice the same
// action, does no harm.
//
// next.go lists the concerns in their order. provisioning.go plans instances and volumes, ec2ready.go what a member
// needs until it joins, replicating.go roles, seeding.go data, healing.go and settings.go what a finished cluster still
// needs, deleting.go the end. acknowledging.go says who may acknowledge, voters.go who has a vote, certificates.go whose
// memory the membership row names, quorum.go and failover.go who may be promoted.
package topology
