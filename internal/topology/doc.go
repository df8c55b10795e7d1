// Package topology is the operator's planner: a pure function from what is wanted (Desired) and what was seen
// (Observed) to what to do next (Plan). It holds no client, speaks no SQL, calls no AWS, and has no clock but
// Observed.Now, so every decision can be replayed in a test.
//
// A plan is small on purpose. It lists only actions that are right whatever becomes of the other actions of the
// same plan; the next pass sees what came of them and goes on. That is why a crash between any two actions, or
// twice the same action, does no harm.
//
// The files follow the phases: provisioning.go (instances and volumes), ec2ready.go (MySQL comes up and joins),
// replicating.go (roles and seeding), ready.go (what a finished cluster still needs), deleting.go. Beside them
// quorum.go says who may acknowledge, failover.go who may be promoted, settings.go what mysqld is told.
package topology
