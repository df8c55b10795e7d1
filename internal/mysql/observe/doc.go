// Package observe reads everything that decisions are made on from a member, and what its error log says. It changes nothing.
// The packages beside it import it, for what they read again before they write; others get an Observer with a member of admin.
package observe
