// SPDX-License-Identifier: GPL-2.0-only
/*
 * Other users of the drive that swap is on.
 *
 *   fio    20,000 random reads of 4 KiB from another partition, io_uring with
 *          registered buffers, while 96 MiB of 4 KiB pages are written to and
 *          paged out: requests and queue depth of both, and do the drive's own
 *          counters say what the kernel's say?
 *   uring  liburing reads into registered buffers, every eighth folio of an
 *          area of 64 KiB mTHP, and all of it is paged out meanwhile
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

#define READS		20000		/* of fio */
#define DEPTH		16
#define STORM		(96 * MIB)
#define STORM_PAGES	(STORM / PAGE_SZ)
#define STORM_ROUNDS	8

static struct drive drive;

/* A partition counts its own requests: /sys/block/DRIVE/PARTITION/stat. */
static struct drive partition_of(const char *path)
{
	struct drive d;

	drive_of(path, &d);
	strncat(d.name, strrchr(path, '/'), sizeof(d.name) - strlen(d.name) - 1);
	return d;
}

/* What the drive says itself; one namespace and no partitions there. */
static void smart_log(unsigned long long *reads, unsigned long long *writes)
{
	char cmd[128], text[8192], *r, *w;
	size_t n;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "nvme smart-log /dev/%s -o json", drive.name);
	f = popen(cmd, "re");
	if (!f)
		die("%s: %s", cmd, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	r = strstr(text, "\"host_read_commands\"");
	w = strstr(text, "\"host_write_commands\"");
	if (pclose(f) || !r || !w || sscanf(strchr(r, ':') + 1, " %llu", reads) != 1 ||
	    sscanf(strchr(w, ':') + 1, " %llu", writes) != 1)
		skip("%s doesn't tell (nvme-cli, an NVMe drive?)", cmd);
}

static pid_t fio_start(const char *path)
{
	char file[128], nr[32], depth[32], seed[32];
	const char *const fio[] = {
		"fio", "--name=beside", file, "--readonly", "--rw=randread", "--bs=4k",
		"--direct=1", "--ioengine=io_uring", "--fixedbufs=1", depth, nr, seed, NULL
	};
	pid_t pid;

	snprintf(file, sizeof(file), "--filename=%s", path);
	snprintf(depth, sizeof(depth), "--iodepth=%d", DEPTH);
	snprintf(nr, sizeof(nr), "--number_ios=%d", READS);
	snprintf(seed, sizeof(seed), "--randseed=%llu", (unsigned long long)bench_seed);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid)
		_exit(run_cmd(fio));
	return pid;
}

static double depth(const struct drive_stat *a, const struct drive_stat *b)
{
	return b->busy_ms > a->busy_ms ?
	       (double)(b->queue_ms - a->queue_ms) / (b->busy_ms - a->busy_ms) : 0;
}

static void fio_main(void)
{
	unsigned long long sr[2], sw[2];
	static uint32_t order[STORM_PAGES], version[STORM_PAGES];
	struct drive swap = partition_of(part_path(3)), other = partition_of(part_path(4));
	struct drive_stat d[2], s[2], o[2];
	uint64_t in, out, bad = 0;
	int status;
	struct rng r;
	pid_t pid;
	char *p;

	rng_init(&r, bench_seed);
	thp_only(0, "never");
	swap_part_on(part_path(3), P3_KIB);
	p = arena_map(STORM, true);
	for (size_t i = 0; i < STORM_PAGES; i++) {
		order[i] = i;
		page_fill(p + i * PAGE_SZ, i);
	}
	arena_drop(p, STORM);

	drive_wait(&drive);
	smart_log(&sr[0], &sw[0]);
	drive_stat(&drive, &d[0]);
	drive_stat(&swap, &s[0]);
	drive_stat(&other, &o[0]);
	in = vmstat("pswpin");
	out = vmstat("pswpout");
	pid = fio_start(part_path(4));
	for (int round = 0; round < STORM_ROUNDS; round++) {
		shuffle(&r, order, STORM_PAGES);
		for (size_t i = 0; i < STORM_PAGES / 4; i++) {
			version[order[i]]++;
			page_fill(p + order[i] * PAGE_SZ,
				  ((uint64_t)version[order[i]] << 32) + order[i]);
		}
		arena_drop(p, STORM);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("fio: status %#x", status);
	drive_wait(&drive);
	drive_stat(&drive, &d[1]);
	drive_stat(&swap, &s[1]);
	drive_stat(&other, &o[1]);
	smart_log(&sr[1], &sw[1]);
	in = vmstat("pswpin") - in;
	out = vmstat("pswpout") - out;
	if (o[1].reads - o[0].reads < READS)
		die("fio read %llu times, not %d", (unsigned long long)(o[1].reads - o[0].reads),
		    READS);

	emit("swap_reads", "requests", s[1].reads - s[0].reads);
	emit("swap_writes", "requests", s[1].writes - s[0].writes);
	emit("swap_pages_in", "pages", in);
	emit("swap_pages_out", "pages", out);
	emit("swap_queue_depth", "requests", depth(&s[0], &s[1]));
	emit("fio_reads", "requests", o[1].reads - o[0].reads);
	emit("fio_queue_depth", "requests", depth(&o[0], &o[1]));
	emit("drive_reads", "requests", d[1].reads - d[0].reads);
	emit("drive_reads_smart_log", "commands", sr[1] - sr[0]);
	emit("drive_writes", "requests", d[1].writes - d[0].writes);
	emit("drive_writes_smart_log", "commands", sw[1] - sw[0]);
	for (size_t i = 0; i < STORM_PAGES; i++)
		bad += page_bad(p + i * PAGE_SZ, ((uint64_t)version[i] << 32) + i);
	verified(bad);
}

#define FOLIO		(64 * KIB)
#define AREA		(32 * MIB)
#define BUFFERS		64U
#define STEP		(AREA / BUFFERS)	/* from buffer to buffer */
#define ROUNDS		16U

static uint64_t tag(unsigned int round, size_t at)
{
	return ((uint64_t)(round + 1) << 40) + at / PAGE_SZ;
}

/* Of one folio, what it should hold. */
static uint64_t folio_bad(const char *p, unsigned int round, size_t at)
{
	uint64_t bad = 0;

	for (size_t i = at; i < at + FOLIO; i += PAGE_SZ)
		bad += page_bad(p + i, tag(round, i));
	return bad;
}

static void folio_fill(char *p, unsigned int round, size_t at)
{
	for (size_t i = at; i < at + FOLIO; i += PAGE_SZ)
		page_fill(p + i, tag(round, i));
}

static void uring_main(void)
{
	uint64_t fallback, out, in_buffers = 0, around = 0, bad = 0;
	struct iovec buffer[BUFFERS];
	struct io_uring_cqe *cqe;
	struct drive_stat a, b;
	struct io_uring ring;
	uint64_t *slot;
	char *p, *image;
	int fd, err;

	thp_only(FOLIO / KIB, "always");
	swap_part_on(part_path(3), P3_KIB);
	fd = open(part_path(4), O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", part_path(4), strerror(errno));
	/* What the reads of each round bring. */
	image = arena_map(AREA, true);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < BUFFERS; i++)
			folio_fill(image + i * FOLIO - i * STEP, round, i * STEP);
		if (pwrite(fd, image, BUFFERS * FOLIO, round * BUFFERS * FOLIO) !=
		    (ssize_t)(BUFFERS * FOLIO))
			die("write: %s", strerror(errno));
	}
	munmap(image, AREA);

	p = arena_map(AREA, false);
	for (size_t at = 0; at < AREA; at += FOLIO)
		folio_fill(p, 0, at);
	for (unsigned int i = 0; i < BUFFERS; i++)
		buffer[i] = (struct iovec){ p + i * STEP, FOLIO };
	err = io_uring_queue_init(BUFFERS, &ring, 0);
	if (!err)
		err = io_uring_register_buffers(&ring, buffer, BUFFERS);
	if (err)
		skip("io_uring with registered buffers: %s", strerror(-err));

	fallback = mthp_stat(FOLIO / KIB, "swpout_fallback");
	out = mthp_stat(FOLIO / KIB, "swpout");
	drive_wait(&drive);
	drive_stat(&drive, &a);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < BUFFERS; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			io_uring_prep_read_fixed(sqe, fd, buffer[i].iov_base, FOLIO,
						 (round * BUFFERS + i) * FOLIO, i);
		}
		if (io_uring_submit(&ring) != (int)BUFFERS)
			die("io_uring_submit");
		arena_advise(p, AREA, MADV_PAGEOUT, "MADV_PAGEOUT");
		for (unsigned int i = 0; i < BUFFERS; i++) {
			if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != (int)FOLIO)
				die("a read of %lu KiB gave %d", FOLIO / KIB, cqe->res);
			io_uring_cqe_seen(&ring, cqe);
		}
		slot = slots_read(p, AREA);
		for (size_t at = 0; at < AREA; at += PAGE_SZ)
			if (slot[at / PAGE_SZ] != SLOT_NONE)
				*(at % STEP < FOLIO ? &in_buffers : &around) += 1;
		free(slot);
		for (size_t at = 0; at < AREA; at += FOLIO) {
			bad += folio_bad(p, round, at);
			if (at % STEP)
				folio_fill(p, round + 1, at);
		}
	}
	drive_wait(&drive);
	drive_stat(&drive, &b);
	fallback = mthp_stat(FOLIO / KIB, "swpout_fallback") - fallback;
	out = mthp_stat(FOLIO / KIB, "swpout") - out;
	emit("pages_of_buffers_in_swap", "pages", in_buffers);
	emit("pages_around_in_swap", "pages", around);
	emit("folios_out", "count", out);
	emit("folios_split", "count", fallback);
	emit("write_requests", "requests", b.writes - a.writes);
	io_uring_queue_exit(&ring);
	verified(bad);
	if (in_buffers)
		die("DATA: pages of registered buffers are in swap");
}

void beside_main(const char *name)
{
	if (!strcmp(part_path(3), part_path(4)))
		skip("needs two partitions of a drive");
	drive_of(part_path(4), &drive);
	drive_check(&drive);
	if (!strcmp(name, "fio"))
		fio_main();
	else
		uring_main();
}
