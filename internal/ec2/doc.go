// Package ec2 is the cloud plane: everything that the operator asks of, and does to, EC2.
//
// One Cloud serves one AWS account and region. It reads EC2 in sweeps (a few list calls, filtered by our tag) into a
// store that every reconcile shares, and it writes by small, idempotent methods. Four rules hold in all of them:
//
//   - A look-up by tags comes before every create, and every create that EC2 lets carry a client token carries one that
//     is derived from the cluster's UID, the member and its incarnation. A crash or a lost answer at any point can
//     therefore never make a second instance or volume.
//   - Unknown is not gone. An error is never read as a state, and an id that EC2 handed out less than two minutes ago
//     stays in the store even when EC2, being eventually consistent, says that it never heard of it.
//   - Ownership is the tag mysql.alx.ke/cluster-uid. Every method that changes something is told for which cluster, and what
//     does not carry the UID of that one is never started, stopped, attached, detached, modified, copied, deleted or
//     retagged; ErrForeign is returned instead. CopyVolume alone reads what is another's, once the caller knows that it may.
//   - Nothing waits. A method makes its calls and returns; what takes longer shows as a state in the Inventory.
package ec2
