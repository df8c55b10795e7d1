// Package snapshot measures in the lab what an EBS snapshot of a database costs and what a new cluster that begins with it,
// for data sets of different sizes. `make bench-snapshot` runs it.
//
// Everything is real but EBS: a snapshot is a copy of the volume's file, complete when it is copied, and a volume that is
// made from it another copy. So the figures say what the operator and mysqld take beside the copying. They say nothing of
// AWS, which completes a snapshot late, by what has changed since the one before, and loads a volume lazily: there it is
// there at once, and slow until each block has been read.
package snapshot
