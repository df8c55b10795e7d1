// Package writes measures what a commit costs in a replicated cluster, and whether replicas keep up with it: real servers with
// the product's settings, each with a volume of its own of package disk, and clients that write as sysbench's oltp_write_only
// does. `make bench-writes` compares promises of durability at several numbers of clients; `make bench-appliers` compares
// numbers of applier threads.
//
// The variants take turns on the same servers, so that what else the machine does hits all of them alike. A ratio is taken
// within a turn; the median of the turns counts.
//
// Clients are in this process and use the server's socket, so a commit's latency has no network in it. Members reach each
// other over the loopback network with TLS. All of it shares one machine's processors, which the figures name: where they are
// busy, what is measured is the processor and not the disk.
package writes
