// Preloaded into a process whose files are in memory, this library makes each call that waits for a disk take as long as a
// disk would. See disk.go for what it models and what it does not.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MOST_IN_FLIGHT = 64 };

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static int64_t latency;                   // ns; 0 leaves every call alone
static int depth = 1;                     // operations in flight
static int64_t free_from[MOST_IN_FLIGHT]; // ns of CLOCK_MONOTONIC

__attribute__((constructor)) static void configure(void)
{
	const char *microseconds = getenv("NAIROBI_DISK_LATENCY_US"), *most = getenv("NAIROBI_DISK_DEPTH");
	if (microseconds)
		latency = strtoll(microseconds, NULL, 10) * 1000;
	if (most)
		depth = atoi(most);
	if (depth < 1)
		depth = 1;
	if (depth > MOST_IN_FLIGHT)
		depth = MOST_IN_FLIGHT;
}

// reserve takes the place in the queue that is free first and returns when an operation that begins there ends.
static int64_t reserve(void)
{
	struct timespec t;
	pthread_mutex_lock(&queue);
	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	int first = 0;
	for (int i = 1; i < depth; i++)
		if (free_from[i] < free_from[first])
			first = i;
	int64_t end = (free_from[first] > now ? free_from[first] : now) + latency;
	free_from[first] = end;
	pthread_mutex_unlock(&queue);
	return end;
}

// wait_for_disk does not change errno: clock_nanosleep returns its error.
static void wait_for_disk(void)
{
	if (latency <= 0)
		return;
	int64_t end = reserve();
	struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static int synced(long result)
{
	if (result == 0)
		wait_for_disk();
	return (int)result;
}

int fsync(int fd) { return synced(syscall(SYS_fsync, fd)); }

int fdatasync(int fd) { return synced(syscall(SYS_fdatasync, fd)); }

int msync(void *address, size_t length, int flags)
{
	long result = syscall(SYS_msync, address, length, flags);
	return flags & MS_SYNC ? synced(result) : (int)result;
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	long result = syscall(SYS_sync_file_range, fd, offset, length, flags);
	return flags & SYNC_FILE_RANGE_WAIT_AFTER ? synced(result) : (int)result;
}

// written waits if the file was opened with O_DSYNC or O_SYNC, which contains O_DSYNC.
static ssize_t written(int fd, ssize_t result)
{
	if (result > 0) {
		int before = errno;
		long flags = syscall(SYS_fcntl, fd, F_GETFL);
		errno = before;
		if (flags != -1 && flags & O_DSYNC)
			wait_for_disk();
	}
	return result;
}

ssize_t write(int fd, const void *from, size_t length) { return written(fd, syscall(SYS_write, fd, from, length)); }

ssize_t writev(int fd, const struct iovec *from, int count) { return written(fd, syscall(SYS_writev, fd, from, count)); }

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t offset)
{
	return written(fd, syscall(SYS_pwrite64, fd, from, length, offset));
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t offset) { return pwrite64(fd, from, length, offset); }

ssize_t pwritev64(int fd, const struct iovec *from, int count, off64_t offset)
{
	return written(fd, syscall(SYS_pwritev, fd, from, count, offset, 0));
}

ssize_t pwritev(int fd, const struct iovec *from, int count, off_t offset) { return pwritev64(fd, from, count, offset); }
