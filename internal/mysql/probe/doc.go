// Package probe writes to each cluster once in an interval, as its clients do, and remembers how that went. It reads nothing else and
// changes nothing but its heartbeat: a commit that waits for its acknowledgement is never mended here. What puts the operator together
// starts it, and the steps of a pass ask it; it stands on conn alone.
package probe
