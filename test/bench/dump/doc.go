// Package dump measures what a backup costs beside the same done by hand: a real mysqld with BENCH_BACKUP_GIB of rows is
// dumped by `mysqldump | zstd | upload` and by the operator's own binary as a backup pod runs it, in turns, to the same S3;
// then the last dump is restored by that binary into an empty server. `make bench-backup` runs it.
//
// Real: mysqld, mysqldump and mysql of the lab's instances, TLS as in a cluster, the operator's binary in a root file system
// of MySQL, the API server that it reports to, and the zstd program. By hand means the same options of mysqldump over the
// same kind of connection, zstd's own default level, and an upload by AWS's transfer manager with its own defaults.
// S3 is moto's, on the same machine, which takes processor time from both sides alike.
package dump
