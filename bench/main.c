// SPDX-License-Identifier: GPL-2.0-only
/*
 * swapbench: what swap-out costs, one workload after the other, each in a
 * process of its own. Every figure is a line "workload metric unit value",
 * separated by tabs, on stdout and at the end of the file given with --out.
 * With --slots some write which slot each page got, slots-WORKLOAD.tsv.
 * A workload that can't run says so in a line with the metric SKIP, one that
 * failed (wrong data above all) in one with FAIL; the reason is the value.
 *
 * Workloads that draw random numbers run once for each seed.
 *
 * Exit status: 0 all ran or skipped, 1 one failed, 2 bad usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bench.h"

static const struct workload {
	const char *name;
	void (*fn)(const char *name);
	bool seeded;
	const char *what;
} workloads[] = {
	{ "thp-file", thp_main, false, "8 MiB of THP to an ext4 swap file and back" },
	{ "thp-part", thp_main, false, "8 MiB of THP to a partition and back" },
	{ "mthp-noswap", mthp_main, false, "256 MiB of 16 KiB mTHP, no swap" },
	{ "mthp-swapmax0", mthp_main, false, "256 MiB of 16 KiB mTHP, memory.swap.max=0" },
	{ "thp-file-frag", thp_main, true, "as thp-file, extents of 64 KiB to 1 MiB" },
	{ "thp-part-frag", frag_main, true, "8 MiB of THP, 64 MiB device, random 64 KiB holes" },
	{ "thp-part-frag-1g", frag_main, true, "the same on 1 GiB" },
	{ "thp-part-frag-odd", frag_main, true, "64 MiB device, every other slot free" },
	{ "seqread", seqread_main, false, "32 MiB of THP to a swap file, read back in order" },
	{ "oltp-part", oltp_main, true, "synthetic OLTP on a 1 GiB partition" },
	{ "oltp-part-30", oltp_main, true, "the same, swap 30 % full of other memory" },
	{ "oltp-part-60", oltp_main, true, "the same, 60 % full" },
	{ "oltp-part-90", oltp_main, true, "the same, 2 GiB of swap 90 % full" },
	{ "oltp-mthp", oltp_main, true, "OLTP beside 64 MiB of 64 KiB mTHP coming and going" },
	{ "oltp-mthp-tight", oltp_main, true, "the same on 352 MiB of swap" },
	{ "mix", mix_main, true, "mTHP and 4 KiB pages, swap 94 % full" },
	{ "mix-78", mix_main, true, "the same, 78 % full" },
	{ "mix-60", mix_main, true, "the same, 60 % full" },
	{ "rewrite", mix_main, true, "4 KiB pages alone: a random quarter written to and paged out" },
	{ "scale", scale_main, false, "64 KiB mTHP to a swap file: 8 to 1,024 MiB, 1 to 10,000 extents" },
	{ "scale-fill", scale_main, true, "4 KiB pages to a partition that is 10 to 95 % full" },
	{ "exits", exits_main, true, "16 processes, killed by four, 64 KiB mTHP and 4 KiB pages" },
	{ "exits-zram", exits_main, true, "the same on zram" },
	{ "kbuild", kbuild_main, false, "a kernel's mm/ is built in 96 MiB (ROOT=build)" },
	{ "kbuild-zram", kbuild_main, false, "the same on zram" },
	{ "fio", beside_main, true, "fio's random reads beside 96 MiB that are paged out" },
	{ "uring", beside_main, false, "liburing's registered buffers amid what is paged out" },
	{ "mariadb", mariadb_main, true, "MariaDB and sysbench, pool 176 MiB, memcg 128 MiB (ROOT=mariadb)" },
	{ "mariadb-iocost", mariadb_main, true, "the same with io.cost on" },
	{ "mariadb-256", mariadb_main, true, "memcg 256 MiB, pool 352 MiB" },
	{ "zram", zram_main, false, "a page to and from zram" },
};

#define NR_WORKLOADS	(sizeof(workloads) / sizeof(workloads[0]))

static void usage(FILE *f)
{
	fprintf(f, "usage: swapbench [--seed N[,N...]] [--lru gen|classic] [--out FILE] [--slots DIR] WORKLOAD...\n");
	for (size_t i = 0; i < NR_WORKLOADS; i++)
		fprintf(f, "  %-18s %s\n", workloads[i].name, workloads[i].what);
	fprintf(f, "SWAPOUT_P2, _P3 and _P4 name partitions of 64 MiB, 1 GiB and at least 2.5 GiB.\n"
		"What they hold is lost.\n");
}

static const struct workload *find(const char *name)
{
	for (size_t i = 0; i < NR_WORKLOADS; i++)
		if (!strcmp(workloads[i].name, name))
			return &workloads[i];
	return NULL;
}

static bool run(const struct workload *w)
{
	int status;
	pid_t pid;

	bench_name = w->name;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (!pid) {
		w->fn(w->name);
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	cgroup_cleanup();
	probes_off();
	swap_cleanup();
	settings_restore();
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		emit_text("SKIP", bench_reason());
		return true;
	}
	if (WIFSIGNALED(status)) {
		char text[64];

		snprintf(text, sizeof(text), "killed by signal %d", WTERMSIG(status));
		emit_text("FAIL", text);
	} else {
		emit_text("FAIL", bench_reason());
	}
	return false;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "lru", required_argument, NULL, 'l' },
		{ "out", required_argument, NULL, 'o' },
		{ "slots", required_argument, NULL, 'm' },
		{ "list", no_argument, NULL, 'L' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seeds[32] = { 1 };
	int c, nr_seeds = 1;
	bool ok = true;

	bench_shared_init();
	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		char *end;

		switch (c) {
		case 's':
			nr_seeds = 0;
			for (char *t = optarg; ; t = end + 1) {
				if (nr_seeds == sizeof(seeds) / sizeof(seeds[0]))
					break;
				seeds[nr_seeds++] = strtoull(t, &end, 0);
				if (end == t || *end != ',')
					break;
			}
			if (*end) {
				fprintf(stderr, "swapbench: not a list of at most %zu numbers: --seed %s\n",
					sizeof(seeds) / sizeof(seeds[0]), optarg);
				return 2;
			}
			break;
		case 'l':
			if (strcmp(optarg, "gen") && strcmp(optarg, "classic")) {
				fprintf(stderr, "swapbench: --lru is gen or classic, not %s\n", optarg);
				return 2;
			}
			if (!try_write("/sys/kernel/mm/lru_gen/enabled", *optarg == 'g' ? "y" : "n")) {
				fprintf(stderr, "swapbench: lru_gen/enabled: %s\n", strerror(errno));
				return 1;
			}
			break;
		case 'o':
			bench_out = open(optarg, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
			if (bench_out < 0) {
				fprintf(stderr, "swapbench: %s: %s\n", optarg, strerror(errno));
				return 1;
			}
			break;
		case 'm':
			bench_slots = optarg;
			break;
		case 'L':
			for (size_t i = 0; i < NR_WORKLOADS; i++)
				puts(workloads[i].name);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind == argc) {
		usage(stderr);
		return 2;
	}
	for (int i = optind; i < argc; i++) {
		if (!find(argv[i])) {
			fprintf(stderr, "swapbench: no workload '%s'\n", argv[i]);
			return 2;
		}
	}
	if (geteuid()) {
		fprintf(stderr, "swapbench: must be root\n");
		return 1;
	}
	/* Cleaning up after a workload ends all swap: none may be on that isn't ours. */
	swap_none_or_die();
	settings_save();
	for (int i = optind; i < argc; i++) {
		const struct workload *w = find(argv[i]);

		for (int j = 0; j < (w->seeded ? nr_seeds : 1); j++) {
			bench_seed = seeds[j];
			ok &= run(w);
		}
	}
	return !ok;
}
