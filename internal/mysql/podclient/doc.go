// Package podclient is what the pods that back a cluster up, restore one or archive its binary logs ask of a server. It takes no part
// in what the operator does and never holds the operator's lock: a Visit is one connection, a BinlogStream follows as a replica does.
// internal/backup imports it, nobody else; it stands on conn and observe.
package podclient
