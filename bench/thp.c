// SPDX-License-Identifier: GPL-2.0-only
/*
 * 8 MiB of THP to swap and back, after the protocol of the "preserve physical
 * order" post: fill, MADV_COLLAPSE, MADV_PAGEOUT, 20 ms, touch one byte of each
 * page while all of them are in the swap cache. Figures are means of a cycle, of
 * which there are three times the post's four: how many completions interrupt
 * the thread depends on the host, and one invocation's mean moves by 2 %.
 *
 * Three kinds of cycles, in this order: plain ones for everything but the
 * rest; probed ones for iova_maps alone, as probes cost instructions; dropped
 * ones, where the pages really leave memory and are read back from the drive.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/bench.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define AREA		(8 * MIB)
#define PAGES		(AREA / PAGE_SZ)
#define CYCLES		12
#define PROBE_CYCLES	4
#define DROP_CYCLES	2

struct sums {
	double splits, fallback, bios, pswpout, commands, wsectors, pageout, refault, rising;
	double swapped, cached, alive, alive_pmd, maps;
	double nrswpin, pswpin, read_cmds, readback;
};

static struct drive drive;

static void fill_thp(char *p, uint64_t tag)
{
	size_t huge;

	arena_advise(p, AREA, MADV_DONTNEED, "MADV_DONTNEED");
	arena_fill(p, AREA, tag);
	if (madvise(p, AREA, MADV_COLLAPSE))
		skip("MADV_COLLAPSE of %lu KiB: %s", AREA / KIB, strerror(errno));
	huge = anon_huge_bytes(p);
	if (huge != AREA)
		skip("AnonHugePages is %zu kB, not %lu", huge / KIB, AREA / KIB);
}

static void cycle(char *p, uint64_t tag, struct sums *s, bool probe)
{
	uint64_t t, splits, fallback, bios, out, hits = 0, *slot;
	struct drive_stat a, b;

	fill_thp(p, tag);
	drive_wait(&drive);
	drive_stat(&drive, &a);
	splits = mthp_stat(2048, "split");
	fallback = mthp_stat(2048, "swpout_fallback");
	bios = vmstat("nrswpout");
	out = vmstat("pswpout");
	if (probe)
		hits = probes_hits();

	t = cpu_ns();
	arena_advise(p, AREA, MADV_PAGEOUT, "MADV_PAGEOUT");
	s->pageout += cpu_ns() - t;
	sleep_ms(20);

	if (probe)
		s->maps += probes_hits() - hits;
	drive_wait(&drive);
	drive_stat(&drive, &b);
	s->splits += mthp_stat(2048, "split") - splits;
	s->fallback += mthp_stat(2048, "swpout_fallback") - fallback;
	s->bios += vmstat("nrswpout") - bios;
	s->pswpout += vmstat("pswpout") - out;
	s->commands += b.writes - a.writes;
	s->wsectors += b.wsectors - a.wsectors;
	slot = slots_read(p, AREA);
	s->swapped += slots_swapped(slot, PAGES);
	s->rising += slots_rising(slot, PAGES);
	if (tag == 1)
		slots_write(slot, PAGES);
	free(slot);
	s->cached += cached_pages(p, AREA);

	t = cpu_ns();
	arena_touch(p, AREA);
	s->refault += cpu_ns() - t;

	s->alive += large_pages(p, AREA, 2);
	s->alive_pmd += large_pages(p, AREA, 9);
	verified(arena_bad(p, AREA, tag));
}

static void drop_cycle(char *p, uint64_t tag, struct sums *s)
{
	struct drive_stat a, b;
	uint64_t in, pages, t;

	fill_thp(p, tag);
	arena_drop(p, AREA);
	drive_wait(&drive);
	drive_stat(&drive, &a);
	in = vmstat("nrswpin");
	pages = vmstat("pswpin");
	t = cpu_ns();
	arena_touch(p, AREA);
	s->readback += cpu_ns() - t;
	drive_wait(&drive);
	drive_stat(&drive, &b);
	s->nrswpin += vmstat("nrswpin") - in;
	s->pswpin += vmstat("pswpin") - pages;
	s->read_cmds += b.reads - a.reads;
	verified(arena_bad(p, AREA, tag));
}

/* Swap is on, the drive known and checked. */
static void measure(void)
{
	struct sums s = { 0 };
	char *p = arena_map(AREA, false);
	uint64_t tag = 1;
	bool counted;

	thp_only(2048, "madvise");
	for (int i = 0; i < CYCLES; i++)
		cycle(p, tag++, &s, false);
	if (s.swapped < CYCLES * PAGES * 0.99 || s.cached < s.swapped)
		skip("%.0f of %lu pages swapped, %.0f of them in the swap cache",
		     s.swapped / CYCLES, PAGES, s.cached / CYCLES);

	emit("splits", "count", s.splits / CYCLES);
	emit("swpout_fallback", "count", s.fallback / CYCLES);
	emit("bios", "count", s.bios / CYCLES);
	emit("commands", "count", s.commands / CYCLES);
	emit("pages_per_command", "pages", s.wsectors / 8 / s.commands);
	emit_cpu("pageout_CPU", s.pageout / CYCLES);
	emit_cpu("refault_CPU", s.refault / CYCLES);
	emit_cpu("pageout_refault_CPU", (s.pageout + s.refault) / CYCLES);
	emit("slots_rising", "of 2047", s.rising / CYCLES);
	emit("pages_out", "pages", s.swapped / CYCLES);
	emit("alive", "%", s.alive * 100 / CYCLES / PAGES);
	emit("alive_2m", "%", s.alive_pmd * 100 / CYCLES / PAGES);

	counted = probes_on();
	if (counted) {
		struct sums probed = { 0 };

		for (int i = 0; i < PROBE_CYCLES; i++)
			cycle(p, tag++, &probed, true);
		probes_off();
		emit("iova_maps", "count", probed.maps / PROBE_CYCLES);
	}

	for (int i = 0; i < DROP_CYCLES; i++)
		drop_cycle(p, tag++, &s);
	emit("nrswpin", "count", s.nrswpin / DROP_CYCLES);
	emit("pswpin", "pages", s.pswpin / DROP_CYCLES);
	emit("read_commands", "count", s.read_cmds / DROP_CYCLES);
	emit_cpu("readback_CPU", s.readback / DROP_CYCLES);
}

static void on_file(bool scattered)
{
	const char *dir = fs_place(&drive);
	struct rng r;
	char path[256], other[256];

	rng_init(&r, bench_seed);
	snprintf(path, sizeof(path), "%s/swap", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	if (scattered)
		file_in_pieces(path, other, 128 * MIB, 64 * KIB, MIB, &r);
	else
		file_plain(path, 512 * MIB);
	emit("extents", "count", file_extents(path));
	swap_file_on(path);
}

void thp_main(const char *name)
{
	const char *part;

	if (!strcmp(name, "thp-part")) {
		part = part_path(3);
		drive_of(part, &drive);
		drive_check(&drive);
		swap_part_on(part, P3_KIB);
	} else {
		on_file(!strcmp(name, "thp-file-frag"));
	}
	measure();
}

/*
 * A device filled with 4 KiB pages of which some are freed again:
 *   thp-part-frag      64 MiB, half of the aligned groups of 16 slots are free
 *   thp-part-frag-1g   1 GiB, the same
 *   thp-part-frag-odd  64 MiB, every other slot is free: nothing but order 0 fits
 */
void frag_main(const char *name)
{
	bool odd = !strcmp(name, "thp-part-frag-odd"), big = !strcmp(name, "thp-part-frag-1g");
	const char *part = part_path(big ? 3 : 2);
	struct rng r;
	size_t kib;

	rng_init(&r, bench_seed);
	thp_only(0, "never");
	drive_of(part, &drive);
	drive_check(&drive);
	kib = swap_part_on(part, big ? P3_KIB : P2_KIB);
	emit("freed", "pages", device_fill(&drive, kib, odd ? 1 : 16, 50, &r));
	measure();
}

/*
 * THP to a swap file, dropped, read back page by page in order of address:
 * how many pages a read request carries. 32 MiB.
 */
void seqread_main(const char *name)
{
	size_t size = 32 * MIB;
	struct drive_stat a, b;
	uint64_t in, pages, t;
	char *p;

	if (!strcmp(name, "seqread"))
		on_file(false);
	else
		die("no such workload");
	thp_only(2048, "always");
	p = arena_map(size, false);
	arena_fill(p, size, 1);
	if (anon_huge_bytes(p) != size)
		skip("AnonHugePages is %zu kB, not %zu", anon_huge_bytes(p) / KIB, size / KIB);
	arena_drop(p, size);
	drive_wait(&drive);
	drive_stat(&drive, &a);
	in = vmstat("nrswpin");
	pages = vmstat("pswpin");
	t = cpu_ns();
	arena_touch(p, size);
	t = cpu_ns() - t;
	drive_wait(&drive);
	drive_stat(&drive, &b);
	in = vmstat("nrswpin") - in;
	pages = vmstat("pswpin") - pages;
	emit("pswpin", "pages", pages);
	emit("nrswpin", "count", in);
	emit("pages_per_bio", "pages", in ? (double)pages / in : 0);
	emit("read_commands", "count", b.reads - a.reads);
	emit("pages_per_command", "pages",
	     b.reads > a.reads ? (b.rsectors - a.rsectors) / 8.0 / (b.reads - a.reads) : 0);
	emit_cpu("readback_CPU", t);
	verified(arena_bad(p, size, 1));
}
