// Package inventory is what EC2 holds for each cluster, and how fresh that is.
//
// A Reader reads one account and region in sweeps (a few list calls, filtered by our tag) into a store that all clusters share. How old
// the store may become and how often EC2 is asked stands in freshness.go. What EC2 answers to a write goes into the store at once:
// EC2's lists show it later. An id that EC2 handed out less than two minutes ago stays in the store even when EC2, being eventually
// consistent, says that it never heard of it.
package inventory
