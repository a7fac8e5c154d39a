// SPDX-License-Identifier: GPL-2.0-only
/*
 * A browser on a small machine: 16 processes of 16 to 40 MiB, half of it 64 KiB
 * mTHP and half 4 KiB pages, in a memcg of 192 MiB. One of them at a time reads
 * or writes 1 MiB of its memory; every twentieth step four of them are killed at
 * once and begin anew, so that swap is freed in swathes. 800 steps.
 *
 *   exits        on a partition of 512 MiB
 *   exits-zram   on zram of the same size
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

#define TABS	16U
#define STEPS	800U
#define STORM	20U			/* steps from one to the next ... */
#define KILLED	4U			/* ... which ends so many */
#define LIMIT	(192 * MIB)
#define CHUNK	MIB
#define FOLIO	64U			/* KiB */

static struct tab {
	pid_t pid;
	int to, from;
} tabs[TABS];

static struct rng rng;

/* Each chunk is of one kind of page and has a version of its own. */
static void tab_main(int in, int out, uint64_t seed)
{
	unsigned int nr, version[64] = { 0 }, i;
	struct rng r;
	char *p, c = 0;

	rng_init(&r, seed);
	nr = 16 + rng_below(&r, 25);
	p = arena_map(nr * CHUNK, false);
	arena_advise(p, nr / 2 * CHUNK, MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE");
	for (i = 0; i < nr; i++)
		arena_fill(p + i * CHUNK, CHUNK, i);
	while (write(out, &c, 1) == 1 && read(in, &c, 1) == 1) {
		i = rng_below(&r, nr);
		verified(arena_bad(p + i * CHUNK, CHUNK, i + 1000 * version[i]));
		if (rng_below(&r, 3))
			continue;
		version[i]++;
		arena_fill(p + i * CHUNK, CHUNK, i + 1000 * version[i]);
	}
}

static void answer(struct tab *t)
{
	char c;

	if (read(t->from, &c, 1) != 1)
		die("a process ended: %s", bench_reason());
}

static void tab_start(struct tab *t)
{
	uint64_t seed = rng_next(&rng);
	int req[2], ans[2];

	if (pipe(req) || pipe(ans))
		die("pipe: %s", strerror(errno));
	t->pid = fork();
	if (t->pid < 0)
		die("fork: %s", strerror(errno));
	if (!t->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(req[1]);
		close(ans[0]);
		tab_main(req[0], ans[1], seed);
		_exit(0);
	}
	close(req[0]);
	close(ans[1]);
	t->to = req[1];
	t->from = ans[0];
	answer(t);
}

static void tab_kill(struct tab *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	close(t->to);
	close(t->from);
}

void exits_main(const char *name)
{
	bool zram = !strcmp(name, "exits-zram");
	const char *dev = zram ? zram_path(512 * MIB) : part_path(3);
	uint64_t out, fallback, split, in_pages, out_pages, in_bios, out_bios, made;
	struct drive_stat a, b;
	struct drive drive;
	char c = 0;

	rng_init(&rng, bench_seed);
	thp_only(FOLIO, "always");
	drive_of(dev, &drive);
	if (!zram)
		drive_check(&drive);
	swap_part_on(dev, 512 * KIB);
	cgroup_enter("exits");
	cgroup_set("exits", "memory.max", "%lu", LIMIT);
	made = mthp_stat(FOLIO, "anon_fault_alloc");
	for (unsigned int i = 0; i < TABS; i++)
		tab_start(&tabs[i]);
	if (mthp_stat(FOLIO, "anon_fault_alloc") - made < TABS * 8 * MIB / KIB / FOLIO)
		skip("no folios of %u KiB", FOLIO);

	drive_wait(&drive);
	drive_stat(&drive, &a);
	out = mthp_stat(FOLIO, "swpout");
	fallback = mthp_stat(FOLIO, "swpout_fallback");
	split = mthp_stat(FOLIO, "split");
	in_pages = vmstat("pswpin");
	out_pages = vmstat("pswpout");
	in_bios = vmstat("nrswpin");
	out_bios = vmstat("nrswpout");
	for (unsigned int step = 1; step <= STEPS; step++) {
		struct tab *t = &tabs[rng_below(&rng, TABS)];

		if (write(t->to, &c, 1) != 1)
			die("a process ended: %s", bench_reason());
		answer(t);
		if (step % STORM)
			continue;
		t = &tabs[rng_below(&rng, TABS / KILLED) * KILLED];
		for (unsigned int i = 0; i < KILLED; i++)
			tab_kill(t + i);
		for (unsigned int i = 0; i < KILLED; i++)
			tab_start(t + i);
	}
	drive_wait(&drive);
	drive_stat(&drive, &b);
	out = mthp_stat(FOLIO, "swpout") - out;
	fallback = mthp_stat(FOLIO, "swpout_fallback") - fallback;
	out_pages = vmstat("pswpout") - out_pages;
	in_pages = vmstat("pswpin") - in_pages;
	emit("fallback_ratio", "%", out + fallback ? fallback * 100.0 / (out + fallback) : 0);
	emit("swpout", "count", out);
	emit("splits", "count", mthp_stat(FOLIO, "split") - split);
	emit("pages_out", "pages", out_pages);
	emit("pages_in", "pages", in_pages);
	emit("write_bios", "count", vmstat("nrswpout") - out_bios);
	emit("read_bios", "count", vmstat("nrswpin") - in_bios);
	if (!zram) {
		emit("write_requests", "requests", b.writes - a.writes);
		emit("read_requests", "requests", b.reads - a.reads);
		emit("sum_requests", "requests", b.writes - a.writes + b.reads - a.reads);
	}
	emit("oom_kills", "count", cgroup_event("exits", "memory.events", "oom_kill"));
	/* Whatever is left is read once more. */
	for (unsigned int i = 0; i < TABS; i++) {
		for (int j = 0; j < 8; j++) {
			if (write(tabs[i].to, &c, 1) != 1)
				die("a process ended: %s", bench_reason());
			answer(&tabs[i]);
		}
		tab_kill(&tabs[i]);
	}
	if (zram) {
		swap_off(dev);
		zram_reset();
	}
	verified(0);
}
