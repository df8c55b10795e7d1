// Package model checks the rules of promotion in every state that a small cluster can come into. The simulation plays long random stories
// against the operator itself; the model plays all short ones against the rules as they are written down here. It finds what needs a
// dozen steps in just the right order. Nothing of the product imports it.
//
// # What is modelled
//
// Two to five members, each a mysqld on a volume. Each holds a list of transactions, which are clients' or membership rows:
//
//   - On a primary, those from a position on are in its binary log and wait for acknowledgements (semi-synchronous replication,
//     AFTER_SYNC). Crash recovery commits them.
//   - On a replica, those from a position on are received and not applied. A loss of power takes any end of them, unless the relay log is
//     synced (sync_relay_log=1).
//   - Acknowledgements are sent, arrive later or never, and cover all that is before them in the binary log.
//
// The operator reaches any set of members of at least a given size in each step. It proves, records, opens, writes a row, points replicas
// at a primary, certifies, removes and admits voters, and unseats a primary that a newer row does not name. It may die between any two steps,
// and its records may be lost. The records keep what the last proof found, and the term that a promotion is to end; see
// recallsProof and takeBack.
//
// What may be checked: [WithSyncedRelayLogs] are the rules of internal/topology, [WithCertificates] those for relay logs that are not synced, and
// [Upgrading] the way from one to the other. With certificates, the row names for each voter the memory (the boot) under which it was
// certain to hold all that it had acknowledged, and only a voter that shows that memory counts in a proof.
//
// # What is not modelled
//
// GTIDs that a person makes, CLONE and rebuilt members, lost volumes, a primary that is left alone, asynchronous replication, strangers
// that acknowledge, switchover as a way of its own, patience and clocks, LeaderVoid, and what EC2 does. The simulation has those. After the records were
// lost the operator asks for all voters until a primary shows whether it is alone; here it does so with two members only.
//
// # Invariants
//
// Whoever is opened for writes, or led on as the primary, holds every acknowledged transaction; and what a client is answered is held by
// the member that clients write to. The second one is broken by a former primary that still gets acknowledgements. With synced relay logs
// a primary that the newest row names may lead without a proof although it lacks something, because it acknowledges nothing then: there
// it is judged when a client is answered.
//
// # Bounds
//
// [Bounds] limit how often each thing happens. A search that ends by itself has visited everything within them. Members are alike, so
// states that differ in the numbers of members alone are one. A state is remembered by a fingerprint of 64 bits.
//
// # Reading a counterexample
//
// It is a shortest one: no step of it can be left out. t0 is the first row; t1, t2 and so on are numbered as they are committed, whoever
// commits them. The last line says which invariant is broken. Read it from the end: which transaction is missing, who held it when it was
// acknowledged, and which step stopped counting that member.
package model
