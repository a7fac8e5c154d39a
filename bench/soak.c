// SPDX-License-Identifier: GPL-2.0-only
/*
 * soak: is a byte, a slot or a charge ever lost in swap-out?
 *
 * Workers write pages that say where they belong and verify them, while they
 * and two controllers do to that memory what makes swap-out hard: THP of all
 * sizes, MADV_PAGEOUT and its kin, fork, mremap, munmap, pins; limits of the
 * cgroup that move, folios split, MGLRU on and off, swap areas coming and going.
 * After each round every page is verified, all swap is switched off, and then
 * nothing may be left: no slot, no charge, no shmem.
 *
 * What a worker does depends on seed, round and worker alone; when the kernel
 * does its part in it does not. For the box: takes the machine's swap,
 * partitions and settings, and leaves them as they come.
 *
 * Exit status: 0 nothing was wrong, 1 something was, 2 bad usage, 4 can't run here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "soak/soak.h"

struct soak_shared *soak;

static const char *const op_name[NR_OPS] = {
#define OP(id, name, weight) [id] = name,
#include "soak/ops.h"
#undef OP
};

static const unsigned int order_kib[] = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048 };

#define NR_ORDERS	(sizeof(order_kib) / sizeof(order_kib[0]))

struct counts {
	uint64_t verified, swapoffs, swapons, pswpout, pswpin;
	uint64_t splits, swpout, fallback;
	uint64_t write_errors, page_faults, slab_faults;
};

static struct counts total;
static unsigned int rounds, restarts;
static uint64_t shmem_kib;	/* of the machine, before anything runs */
static time_t started, deadline;

uint64_t mix_seed(uint64_t a, uint64_t b)
{
	struct rng r;

	rng_init(&r, a ^ b * 0xd1342543de82ef95ULL);
	return rng_next(&r);
}

time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* A key of a file with lines "key value", 0 if it isn't there. */
uint64_t key_of(const char *path, const char *key)
{
	static char buf[32768];
	size_t len = strlen(key);

	read_text(path, buf, sizeof(buf));
	for (char *l = buf; *l; ) {
		if (!strncmp(l, key, len) && (l[len] == ' ' || l[len] == ':'))
			return strtoull(l + len + 1, NULL, 10);
		l += strcspn(l, "\n");
		l += *l == '\n';
	}
	return 0;
}

static void count(struct counts *c)
{
	memset(c, 0, sizeof(*c));
	c->verified = __atomic_load_n(&soak->verified, __ATOMIC_RELAXED);
	c->swapoffs = soak->swapoffs;
	c->swapons = soak->swapons;
	c->pswpout = vmstat("pswpout");
	c->pswpin = vmstat("pswpin");
	for (size_t i = 0; i < NR_ORDERS; i++) {
		char path[128];

		snprintf(path, sizeof(path), THP "/hugepages-%ukB/stats/split", order_kib[i]);
		if (access(path, F_OK))
			continue;
		c->splits += mthp_stat(order_kib[i], "split");
		c->swpout += mthp_stat(order_kib[i], "swpout");
		c->fallback += mthp_stat(order_kib[i], "swpout_fallback");
	}
	c->write_errors = areas_write_errors();
	c->page_faults = faults_injected("fail_page_alloc");
	c->slab_faults = faults_injected("failslab");
}

/* total += b - a, leaving b - a in b. */
static void account(const struct counts *a, struct counts *b)
{
	const uint64_t *from = (const uint64_t *)a;
	uint64_t *to = (uint64_t *)b, *sum = (uint64_t *)&total;

	for (size_t i = 0; i < sizeof(*a) / sizeof(*from); i++) {
		to[i] -= from[i];
		sum[i] += to[i];
	}
}

static void set_size(unsigned int kib, const char *file, const char *mode)
{
	char path[128];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/%s", kib, file);
	/* Not every size exists for anon. */
	if (!access(path, F_OK))
		write_text(path, "%s", mode);
}

/* Which folio sizes are on in a round: none, one, some or all, for anon and shmem. */
static void set_thp(struct rng *r, char *what, size_t len)
{
	static const char *const defrag[] = { "always", "madvise", "never", "defer" };
	static const char *const file[] = { "enabled", "shmem_enabled" };
	size_t used = 0;

	what[0] = '\0';
	write_text(THP "/enabled", "never");
	write_text(THP "/defrag", "%s", defrag[rng_below(r, 4)]);
	for (int f = 0; f < 2; f++) {
		unsigned int how = rng_below(r, 8), one = rng_below(r, NR_ORDERS), mask = 0;

		/* PMD size comes last and would come up too rarely among nine. */
		if (rng_below(r, 3) == 0)
			one = NR_ORDERS - 1;
		if (how == 1)
			mask = (1U << NR_ORDERS) - 1;
		else if (how < 4)
			mask = rng_below(r, 1U << NR_ORDERS);
		else if (how > 3)
			mask = 1U << one;
		if (!how)
			mask = 0;
		for (size_t i = 0; i < NR_ORDERS; i++)
			set_size(order_kib[i], file[f], mask & 1U << i ? "always" : "never");
		used += snprintf(what + used, len - used, "%s%s %03x", f ? ", " : "",
				 f ? "shmem" : "anon", mask);
	}
	/* khugepaged takes part in one round of four. */
	if (rng_below(r, 4)) {
		try_write(THP "/khugepaged/scan_sleep_millisecs", "4000000000");
	} else {
		try_write(THP "/khugepaged/scan_sleep_millisecs", "200");
		try_write(THP "/khugepaged/pages_to_scan", "4096");
		snprintf(what + used, len - used, ", khugepaged");
	}
}

static uint64_t oom_kills(void)
{
	return cgroup_event("soak", "memory.events", "oom_kill");
}

static void end_controllers(const pid_t *controller)
{
	int status;

	__atomic_store_n(&soak->stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		if (!controller[i])
			continue;
		if (waitpid(controller[i], &status, 0) != controller[i])
			die("waitpid: %s", strerror(errno));
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			die("%s", *bench_reason() ? bench_reason() : "a controller was killed");
	}
}

static void kill_workers(void)
{
	try_write(CGROUP "/cgroup.kill", "1");
	for (int i = 0; i < soak->workers; i++)
		if (soak->w[i].pid > 0 && waitpid(soak->w[i].pid, NULL, 0) == soak->w[i].pid)
			soak->w[i].pid = 0;
}

/* For what takes its time after an exit: statistics that are folded, work that is queued. */
static bool settles(bool (*ok)(char *why, size_t len), char *why, size_t len)
{
	for (int i = 0; i < 100; i++) {
		if (ok(why, len))
			return true;
		try_write("/proc/sys/vm/stat_refresh", "1");
		sleep_ms(100);
	}
	return false;
}

/* A slot in use that belongs to no process must have a folio of the swap cache. */
static bool no_slot_lost(char *why, size_t len)
{
	uint64_t free = key_of("/proc/meminfo", "SwapFree");
	uint64_t all = key_of("/proc/meminfo", "SwapTotal");
	uint64_t cached = key_of("/proc/meminfo", "SwapCached");

	snprintf(why, len, "all workers gone, %" PRIu64 " KiB of swap in use, %" PRIu64 " KiB cached",
		 all - free, cached);
	return all - free <= cached;
}

static bool no_charge_left(char *why, size_t len)
{
	static const char *const key[] = { "anon", "shmem", "swapcached" };
	uint64_t v;

	v = read_u64(CGROUP "/memory.swap.current");
	if (v) {
		snprintf(why, len, "no swap is on, memory.swap.current is %" PRIu64, v);
		return false;
	}
	for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++) {
		v = key_of(CGROUP "/memory.stat", key[i]);
		if (v) {
			snprintf(why, len, "all workers gone, %s is %" PRIu64 " in memory.stat",
				 key[i], v);
			return false;
		}
	}
	v = key_of("/proc/meminfo", "Shmem");
	if (v > shmem_kib) {
		snprintf(why, len, "all workers gone, Shmem is %" PRIu64 " KiB, was %" PRIu64,
			 v, shmem_kib);
		return false;
	}
	return true;
}

static void check_clean(struct rng *r)
{
	char why[256];
	uint64_t v, all;

	if (!settles(no_slot_lost, why, sizeof(why)))
		die("slots lost: %s", why);
	for (int i = 0; i < soak->nr_areas; i++)
		if (soak->area[i].on)
			area_off_for_good(&soak->area[i]);
	v = key_of("/proc/meminfo", "SwapTotal");
	if (v)
		die("all areas are off, SwapTotal is %" PRIu64 " KiB", v);
	if (!settles(no_charge_left, why, sizeof(why)))
		die("charges lost: %s", why);
	for (int i = 0; i < soak->nr_areas; i++)
		area_on(&soak->area[i], r, false);
	all = key_of("/proc/meminfo", "SwapTotal");
	v = key_of("/proc/meminfo", "SwapFree");
	if (!all || v != all)
		die("fresh swap isn't free: SwapTotal %" PRIu64 ", SwapFree %" PRIu64 " KiB", all, v);
}

/* True if the round ended well, false if the OOM killer was there: once more. */
static bool round_run(unsigned int nr, unsigned int try)
{
	int left = soak->workers;
	uint64_t ooms = oom_kills(), seen = 0;
	time_t moved = now_s();
	pid_t controller[2], pid;
	bool oom = false;
	int status;

	soak->round = nr;
	soak->stop = false;
	soak->hurry = false;
	soak->lock = false;
	soak->mem_max = soak->swap_max = UINT64_MAX;
	/* In every second round swap is so small that it gets full. */
	soak->tight = mix_seed(bench_seed, nr) >> 20 & 1;
	/* Gentler each time, at last without limits, so that a round comes to its end. */
	soak->floor = try < 3 ? (FLOOR_MIB + 32 * try) * MIB : UINT64_MAX;
	cgroup_set("soak", "memory.max", "max");
	cgroup_set("soak", "memory.swap.max", "max");
	fflush(NULL);
	for (int i = 0; i < soak->workers; i++) {
		memset(&soak->w[i], 0, sizeof(soak->w[i]));
		pid = fork();
		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid)
			worker_main(i);
		soak->w[i].pid = pid;
	}
	for (int i = 0; i < 2; i++) {
		controller[i] = fork();
		if (controller[i] < 0)
			die("fork: %s", strerror(errno));
		if (!controller[i] && i)
			swapper_main();
		if (!controller[i])
			limits_main();
	}

	while (left) {
		uint64_t sum = 0;

		/* A debug kernel under emulation feels each look. */
		sleep_ms(100);
		if (now_s() >= deadline)
			soak->hurry = true;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			int i;

			for (i = 0; i < soak->workers; i++)
				if (soak->w[i].pid == pid)
					break;
			if (i < soak->workers) {
				soak->w[i].pid = 0;
				left--;
			}
			for (i = 0; i < 2; i++)
				if (controller[i] == pid)
					controller[i] = 0;
			if (WIFEXITED(status) && !WEXITSTATUS(status))
				continue;
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
			    oom_kills() > ooms) {
				oom = true;
				continue;
			}
			if (WIFSIGNALED(status))
				die("a process of the run was killed by signal %d", WTERMSIG(status));
			die("%s", bench_reason());
		}
		if (oom) {
			kill_workers();
			break;
		}
		for (int i = 0; i < soak->workers; i++)
			sum += soak->w[i].ops;
		if (sum != seen) {
			seen = sum;
			moved = now_s();
		} else if (now_s() - moved > STALL_S) {
			/* Perhaps they cannot even be killed: this must come out. */
			die("no worker got on for %d s", STALL_S);
		}
	}
	end_controllers(controller);
	return !oom;
}

static void print_time(void)
{
	int s = now_s() - started;

	printf("%3d:%02d", s / 60, s % 60);
}

static void soak_run(unsigned int first)
{
	struct counts before, after;
	struct rng r;

	shared_setup_check();
	areas_setup();
	shmem_kib = key_of("/proc/meminfo", "Shmem");
	rng_init(&r, mix_seed(bench_seed, 0x5e7));
	for (int i = 0; i < soak->nr_areas; i++)
		area_on(&soak->area[i], &r, false);
	if (soak->faults)
		faults_setup();
	printf("seed %" PRIu64 ", %d workers of %d MiB, %u operations a round, set up after ",
	       bench_seed, soak->workers, WORKER_MIB, soak->ops);
	print_time();
	printf("\nround time  verified swapoffs  pswpout   pswpin   splits   swpout fallback%s  sizes\n",
	       soak->faults ? "  wr.err faults" : "");
	fflush(stdout);

	for (unsigned int nr = first; now_s() < deadline; nr++) {
		unsigned int try = 0;
		char sizes[128];

		rng_init(&r, mix_seed(bench_seed, nr));
		set_thp(&r, sizes, sizeof(sizes));
		count(&before);
		for (;;) {
			bool ok = round_run(nr, try++);

			check_clean(&r);
			if (ok)
				break;
			restarts++;
			printf("%5u ", nr);
			print_time();
			printf(" a worker was killed for want of memory: begun again\n");
			fflush(stdout);
			if (try == 5)
				die("killed for want of memory without limits");
		}
		count(&after);
		account(&before, &after);
		rounds++;
		printf("%5u ", nr);
		print_time();
		printf(" %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64,
		       after.verified, after.swapoffs, after.pswpout, after.pswpin, after.splits,
		       after.swpout, after.fallback);
		if (soak->faults)
			printf(" %7" PRIu64 " %6" PRIu64, after.write_errors,
			       after.page_faults + after.slab_faults);
		printf("  %s%s\n", sizes, soak->tight ? ", little swap" : "");
		fflush(stdout);
	}
	for (int i = 0; i < soak->nr_areas; i++)
		area_off_for_good(&soak->area[i]);
	printf("\nrounds                %12u\n", rounds);
	printf("rounds begun again    %12u\n", restarts);
	printf("pages verified        %12" PRIu64 "\n", total.verified);
	printf("swapoff, swapon       %12" PRIu64 " %" PRIu64 " while workers ran\n", total.swapoffs,
	       total.swapons);
	printf("swapoff broken off    %12" PRIu64 "\n", soak->swapoffs_cut);
	printf("swapoff after a round %12" PRIu64 "\n", soak->swapoffs_after);
	printf("longest swapoff       %12lld s, longest memory.reclaim %lld s\n",
	       (long long)soak->longest_off, (long long)soak->longest_reclaim);
	printf("pswpout, pswpin       %12" PRIu64 " %" PRIu64 "\n", total.pswpout, total.pswpin);
	printf("large folios split    %12" PRIu64 "\n", total.splits);
	printf("swpout, fallback      %12" PRIu64 " %" PRIu64 "\n", total.swpout, total.fallback);
	printf("limits, reclaims      %12" PRIu64 " %" PRIu64 "\n", soak->limits, soak->reclaims);
	printf("split_huge_pages      %12" PRIu64 "\n", soak->debug_splits);
	printf("MGLRU switched        %12" PRIu64 "\n", soak->lru_switches);
	if (soak->faults) {
		printf("pages of failed writes%12" PRIu64 "\n", total.write_errors);
		printf("fail_page_alloc       %12" PRIu64 "\n", total.page_faults);
		printf("failslab              %12" PRIu64 "\n", total.slab_faults);
	}
	printf("\noperation             %12s %s\n", "done", "refused");
	for (int i = 0; i < NR_OPS; i++)
		printf("%-21s %12" PRIu64 " %" PRIu64 "\n", op_name[i], soak->done[i], soak->refused[i]);
	printf("\n");
	if (!rounds)
		die("not one round in the time given");
	/* What never happened has not been tested. */
	if (soak->zswap ? !vmstat("zswpout") : !total.pswpout || !total.pswpin)
		die("nothing was swapped out and in again");
	if (!total.verified || !total.swapoffs)
		die("no page was verified, or no area switched off while workers ran");
	if (!soak->limits || !soak->reclaims)
		die("the limits were never changed");
	if (soak->faults && (!total.page_faults || !total.slab_faults || !total.write_errors))
		die("not every kind of fault was injected: write errors %" PRIu64 ", fail_page_alloc %"
		    PRIu64 ", failslab %" PRIu64, total.write_errors, total.page_faults,
		    total.slab_faults);
}

static void usage(FILE *f)
{
	fprintf(f, "usage: soak [--minutes N] [--seconds N] [--seed N] [--first ROUND] [--workers N]\n"
		   "            [--ops N] [--faults] [--zswap]\n"
		   "SWAPOUT_P2, _P3 and _P4 name partitions of 64 MiB, 1 GiB and at least 2.5 GiB.\n"
		   "What they hold is lost.\n");
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t v = strtoull(text, &end, 10);

	if (end == text || *end || v < least || v > most) {
		fprintf(stderr, "soak: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n",
			text, least, most);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "minutes", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "first", required_argument, NULL, 'f' },
		{ "workers", required_argument, NULL, 'w' },
		{ "ops", required_argument, NULL, 'o' },
		{ "faults", no_argument, NULL, 'F' },
		{ "zswap", no_argument, NULL, 'z' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned int first = 1;
	uint64_t seconds = 600;
	int c, status;
	pid_t pid;

	/*
	 * glibc's restartable sequence: if the page cannot be copied after a fork, the kernel,
	 * which writes the CPU there, sends SIGSEGV, and that is none of swap's.
	 */
	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		execv("/proc/self/exe", argv);
	}
	bench_name = "soak";
	bench_shared_init();
	soak = mmap(NULL, sizeof(*soak), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (soak == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	soak->workers = 4;
	soak->ops = 300;
	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (c) {
		case 'm':
			seconds = number(optarg, 1, 100000) * 60;
			break;
		case 't':
			seconds = number(optarg, 1, 10000000);
			break;
		case 's':
			bench_seed = number(optarg, 0, UINT64_MAX);
			break;
		case 'f':
			first = number(optarg, 1, 1000000000);
			break;
		case 'w':
			soak->workers = number(optarg, 1, MAX_WORKERS);
			break;
		case 'o':
			soak->ops = number(optarg, 1, 1000000);
			break;
		case 'F':
			soak->faults = true;
			break;
		case 'z':
			soak->zswap = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 2;
	}
	if (geteuid()) {
		fprintf(stderr, "soak: must be root\n");
		return 1;
	}
	started = now_s();
	deadline = started + seconds;
	/* A process of its own: die() anywhere ends it, and what it left is put away here. */
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (!pid) {
		soak_run(first);
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	soak->stop = true;
	cgroup_cleanup();
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		areas_cleanup();
		printf("soak: nothing lost, seed %" PRIu64 "\n", bench_seed);
		return 0;
	}
	if (WIFSIGNALED(status))
		printf("soak: FAILED in round %u, seed %" PRIu64 ": killed by signal %d\n",
		       soak->round, bench_seed, WTERMSIG(status));
	else if (WEXITSTATUS(status) == EXIT_SKIP)
		printf("soak: cannot run here: %s\n", bench_reason());
	else
		printf("soak: FAILED in round %u, seed %" PRIu64 ": %s\n", soak->round, bench_seed,
		       bench_reason());
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP ? EXIT_SKIP : 1;
}
