// SPDX-License-Identifier: GPL-2.0-only
/*
 * 64 KiB mTHP and 4 KiB pages on one nearly full device: does order 0 take the
 * clusters that large folios need? M is 48 MiB of 64 KiB mTHP, S 96 MiB of
 * 4 KiB pages; 8 rounds of dropping and refilling M and a random quarter of S.
 *
 * "rewrite" has S alone and writes to the quarter where it is: read from swap by
 * a write fault, and paged out again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/bench.h"

#define M_SIZE	(48 * MIB)
#define S_SIZE	(96 * MIB)
#define S_PAGES	(S_SIZE / PAGE_SZ)
#define FOLIO	64U			/* KiB */
#define ROUNDS	8

static struct drive drive;
static uint8_t version[S_PAGES];	/* of each page of S: its tag is (version, page) */
static size_t nr_clusters, touched, touched_sum;
static uint8_t *mark;			/* per cluster: written to over the run, in this round */

enum { EVER = 1, ROUND = 2 };

/*
 * Clusters that were written to: those of the slots that the pages filled
 * since the last pageout hold after it. All of them were written, as each
 * fill gives a new folio without a slot. Sampled after each pageout.
 */
static void sample(const char *p, size_t size, const uint8_t *fresh)
{
	uint64_t *slot = slots_read(p, size);

	for (size_t i = 0; i < size / PAGE_SZ; i++) {
		size_t c = slot[i] / CLUSTER_SLOTS;

		if ((fresh && !fresh[i]) || slot[i] == SLOT_NONE || c >= nr_clusters)
			continue;
		touched += !(mark[c] & EVER);
		touched_sum += !(mark[c] & ROUND);
		mark[c] |= EVER | ROUND;
	}
	free(slot);
}

static void pageout(char *p, size_t size, size_t step)
{
	for (size_t at = 0; at < size; at += step)
		arena_advise(p + at, step, MADV_PAGEOUT, "MADV_PAGEOUT");
	drive_wait(&drive);
}

static uint64_t s_tag(size_t i)
{
	return ((uint64_t)version[i] << 32) + (1ULL << 40) + i;
}

void mix_main(const char *name)
{
	static uint8_t fresh[S_PAGES];
	static uint32_t order[S_PAGES];
	bool rewrite = !strcmp(name, "rewrite");
	size_t kib = rewrite || !strcmp(name, "mix-60") ? 245760 : !strcmp(name, "mix-78") ? 184320 : 157696;
	uint64_t out, fallback, made, t, cpu = 0, cpu_s = 0, cpu_m = 0, bad = 0;
	struct drive_stat a, b;
	uint64_t bios, pages;
	struct rng r;
	char *m, *s;

	rng_init(&r, bench_seed);
	thp_only(FOLIO, "always");
	drive_of(part_path(3), &drive);
	drive_check(&drive);
	swap_part_on(part_path(3), kib);
	nr_clusters = kib * KIB / PMD_SZ;
	mark = calloc(nr_clusters, 1);
	m = arena_map(M_SIZE, false);
	s = arena_map(S_SIZE, true);
	if (!mark)
		die("no memory");

	drive_stat(&drive, &a);
	bios = vmstat("nrswpout");
	pages = vmstat("pswpout");
	out = mthp_stat(FOLIO, "swpout");
	fallback = mthp_stat(FOLIO, "swpout_fallback");
	made = mthp_stat(FOLIO, "anon_fault_alloc");
	for (size_t i = 0; i < S_PAGES; i++)
		order[i] = i;
	memset(fresh, 1, sizeof(fresh));
	for (int round = 0; round <= ROUNDS; round++) {
		uint64_t t0 = cpu_ns();

		/* Round 0 fills both arenas whole. */
		if (round) {
			if (!rewrite)
				arena_advise(m, M_SIZE, MADV_DONTNEED, "MADV_DONTNEED");
			shuffle(&r, order, S_PAGES);
			memset(fresh, 0, sizeof(fresh));
			for (size_t i = 0; i < S_PAGES / 4; i++) {
				if (!rewrite)
					arena_advise(s + order[i] * PAGE_SZ, PAGE_SZ,
						     MADV_DONTNEED, "MADV_DONTNEED");
				fresh[order[i]] = 1;
				version[order[i]]++;
			}
		}
		for (size_t i = 0; i < S_PAGES; i++)
			if (fresh[i])
				page_fill(s + i * PAGE_SZ, s_tag(i));
		t = cpu_ns();
		pageout(s, S_SIZE, 2 * MIB);
		cpu_s += cpu_ns() - t;
		cpu += cpu_ns() - t0;
		for (size_t i = 0; i < nr_clusters; i++)
			mark[i] &= ~ROUND;
		sample(s, S_SIZE, fresh);
		if (rewrite) {
			arena_drop(s, S_SIZE);
			continue;
		}

		t0 = cpu_ns();
		arena_fill(m, M_SIZE, round);
		t = cpu_ns();
		pageout(m, M_SIZE, M_SIZE);
		cpu_m += cpu_ns() - t;
		cpu += cpu_ns() - t0;
		sample(m, M_SIZE, NULL);
	}
	drive_stat(&drive, &b);
	out = mthp_stat(FOLIO, "swpout") - out;
	fallback = mthp_stat(FOLIO, "swpout_fallback") - fallback;
	made = mthp_stat(FOLIO, "anon_fault_alloc") - made;
	if (!rewrite && made < (ROUNDS + 1) * M_SIZE / KIB / FOLIO)
		skip("%llu of %lu folios of M are of %u KiB", (unsigned long long)made,
		     (ROUNDS + 1) * M_SIZE / KIB / FOLIO, FOLIO);
	bios = vmstat("nrswpout") - bios;
	pages = vmstat("pswpout") - pages;

	if (rewrite)
		emit("read_commands_in_rounds", "count", b.reads - a.reads);
	else
		emit("fallback_ratio", "%", out + fallback ? fallback * 100.0 / (out + fallback) : 0);
	emit("swpout", "count", out);
	emit("swpout_fallback", "count", fallback);
	/* Fill, drop and pageout of all rounds; the sampling isn't in it. */
	emit_cpu("CPU", cpu);
	emit_cpu("pageout_s_CPU", cpu_s);
	emit_cpu("pageout_m_CPU", cpu_m);
	emit("clusters_touched", "clusters", touched);
	emit("clusters_per_round", "clusters", (double)touched_sum / (ROUNDS + 1));
	emit("bios", "count", bios);
	emit("pswpout", "pages", pages);
	emit("write_commands", "count", b.writes - a.writes);
	emit("pages_per_write", "pages", (b.wsectors - a.wsectors) / 8.0 / (b.writes - a.writes));

	/* Reading it all back in order of address: what the layout costs readers. */
	arena_drop(s, S_SIZE);
	drive_stat(&drive, &a);
	for (size_t i = 0; i < S_PAGES; i++)
		bad += page_bad(s + i * PAGE_SZ, s_tag(i));
	drive_wait(&drive);
	drive_stat(&drive, &b);
	emit("read_commands", "count", b.reads - a.reads);
	if (!rewrite) {
		arena_drop(m, M_SIZE);
		bad += arena_bad(m, M_SIZE, ROUNDS);
	}
	verified(bad);
}
