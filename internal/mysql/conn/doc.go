// Package conn has the sessions with members: always through verified TLS, with deadlines on every statement, and at most one reading and
// one writing session for each member. It says what an error means, and holds the operator's lock on a member and the lease's promise
// with it. Only packages beside it use its sessions; others make a Pool of it and hand that on.
package conn
