// SPDX-License-Identifier: GPL-2.0-only
/*
 * A kernel build in a memcg that is too small for it: what becomes of the 64 KiB mTHP
 * of its compilers, and what the drive gets to do. In the box (ROOT=build) mm/ of
 * tinyconfig, whose object files must be those that the same compiler made before; on
 * a machine of one's own any tree that is configured.
 *
 *   kbuild        on a partition
 *   kbuild-zram   on zram
 *
 * Environment: BUILD_TREE (/opt/linux), BUILD_TARGETS (mm/), BUILD_JOBS (4), BUILD_MIB
 * (96, memory.max), BUILD_SWAP_MIB (1024).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

#define FOLIO	64U			/* KiB */
#define LOG	"/tmp/kbuild.log"

static const char *setting(const char *name, const char *otherwise)
{
	const char *v = getenv(name);

	return v && *v ? v : otherwise;
}

static size_t mib_setting(const char *name, const char *otherwise)
{
	const char *v = setting(name, otherwise);
	char *end;
	size_t n = strtoul(v, &end, 10);

	if (*end || n < 16 || n > 1 << 20)
		die("%s=%s is not a number of MiB from 16 to 1048576", name, v);
	return n;
}

void kbuild_main(const char *name)
{
	bool zram = !strcmp(name, "kbuild-zram");
	const char *tree = setting("BUILD_TREE", "/opt/linux");
	const char *targets = setting("BUILD_TARGETS", "mm/");
	size_t limit = mib_setting("BUILD_MIB", "96"), swap = mib_setting("BUILD_SWAP_MIB", "1024");
	char jobs[16], path[256], text[16384];
	const char *const build[] = { "make", "-C", tree, jobs, targets, NULL };
	const char *const sums[] = { "sha256sum", "--quiet", "--strict", "-c", path, NULL };
	uint64_t made, out, fallback, split, pages_in, pages_out, bios_in, bios_out;
	struct drive_stat a, b;
	struct drive drive;
	const char *dev;
	int status;

	snprintf(jobs, sizeof(jobs), "-j%s", setting("BUILD_JOBS", "4"));
	snprintf(path, sizeof(path), "%s/.config", tree);
	if (access(path, R_OK))
		skip("%s: no configured kernel tree (ROOT=build, or BUILD_TREE)", tree);
	dev = zram ? zram_path(swap * MIB) : part_path(3);
	thp_only(FOLIO, "always");
	drive_of(dev, &drive);
	if (!zram)
		drive_check(&drive);
	swap_part_on(dev, swap * KIB);

	drive_wait(&drive);
	drive_stat(&drive, &a);
	made = mthp_stat(FOLIO, "anon_fault_alloc");
	out = mthp_stat(FOLIO, "swpout");
	fallback = mthp_stat(FOLIO, "swpout_fallback");
	split = mthp_stat(FOLIO, "split");
	pages_in = vmstat("pswpin");
	pages_out = vmstat("pswpout");
	bios_in = vmstat("nrswpin");
	bios_out = vmstat("nrswpout");
	if (waitpid(start("kbuild", limit * MIB, LOG, build), &status, 0) < 0)
		die("waitpid: %s", strerror(errno));
	drive_wait(&drive);
	drive_stat(&drive, &b);
	if (status) {
		read_text(LOG, text, sizeof(text));
		die("make: status %#x: %.300s", status,
		    strlen(text) > 300 ? text + strlen(text) - 300 : text);
	}
	out = mthp_stat(FOLIO, "swpout") - out;
	fallback = mthp_stat(FOLIO, "swpout_fallback") - fallback;
	emit("folios_made", "count", mthp_stat(FOLIO, "anon_fault_alloc") - made);
	emit("fallback_ratio", "%", out + fallback ? fallback * 100.0 / (out + fallback) : 0);
	emit("swpout", "count", out);
	emit("splits", "count", mthp_stat(FOLIO, "split") - split);
	emit("pages_out", "pages", vmstat("pswpout") - pages_out);
	emit("pages_in", "pages", vmstat("pswpin") - pages_in);
	emit("write_bios", "count", vmstat("nrswpout") - bios_out);
	emit("read_bios", "count", vmstat("nrswpin") - bios_in);
	if (!zram) {
		emit("write_requests", "requests", b.writes - a.writes);
		emit("read_requests", "requests", b.reads - a.reads);
		emit("sum_requests", "requests", b.writes - a.writes + b.reads - a.reads);
	}
	emit("oom_kills", "count", cgroup_event("kbuild", "memory.events", "oom_kill"));
	if (zram) {
		swap_off(dev);
		zram_reset();
	}
	snprintf(path, sizeof(path), "%s/objects.sha256", tree);
	if (access(path, R_OK))
		note("%s: object files are not compared", path);
	else if (chdir(tree) || run_cmd(sums))
		die("DATA: object files differ from %s", path);
}
