// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fiemap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "bench.h"

#define MNT	"/tmp/swapbench.mnt"

/* The box names its partitions in the environment; a real machine's user must. */
const char *part_path(int n)
{
	char name[32];
	const char *p;
	struct stat st;

	snprintf(name, sizeof(name), "SWAPOUT_P%d", n);
	p = getenv(name);
	if (!p)
		skip("%s isn't set: the partition that may be overwritten", name);
	if (stat(p, &st) || !S_ISBLK(st.st_mode))
		skip("%s=%s isn't a block device", name, p);
	return p;
}

/* The whole drive under a partition, or under the file system of a file. */
void drive_of(const char *path, struct drive *d)
{
	char link[64], real[512], *base;
	struct stat st;
	dev_t dev;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (!realpath(link, real))
		skip("%s has no drive: %s: %s", path, link, strerror(errno));
	snprintf(link, sizeof(link), "/partition");
	base = real + strlen(real);
	strcat(real, link);
	if (!access(real, F_OK)) {
		*base = '\0';
		base = strrchr(real, '/');
	}
	*base = '\0';
	base = strrchr(real, '/') + 1;
	snprintf(d->name, sizeof(d->name), "%.63s", base);
}

void drive_stat(const struct drive *d, struct drive_stat *s)
{
	unsigned long long v[11];
	char path[128], buf[512];

	snprintf(path, sizeof(path), "/sys/block/%s/stat", d->name);
	read_text(path, buf, sizeof(buf));
	if (sscanf(buf, "%llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu",
		   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9],
		   &v[10]) != 11)
		die("%s: unexpected form: %s", path, buf);
	s->reads = v[0];
	s->rsectors = v[2];
	s->writes = v[4];
	s->wsectors = v[6];
	s->inflight = v[8];
	s->busy_ms = v[9];
	s->queue_ms = v[10];
}

void drive_wait(const struct drive *d)
{
	struct drive_stat s;

	/* Under icount a sleep takes no time on the host, where the request is. */
	for (int i = 0; i < 100000; i++) {
		drive_stat(d, &s);
		if (!s.inflight)
			return;
		sleep_ms(1);
	}
	die("%s: %llu requests in flight, none ends", d->name, (unsigned long long)s.inflight);
}

/* Rotational drives and the wrong IOMMU mode take other paths than those measured. */
void drive_check(const struct drive *d)
{
	const char *want = getenv("BOX_IOMMU");
	char path[160], type[64] = "none";
	uint64_t kib;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/rotational", d->name);
	if (read_u64(path))
		skip("%s is rotational", d->name);
	snprintf(path, sizeof(path), "/sys/block/%s/queue/iostats", d->name);
	if (!read_u64(path))
		skip("%s doesn't count its requests", d->name);
	snprintf(path, sizeof(path), "/sys/block/%s/queue/max_hw_sectors_kb", d->name);
	kib = read_u64(path);
	snprintf(path, sizeof(path), "/sys/block/%s/device/device/iommu_group/type", d->name);
	if (try_read(path, type, sizeof(type)))
		type[strcspn(type, "\n")] = '\0';
	emit_text("iommu", type);
	if (!want || strncmp(d->name, "nvme", 4))
		return;
	/* The NVMe driver clamps a command to 128 KiB where DMA is translated. */
	if (!strcmp(want, "translated") || !strcmp(want, "strict")) {
		if (strncmp(type, "DMA", 3) || kib != 128)
			skip("IOMMU=%s wanted, but domain %s and %llu KiB a command", want, type,
			     (unsigned long long)kib);
	} else if (!strncmp(type, "DMA", 3)) {
		skip("IOMMU=%s wanted, but the domain is %s", want, type);
	}
}

/* Version 1 header, as mkswap writes it; the header's page is no slot. */
static void make_swap(const char *path, size_t size)
{
	uint32_t info[3] = { 1, size / PAGE_SZ - 1, 0 };
	char page[PAGE_SZ] = { 0 };
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	memcpy(page + 1024, info, sizeof(info));
	memcpy(page + PAGE_SZ - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, page, PAGE_SZ, 0) != (ssize_t)PAGE_SZ || fsync(fd))
		die("%s: swap header: %s", path, strerror(errno));
	close(fd);
}

static void swap_on(const char *path)
{
	if (swapon(path, 0))
		die("swapon %s: %s", path, strerror(errno));
}

/* KiB of the partition to use, 0: all. Returns the size in use in KiB. */
uint64_t swap_part_on(const char *path, size_t kib)
{
	uint64_t have;
	int fd;

	swap_none_or_die();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &have))
		die("%s: %s", path, strerror(errno));
	close(fd);
	if (kib * KIB > have)
		skip("%s has %llu KiB, %zu wanted", path, (unsigned long long)(have / KIB), kib);
	if (!kib)
		kib = have / KIB;
	make_swap(path, kib * KIB);
	swap_on(path);
	return kib;
}

void swap_file_on(const char *path)
{
	struct stat st;

	swap_none_or_die();
	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	make_swap(path, st.st_size);
	swap_on(path);
}

void swap_off(const char *path)
{
	if (swapoff(path))
		die("swapoff %s: %s", path, strerror(errno));
}

/* A second device would take part of the pages, and slots would lose their meaning. */
void swap_none_or_die(void)
{
	char buf[4096], *l;

	read_text("/proc/swaps", buf, sizeof(buf));
	l = strchr(buf, '\n');
	if (l && l[1])
		skip("swap is on already: %.*s", (int)strcspn(l + 1, " \t"), l + 1);
}

uint64_t swap_free_kib(void)
{
	char buf[8192], *l;

	read_text("/proc/meminfo", buf, sizeof(buf));
	l = strstr(buf, "SwapFree:");
	if (!l)
		die("/proc/meminfo has no SwapFree");
	return strtoull(l + 9, NULL, 10);
}

/*
 * Where swap files go, and the drive below: the directory SWAPOUT_DIR, or a new
 * ext4 on partition 4, of which nothing is left to be initialised later.
 */
const char *fs_place(struct drive *d)
{
	const char *dir = getenv("SWAPOUT_DIR"), *dev = dir ? dir : part_path(4);
	const char *const mkfs[] = {
		"mke2fs", "-q", "-F", "-t", "ext4", "-N", "4096",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", dev, NULL
	};

	drive_of(dev, d);
	drive_check(d);
	if (dir)
		return dir;
	if (run_cmd(mkfs))
		die("mke2fs %s failed", dev);
	if (mkdir(MNT, 0700) && errno != EEXIST)
		die(MNT ": %s", strerror(errno));
	if (mount(dev, MNT, "ext4", 0, NULL))
		die("mount %s: %s", dev, strerror(errno));
	return MNT;
}

/* What dd oflag=direct makes of /dev/zero. */
void file_plain(const char *path, size_t size)
{
	size_t step = 4 * MIB;
	void *buf;
	int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);

	if (fd < 0 || posix_memalign(&buf, PAGE_SZ, step))
		die("%s: %s", path, strerror(errno));
	memset(buf, 0, step);
	for (size_t at = 0; at < size; at += step)
		if (pwrite(fd, buf, step, at) != (ssize_t)step)
			die("%s: write: %s", path, strerror(errno));
	free(buf);
	if (fsync(fd))
		die("%s: fsync: %s", path, strerror(errno));
	close(fd);
}

/*
 * Extents of least to most bytes: two files are allocated by turns. fallocate()
 * takes exactly what it's asked for; writes would be given preallocated room and
 * the files come out nearly whole. r may be NULL if both lengths are the same.
 */
void file_in_pieces(const char *path, const char *other, size_t size, size_t least, size_t most,
		    struct rng *r)
{
	off_t at[2] = { 0, 0 };
	int fd[2];

	fd[0] = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	fd[1] = open(other, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd[0] < 0 || fd[1] < 0)
		die("%s: %s", path, strerror(errno));
	for (int i = 0; at[0] < (off_t)size; i ^= 1) {
		off_t len = least;

		if (most > least)
			len += rng_below(r, (most - least) / PAGE_SZ + 1) * PAGE_SZ;
		if (!i && at[0] + len > (off_t)size)
			len = size - at[0];
		if (fallocate(fd[i], 0, at[i], len))
			die("%s: fallocate: %s", path, strerror(errno));
		at[i] += len;
	}
	for (int i = 0; i < 2; i++) {
		if (fsync(fd[i]))
			die("%s: fsync: %s", path, strerror(errno));
		close(fd[i]);
	}
}

unsigned int file_extents(const char *path)
{
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_flags = FIEMAP_FLAG_SYNC };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, FS_IOC_FIEMAP, &map))
		die("%s: FIEMAP: %s", path, strerror(errno));
	close(fd);
	return map.fm_mapped_extents;
}

/* In the parent, when a workload has ended, however it did. */
void swap_cleanup(void)
{
	char buf[4096];

	read_text("/proc/swaps", buf, sizeof(buf));
	for (char *l = strchr(buf, '\n'); l && l[1]; l = strchr(l + 1, '\n')) {
		char path[512];

		if (sscanf(l + 1, "%511s", path) == 1 && swapoff(path))
			note("swapoff %s: %s", path, strerror(errno));
	}
	for (int i = 0; getenv("SWAPOUT_DIR") && i < 2; i++) {
		snprintf(buf, sizeof(buf), "%s/%s", getenv("SWAPOUT_DIR"), i ? "other" : "swap");
		unlink(buf);
	}
	if (umount2(MNT, 0) && errno != EINVAL && errno != ENOENT)
		note("umount " MNT ": %s", strerror(errno));
}
