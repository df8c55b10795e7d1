// calls NAME FILE TIMES THREADS: each of the threads makes a call TIMES times on a file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *name;
static int fd, times;
static void *page;

static long call(void)
{
	struct iovec one = {.iov_base = "x", .iov_len = 1};
	const char *plain = strchr(name, '+') ? strchr(name, '+') + 1 : name; // "O_DSYNC+write"
	if (!strcmp(plain, "fsync")) return fsync(fd);
	if (!strcmp(plain, "fdatasync")) return fdatasync(fd);
	if (!strcmp(plain, "sync_file_range")) return sync_file_range(fd, 0, 1, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
	if (!strcmp(plain, "msync")) return msync(page, 4096, MS_SYNC);
	if (!strcmp(plain, "msync_async")) return msync(page, 4096, MS_ASYNC);
	if (!strcmp(plain, "write")) return write(fd, "x", 1) - 1;
	if (!strcmp(plain, "pwrite")) return pwrite(fd, "x", 1, 0) - 1;
	if (!strcmp(plain, "writev")) return writev(fd, &one, 1) - 1;
	if (!strcmp(plain, "pwritev")) return pwritev(fd, &one, 1, 5000) - 1;
	return -1;
}

static void *thread(void *unused)
{
	(void)unused;
	for (int i = 0; i < times; i++)
		if (call() != 0) {
			perror(name);
			exit(1);
		}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 5) return 2;
	name = argv[1];
	times = atoi(argv[3]);
	int extra = !strncmp(name, "O_DSYNC+", 8) ? O_DSYNC : !strncmp(name, "O_SYNC+", 7) ? O_SYNC : 0;
	fd = open(argv[2], O_RDWR | O_CREAT | extra, 0600);
	if (fd < 0 || ftruncate(fd, 4096) != 0) return 3;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) return 4;
	int count = atoi(argv[4]);
	pthread_t threads[64];
	for (int i = 0; i < count && i < 64; i++) pthread_create(&threads[i], NULL, thread, NULL);
	for (int i = 0; i < count && i < 64; i++) pthread_join(threads[i], NULL);
	return 0;
}
