// Package bench measures what the operator costs while nothing happens, and how long its place is empty when one leader
// hands over to the next. `make bench` runs it and prints a table.
//
// Real: the API server and etcd, the manager with its caches, watches, workers and leader election, the reconciler, the
// availability probe, the SQL plane with its TLS (every certificate is issued by internal/pki and verified on both sides),
// and the AWS SDK above its HTTP transport.
//
// Stubs, for scale only: the members are an in-process server of MySQL's protocol that answers the operator's statements
// from a small state and stores nothing, and EC2 is an in-process answer to the describe calls. Neither has a latency of
// its own. A figure taken here says what the operator adds, never how fast MySQL or AWS are.
//
// Nothing is asserted by stopwatch: machines differ. What must not happen in a steady state (a write, a call) is counted
// and shown with the place in the code that did it.
package bench
