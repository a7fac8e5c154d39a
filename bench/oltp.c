// SPDX-License-Identifier: GPL-2.0-only
/*
 * A synthetic OLTP: a buffer pool of 256 MiB in a memcg of 128 MiB, 4 KiB
 * pages, units of 16 KiB that were loaded in a random order. 3,000 warm-up and
 * 3,000 counted transactions, each of 10 point reads, 4 range reads of 2
 * neighbouring units and 6 rewrites of a whole unit. All reclaim is the
 * thread's own, so one seed gives one sequence of requests.
 *
 *   oltp-part        a 1 GiB partition to itself
 *   oltp-part-30,-60 the same with that share in use by another process
 *   oltp-part-90     2 GiB, 90 % in use (of 1 GiB too little would be left)
 *   oltp-mthp        another process keeps 64 MiB of 64 KiB mTHP coming and going
 *   oltp-mthp-tight  the same on 352 MiB
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

#define ARENA		(256 * MIB)
#define LIMIT		(128 * MIB)
#define UNIT		(16 * KIB)
#define UNITS		(ARENA / UNIT)
#define UNIT_PAGES	(UNIT / PAGE_SZ)
#define WARMUP		3000
#define COUNTED		3000

#define MTHP_AREA	(64 * MIB)
#define MTHP_FOLIO	64U		/* KiB */
#define MTHP_STEP	(4 * MIB)	/* replaced at a time ... */
#define MTHP_EVERY	25		/* ... every so many transactions */

static struct drive drive;
static char *arena;
static uint32_t load_order[UNITS];
static uint32_t version[UNITS];
static struct rng rng;
static uint64_t bad;

static uint64_t tag_of(uint32_t unit, unsigned int page)
{
	return ((uint64_t)version[unit] << 32) + unit * UNIT_PAGES + page;
}

static void write_unit(uint32_t unit)
{
	for (unsigned int i = 0; i < UNIT_PAGES; i++)
		page_fill(arena + unit * UNIT + i * PAGE_SZ, tag_of(unit, i));
}

/* Two words tell page and version; the whole page is checked at the end. */
static void read_page(uint32_t unit, unsigned int page)
{
	bad += !page_is(arena + unit * UNIT + page * PAGE_SZ, tag_of(unit, page));
}

/* Square law: a quarter of the load order gets half of the reads. */
static uint32_t pick(void)
{
	uint64_t u = rng_next(&rng) >> 32;

	return (u * u >> 32) * UNITS >> 32;
}

static void transaction(void)
{
	for (int i = 0; i < 10; i++) {
		uint32_t unit = load_order[pick()];

		read_page(unit, 0);
		read_page(unit, rng_below(&rng, UNIT_PAGES));
	}
	for (int i = 0; i < 4; i++) {
		uint32_t unit = load_order[pick()];

		for (unsigned int n = 0; n < 2; n++)
			for (unsigned int j = 0; j < UNIT_PAGES; j++)
				read_page((unit + n) % UNITS, j);
	}
	for (int i = 0; i < 6; i++) {
		uint32_t unit = rng_below(&rng, UNITS);

		version[unit]++;
		write_unit(unit);
	}
}

/* The other process: asked for a step by a byte, answers with one. */
static int to_child = -1, from_child = -1;

static void other_start(void (*fn)(int in, int out))
{
	int req[2], ans[2];
	char c;
	pid_t pid;

	if (pipe(req) || pipe(ans))
		die("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(req[1]);
		close(ans[0]);
		fn(req[0], ans[1]);
		_exit(0);
	}
	close(req[0]);
	close(ans[1]);
	to_child = req[1];
	from_child = ans[0];
	if (read(from_child, &c, 1) != 1)
		die("the other process: %s", bench_reason());
}

static void other_step(void)
{
	char c = 0;

	if (to_child >= 0 && (write(to_child, &c, 1) != 1 || read(from_child, &c, 1) != 1))
		die("the other process: %s", bench_reason());
}

static size_t prefill_bytes;

/* Holds so much of swap until the end, as whole THP so that clusters are full. */
static void other_prefill(int in, int out)
{
	char *p, c = 0;

	cgroup_enter("prefill");
	p = arena_map(prefill_bytes, false);
	for (size_t at = 0; at < prefill_bytes; at += 32 * MIB) {
		size_t len = prefill_bytes - at < 32 * MIB ? prefill_bytes - at : 32 * MIB;

		for (size_t i = at; i < at + len; i += PAGE_SZ)
			*(uint64_t *)(p + i + PAGE_SZ - 8) = i + 1;
		arena_drop(p + at, len);
	}
	if (write(out, &c, 1) != 1)
		_exit(1);
	while (read(in, &c, 1) == 1)
		if (write(out, &c, 1) != 1)
			_exit(1);
	/* Nobody reads it again: neighbours of the arena in swap are all it is. */
}

static void other_mthp(int in, int out)
{
	uint8_t gen[MTHP_AREA / MTHP_STEP] = { 0 };
	struct rng r;
	char *p, c = 0;

	rng_init(&r, bench_seed + 1000);
	cgroup_enter("mthp");
	p = arena_map(MTHP_AREA, false);
	for (size_t i = 0; i < MTHP_AREA; i += MTHP_STEP)
		arena_fill(p + i, MTHP_STEP, i / MTHP_STEP);
	arena_advise(p, MTHP_AREA, MADV_PAGEOUT, "MADV_PAGEOUT");
	if (write(out, &c, 1) != 1)
		_exit(1);
	while (read(in, &c, 1) == 1 && c == 0) {
		size_t i = rng_below(&r, MTHP_AREA / MTHP_STEP);

		arena_advise(p + i * MTHP_STEP, MTHP_STEP, MADV_DONTNEED, "MADV_DONTNEED");
		gen[i]++;
		arena_fill(p + i * MTHP_STEP, MTHP_STEP, i + gen[i] * 1000UL);
		arena_advise(p + i * MTHP_STEP, MTHP_STEP, MADV_PAGEOUT, "MADV_PAGEOUT");
		if (write(out, &c, 1) != 1)
			_exit(1);
	}
	for (size_t i = 0; i < MTHP_AREA / MTHP_STEP; i++)
		verified(arena_bad(p + i * MTHP_STEP, MTHP_STEP, i + gen[i] * 1000UL));
	c = 'v';
	if (write(out, &c, 1) != 1)
		_exit(1);
}

void oltp_main(const char *name)
{
	bool mthp = !strncmp(name, "oltp-mthp", 9), tight = !strcmp(name, "oltp-mthp-tight");
	unsigned int fill = 0;
	struct drive_stat a, b;
	uint64_t t, in, out, nrin, nrout, swpout = 0, fallback = 0;
	const char *part;
	size_t kib = 0;
	double reads, writes;
	char c;

	rng_init(&rng, bench_seed);
	sscanf(name, "oltp-part-%u", &fill);
	part = part_path(fill >= 90 ? 4 : 3);
	thp_only(0, "never");
	drive_of(part, &drive);
	drive_check(&drive);
	kib = swap_part_on(part, fill >= 90 ? 2 * P3_KIB : tight ? 352 * KIB : P3_KIB);
	if (fill) {
		prefill_bytes = kib * KIB / 100 * fill / PMD_SZ * PMD_SZ;
		thp_only(2048, "always");
		other_start(other_prefill);
		emit("prefilled", "%", prefill_bytes * 100.0 / (kib * KIB));
		thp_only(0, "never");
	} else if (mthp) {
		thp_only(MTHP_FOLIO, "always");
		swpout = mthp_stat(MTHP_FOLIO, "swpout");
		fallback = mthp_stat(MTHP_FOLIO, "swpout_fallback");
		other_start(other_mthp);
	}

	cgroup_enter("oltp");
	cgroup_set("oltp", "memory.max", "%lu", LIMIT);
	arena = arena_map(ARENA, true);
	for (uint32_t i = 0; i < UNITS; i++)
		load_order[i] = i;
	shuffle(&rng, load_order, UNITS);
	for (uint32_t i = 0; i < UNITS; i++)
		write_unit(load_order[i]);

	for (int i = 0; i < WARMUP; i++) {
		transaction();
		if (mthp && i % MTHP_EVERY == 0)
			other_step();
	}
	drive_wait(&drive);
	drive_stat(&drive, &a);
	in = vmstat("pswpin");
	out = vmstat("pswpout");
	nrin = vmstat("nrswpin");
	nrout = vmstat("nrswpout");
	t = cpu_ns();
	for (int i = 0; i < COUNTED; i++) {
		transaction();
		if (mthp && i % MTHP_EVERY == 0)
			other_step();
	}
	t = cpu_ns() - t;
	drive_wait(&drive);
	drive_stat(&drive, &b);
	in = vmstat("pswpin") - in;
	out = vmstat("pswpout") - out;
	nrin = vmstat("nrswpin") - nrin;
	nrout = vmstat("nrswpout") - nrout;
	reads = b.reads - a.reads;
	writes = b.writes - a.writes;

	emit("read_reqs_per_tx", "requests", reads / COUNTED);
	emit("write_reqs_per_tx", "requests", writes / COUNTED);
	emit("sum_reqs_per_tx", "requests", (reads + writes) / COUNTED);
	emit("pages_in_per_tx", "pages", (double)in / COUNTED);
	emit("pages_out_per_tx", "pages", (double)out / COUNTED);
	emit("pages_per_read", "pages", reads ? in / reads : 0);
	emit("pages_per_write", "pages", writes ? out / writes : 0);
	emit("read_bios_per_tx", "count", (double)nrin / COUNTED);
	emit("write_bios_per_tx", "count", (double)nrout / COUNTED);
	emit_cpu("CPU_per_tx", (double)t / COUNTED);
	if (mthp) {
		swpout = mthp_stat(MTHP_FOLIO, "swpout") - swpout;
		fallback = mthp_stat(MTHP_FOLIO, "swpout_fallback") - fallback;
		if (!(swpout + fallback))
			skip("no folio of %u KiB went to swap", MTHP_FOLIO);
		emit("fallback_ratio", "%", fallback * 100.0 / (swpout + fallback));
		emit("folios_out", "count", swpout + fallback);
		c = 1;
		if (write(to_child, &c, 1) != 1 || read(from_child, &c, 1) != 1 || c != 'v')
			die("the other process: %s", bench_reason());
	}
	if (bad)
		die("DATA: %llu pages read during the run were wrong", (unsigned long long)bad);
	for (uint32_t u = 0; u < UNITS; u++)
		for (unsigned int i = 0; i < UNIT_PAGES; i++)
			bad += page_bad(arena + u * UNIT + i * PAGE_SZ, tag_of(u, i));
	verified(bad);
}
