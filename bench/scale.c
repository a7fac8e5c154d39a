// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the cost of a page grows with what is swapped out, with the extents of the
 * swap file, and with how full swap is.
 *
 * scale: 64 KiB mTHP to a file of 1,280 MiB on ext4
 *   sizes     8 to 1,024 MiB at a time, a file of one or few extents
 *   extents   64 MiB at a time, 1 to 10,000 extents of the same length
 *
 * "spread" is the dearest page of those divided by the cheapest. With 20,000
 * extents, of 64 KiB, requests are half as long as behind an IOMMU they may be:
 * that is printed, and not part of the spread.
 *
 * scale-fill: 32 MiB of 4 KiB pages to a partition of 1 GiB that is 10 to 95 %
 * full of others, with holes of 64 KiB and more, at random
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

#define FOLIO	64U			/* KiB */
#define FILE_SZ	(1280 * MIB)
#define LEAST	(256 * MIB)		/* in all, for a figure */

static struct drive drive;

struct spread {
	double least, most;
};

static void add(struct spread *s, double value)
{
	if (!s->least || value < s->least)
		s->least = value;
	if (value > s->most)
		s->most = value;
}

/* Page out and touch again, while all of it is in the swap cache. */
static double cost(unsigned int folio, size_t size, const char *what)
{
	unsigned int cycles = size < LEAST ? LEAST / size : 1;
	double pages = (double)cycles * size / PAGE_SZ, out = 0, in = 0;
	struct drive_stat before, after;
	uint64_t t, swapped = vmstat("pswpout"), fallback = folio ? mthp_stat(folio, "swpout_fallback") : 0;
	char *p = arena_map(size, !folio), metric[64];

	drive_stat(&drive, &before);
	for (unsigned int i = 0; i < cycles; i++) {
		arena_advise(p, size, MADV_DONTNEED, "MADV_DONTNEED");
		arena_fill(p, size, i + 1);
		drive_wait(&drive);
		t = cpu_ns();
		arena_advise(p, size, MADV_PAGEOUT, "MADV_PAGEOUT");
		out += cpu_ns() - t;
		drive_wait(&drive);
		t = cpu_ns();
		arena_touch(p, size);
		in += cpu_ns() - t;
		verified(arena_bad(p, size, i + 1));
	}
	munmap(p, size);
	drive_stat(&drive, &after);
	swapped = vmstat("pswpout") - swapped;
	if (swapped < pages * 0.99)
		skip("%s: %llu of %.0f pages went to swap", what, (unsigned long long)swapped,
		     pages);
	snprintf(metric, sizeof(metric), "%s_out_CPU_per_page", what);
	emit_cpu(metric, out / pages);
	snprintf(metric, sizeof(metric), "%s_in_CPU_per_page", what);
	emit_cpu(metric, in / pages);
	snprintf(metric, sizeof(metric), "%s_pages_per_write", what);
	emit(metric, "pages", (double)swapped / (after.writes - before.writes));
	snprintf(metric, sizeof(metric), "%s_fallback", what);
	if (folio)
		emit(metric, "folios", mthp_stat(folio, "swpout_fallback") - fallback);
	return (out + in) / pages;
}

static void fill_main(void)
{
	static const unsigned int percent[] = { 10, 30, 60, 90, 95 };
	char what[32];
	struct rng r;

	drive_of(part_path(3), &drive);
	drive_check(&drive);
	thp_only(0, "never");
	for (size_t i = 0; i < sizeof(percent) / sizeof(*percent); i++) {
		size_t kib = swap_part_on(part_path(3), P3_KIB);
		pid_t pid = fork();
		int status;

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid) {
			/* What fills the device ends with this process. */
			rng_init(&r, bench_seed);
			device_fill(&drive, kib, 16, 100 - percent[i], &r);
			snprintf(what, sizeof(what), "fill_%u", percent[i]);
			cost(0, 32 * MIB, what);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			die("%s", bench_reason());
		swap_off(part_path(3));
	}
}

void scale_main(const char *name)
{
	static const unsigned int mib[] = { 8, 32, 128, 512, 1024 };
	static const unsigned int pieces[] = { 1, 10, 100, 1000, 10000, 20000 };
	struct spread sizes = { 0 }, extents = { 0 };
	char path[256], other[256], what[32];
	const char *dir;
	double c;

	if (!strcmp(name, "scale-fill")) {
		fill_main();
		return;
	}
	dir = fs_place(&drive);
	thp_only(FOLIO, "always");
	snprintf(path, sizeof(path), "%s/swap", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		size_t len = FILE_SZ / pieces[i] / (FOLIO * KIB) * FOLIO * KIB;

		if (pieces[i] == 1)
			file_plain(path, FILE_SZ);
		else
			file_in_pieces(path, other, FILE_SZ, len, len, NULL);
		snprintf(what, sizeof(what), "extents_%u", pieces[i]);
		emit(what, "count", file_extents(path));
		swap_file_on(path);
		for (size_t j = 0; !i && j < sizeof(mib) / sizeof(*mib); j++) {
			snprintf(what, sizeof(what), "size_%u", mib[j]);
			add(&sizes, cost(FOLIO, mib[j] * MIB, what));
		}
		snprintf(what, sizeof(what), "extents_%u", pieces[i]);
		c = cost(FOLIO, 64 * MIB, what);
		if (len >= 128 * KIB)
			add(&extents, c);
		swap_off(path);
		unlink(path);
		unlink(other);
	}
	emit("spread_sizes", "ratio", sizes.most / sizes.least);
	emit("spread_extents", "ratio", extents.most / extents.least);
}
