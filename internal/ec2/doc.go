// Package ec2 is the cloud plane: what the operator makes, changes and deletes in EC2.
//
// One Cloud serves one AWS account and region. It reads through an inventory.Reader, calls AWS through awsapi, and writes by small,
// idempotent methods. Three rules hold in all of them:
//
//   - A look-up by tags comes before every create, and every create that EC2 lets carry a client token carries one that
//     is derived from the cluster's UID, the member and its incarnation. A crash or a lost answer at any point can
//     therefore never make a second instance or volume.
//   - Ownership is the tag mysql.alx.ke/cluster-uid. Every method that changes something takes the UID of a cluster, and what
//     does not carry the UID of that one is never started, stopped, attached, detached, modified, copied, deleted or
//     retagged; ErrForeign is returned instead. CopyVolume alone reads what is another's, once the caller knows that it may.
//   - Nothing waits. A method makes its calls and returns; what takes longer shows as a state in the Inventory.
package ec2
