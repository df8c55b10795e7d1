// Package simulation tortures the engine of the operator. It runs internal/engine, topology.Next and internal/steps against a model
// of everything that they act on: EC2 (instances, volumes, tokens, describes that lie), a mysqld on each instance, the
// network between all of them, clients that write and remember what they were told is committed, and an operator that is
// slow, dies between any two calls, or exists twice.
//
// A seed gives a schedule, and a schedule is replayed exactly: there is one thread, one clock that jumps from event to
// event, and one source of random numbers. After every step the invariants of invariants.go are checked. A schedule that
// breaks one prints what happened and the command that repeats it.
//
// What the model of mysqld assumes is what real mysqld was seen to do; the numbers in its comments are those of the list
// of facts that the tests of internal/mysql and of the lab check against the real thing.
//
// Nothing imports this package but its own tests, so nothing of it ends in the operator.
package simulation
