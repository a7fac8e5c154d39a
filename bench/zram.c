// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a page costs to and from zram, a SWP_SYNCHRONOUS_IO device that gains
 * nothing from contiguous slots and must pay nothing for them. 64 MiB of
 * 4 KiB pages and 64 MiB of 64 KiB mTHP.
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

static void one(unsigned int kib)
{
	uint64_t pages, fallback = 0, made = 0, t_out, t_in;
	char metric[64], *p;

	thp_only(kib, "always");
	p = arena_map(AREA, !kib);
	if (kib) {
		made = mthp_stat(kib, "anon_fault_alloc");
		fallback = mthp_stat(kib, "swpout_fallback");
	}
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
	snprintf(metric, sizeof(metric), "out_%uk_CPU_per_page", kib ? kib : 4);
	emit_cpu(metric, (double)t_out / PAGES);
	snprintf(metric, sizeof(metric), "in_%uk_CPU_per_page", kib ? kib : 4);
	emit_cpu(metric, (double)t_in / PAGES);
	if (kib)
		emit("fallback", "count", mthp_stat(kib, "swpout_fallback") - fallback);
	verified(arena_bad(p, AREA, 1));
	munmap(p, AREA);
}

void zram_main(const char *name)
{
	char buf[64];

	(void)name;
	if (access(DEV, R_OK | W_OK))
		skip("there is no " DEV);
	read_text(SYS "/initstate", buf, sizeof(buf));
	if (buf[0] != '0')
		skip(DEV " is in use");
	write_text(SYS "/disksize", "%lu", 256 * MIB);
	swap_part_on(DEV, 0);
	one(0);
	one(64);
	swap_off(DEV);
	write_text(SYS "/reset", "1");
}
