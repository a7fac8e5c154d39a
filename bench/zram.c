// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a page costs to and from zram, a SWP_SYNCHRONOUS_IO device that gains
 * nothing from contiguous slots and must pay nothing for them. 64 MiB of
 * 4 KiB pages and 64 MiB of 64 KiB mTHP. "same" are pages of one word repeated:
 * zram doesn't compress those, so that what is left is nearly all mm's cost.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/bench.h"

#define AREA	(64 * MIB)
#define PAGES	(AREA / PAGE_SZ)
#define DEV	"/dev/zram0"
#define SYS	"/sys/block/zram0"

static void fill_same(char *p)
{
	uint64_t *w = (uint64_t *)p;

	for (size_t i = 0; i < AREA / 8; i++)
		w[i] = 1 + i / (PAGE_SZ / 8);
}

static uint64_t bad_same(const char *p)
{
	const uint64_t *w = (const uint64_t *)p;
	uint64_t bad = 0;

	for (size_t i = 0; i < AREA / 8; i++)
		bad += w[i] != 1 + i / (PAGE_SZ / 8);
	return bad * 8;
}

static void one(unsigned int kib, bool same)
{
	uint64_t pages, fallback = 0, made = 0, t_out, t_in;
	char metric[64], *p;

	thp_only(kib, "always");
	p = arena_map(AREA, !kib);
	if (kib) {
		made = mthp_stat(kib, "anon_fault_alloc");
		fallback = mthp_stat(kib, "swpout_fallback");
	}
	if (same)
		fill_same(p);
	else
		arena_fill(p, AREA, 1);
	if (kib && mthp_stat(kib, "anon_fault_alloc") - made < AREA / KIB / kib)
		skip("not all folios are of %u KiB", kib);
	pages = vmstat("pswpout");
	t_out = cpu_ns();
	arena_advise(p, AREA, MADV_PAGEOUT, "MADV_PAGEOUT");
	t_out = cpu_ns() - t_out;
	pages = vmstat("pswpout") - pages;
	if (pages != PAGES)
		die("%llu of %lu pages went to zram", (unsigned long long)pages, PAGES);
	t_in = cpu_ns();
	arena_touch(p, AREA);
	t_in = cpu_ns() - t_in;
	snprintf(metric, sizeof(metric), "out_%uk%s_CPU_per_page", kib ? kib : 4,
		 same ? "_same" : "");
	emit_cpu(metric, (double)t_out / PAGES);
	snprintf(metric, sizeof(metric), "in_%uk%s_CPU_per_page", kib ? kib : 4,
		 same ? "_same" : "");
	emit_cpu(metric, (double)t_in / PAGES);
	if (kib)
		emit(same ? "fallback_64k_same" : "fallback_64k", "count",
		     mthp_stat(kib, "swpout_fallback") - fallback);
	verified(same ? bad_same(p) : arena_bad(p, AREA, 1));
	munmap(p, AREA);
}

/* A zram device of so many bytes; skips if there is none to be had. */
const char *zram_path(size_t size)
{
	char buf[64];

	if (access(DEV, R_OK | W_OK))
		skip("there is no " DEV);
	read_text(SYS "/initstate", buf, sizeof(buf));
	if (buf[0] != '0')
		skip(DEV " is in use");
	write_text(SYS "/disksize", "%zu", size);
	return DEV;
}

void zram_reset(void)
{
	write_text(SYS "/reset", "1");
}

void zram_main(const char *name)
{
	(void)name;
	swap_part_on(zram_path(256 * MIB), 0);
	one(0, false);
	one(0, true);
	one(64, false);
	one(64, true);
	swap_off(DEV);
	zram_reset();
}
