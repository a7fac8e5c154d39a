// SPDX-License-Identifier: GPL-2.0-only
/*
 * 256 MiB of 16 KiB mTHP and one MADV_PAGEOUT that can swap nothing: no swap
 * is on, or the cgroup's memory.swap.max is 0. Splitting can't help.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/bench.h"

#define AREA	(256 * MIB)
#define FOLIO	16U			/* KiB */
#define FOLIOS	(AREA / KIB / FOLIO)

void mthp_main(const char *name)
{
	bool quota = !strcmp(name, "mthp-swapmax0");
	uint64_t t, splits, activated, out, max = 0, fail = 0, made;
	struct drive drive;
	char *p;

	thp_only(FOLIO, "always");
	if (quota) {
		drive_of(part_path(3), &drive);
		drive_check(&drive);
		swap_part_on(part_path(3), P3_KIB);
		cgroup_enter("mthp");
		cgroup_set("mthp", "memory.swap.max", "0");
	} else {
		swap_none_or_die();
	}
	p = arena_map(AREA, false);
	made = mthp_stat(FOLIO, "anon_fault_alloc");
	arena_fill(p, AREA, 1);
	made = mthp_stat(FOLIO, "anon_fault_alloc") - made;
	if (made < FOLIOS)
		skip("%llu of %lu folios are of %u KiB", (unsigned long long)made, FOLIOS, FOLIO);

	if (quota) {
		max = cgroup_event("mthp", "memory.swap.events", "max");
		fail = cgroup_event("mthp", "memory.swap.events", "fail");
	}
	splits = mthp_stat(FOLIO, "split");
	activated = vmstat("pgactivate");
	out = vmstat("pswpout");
	t = cpu_ns();
	arena_advise(p, AREA, MADV_PAGEOUT, "MADV_PAGEOUT");
	t = cpu_ns() - t;
	emit("splits", "count", mthp_stat(FOLIO, "split") - splits);
	emit_cpu("pageout_CPU", t);
	emit("pgactivate", "pages", vmstat("pgactivate") - activated);
	emit("pswpout", "pages", vmstat("pswpout") - out);
	if (quota) {
		emit("swap_events_max", "count",
		     cgroup_event("mthp", "memory.swap.events", "max") - max);
		emit("swap_events_fail", "count",
		     cgroup_event("mthp", "memory.swap.events", "fail") - fail);
	}
	verified(arena_bad(p, AREA, 1));
}
