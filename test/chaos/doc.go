// Package chaos does to a cluster on the lab what instances, networks, EC2, Kubernetes and the operator itself do to it, while
// clients write, and holds the outcome against a ledger that lives outside of MySQL.
//
// The clients write through the primary Service, from the network of the Kubernetes node, with the Secret that an
// application would use. Each write carries an id that no other has. What they were told is in the ledger: acknowledged,
// refused, or unknown. After each fault the cluster must become Ready again by itself; then the ledger is compared row by
// row with the primary and with each replica. A row that was acknowledged must be there, once; one that is there must
// have been acknowledged or be of unknown outcome. Every member is also written to directly all the time: no two of them
// may acknowledge.
//
// The status of the cluster is judged by the same ledger, at every moment of the run: while no write is acknowledged it may
// not say that writes succeed or that nothing is wrong, and after a loss it may not say that nothing was lost. A false claim
// fails the run as a lost row does.
package chaos
