// SPDX-License-Identifier: GPL-2.0-only
/*
 * soak's controllers, one for the cgroup's limits, splits and MGLRU, one for the
 * swap areas, as a swapoff takes its time; and the faults.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soak.h"

#define DEBUGFS		"/sys/kernel/debug"
#define FAULTS_GIVEN	1000000000	/* "times" of a fault, from where it counts down */
#define OFF_S		200		/* no swapoff takes that long */

static char flaky[32], flaky_under[32];		/* in /sys/block */

static void on_alarm(int sig)
{
	(void)sig;
}

/* swapoff that a signal breaks off after so long. */
static int swapoff_for(const char *path, unsigned int ms)
{
	struct itimerval t = { .it_value = { ms / 1000, ms % 1000 * 1000 } }, none = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	time_t start = now_s();
	int ret, err;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	ret = swapoff(path);
	err = errno;
	setitimer(ITIMER_REAL, &none, NULL);
	if (now_s() - start > soak->longest_off)
		soak->longest_off = now_s() - start;
	errno = err;
	return ret;
}

void make_it_fail(bool on)
{
	if (soak->faults)
		write_text("/proc/self/make-it-fail", "%d", on);
}

static bool is_flaky(const struct area *a)
{
	return *flaky && !strcmp(strrchr(a->path, '/') + 1, flaky);
}

/* Priorities are few, so that some are equal; one of five is the kernel's own choice. */
bool area_on(struct area *a, struct rng *r, bool may_fail)
{
	static const int flags[] = {
		0, 0, SWAP_FLAG_DISCARD, SWAP_FLAG_DISCARD | 0x20000, SWAP_FLAG_DISCARD | 0x40000
	};
	int f = flags[rng_below(r, sizeof(flags) / sizeof(flags[0]))], prio = rng_below(r, 5);

	/* Preferred to others, for what fails to be tried. */
	if (is_flaky(a))
		f |= SWAP_FLAG_PREFER | 15;
	else if (prio)
		f |= SWAP_FLAG_PREFER | (prio == 4 ? 3 : prio * 5);
	if (swapon(a->path, f)) {
		if (may_fail)
			return false;
		die("swapon %s, flags %x: %s", a->path, f, strerror(errno));
	}
	a->on = true;
	return true;
}

/* With no worker left nothing but a slot that nobody frees can hold it up. */
void area_off_for_good(struct area *a)
{
	if (!a->on)
		return;
	if (swapoff_for(a->path, OFF_S * 1000)) {
		if (errno == EINTR)
			die("slots lost: swapoff %s does not end, and no worker is left", a->path);
		die("swapoff %s: %s", a->path, strerror(errno));
	}
	a->on = false;
	soak->swapoffs_after++;
}

static void area_add(const char *path, size_t kib)
{
	struct area *a = &soak->area[soak->nr_areas++];
	struct stat st;

	if (soak->nr_areas > MAX_AREAS || stat(path, &st))
		die("%s: %s", path, strerror(errno));
	/* Writes the header as well. */
	if (S_ISBLK(st.st_mode))
		swap_part_on(path, kib);
	else
		swap_file_on(path);
	a->kib = key_of("/proc/meminfo", "SwapTotal");
	swap_off(path);
	snprintf(a->path, sizeof(a->path), "%s", path);
}

/* A new zram device; its name in /sys/block. */
static void zram_new(size_t size, char *name, size_t len)
{
	char path[128];

	if (access("/sys/class/zram-control/hot_add", R_OK))
		skip("no zram: /sys/class/zram-control/hot_add: %s", strerror(errno));
	snprintf(name, len, "zram%" PRIu64, read_u64("/sys/class/zram-control/hot_add"));
	snprintf(path, sizeof(path), "/sys/block/%s/comp_algorithm", name);
	write_text(path, "lzo");
	snprintf(path, sizeof(path), "/sys/block/%s/disksize", name);
	write_text(path, "%zu", size);
}

/* Over a zram device one that fails all writes, and no read, one second in four. */
static void flaky_setup(void)
{
	const char *argv[] = { "dmsetup", "create", "--noudevsync", "soak-flaky", "--table", NULL, NULL };
	char table[400], path[320], name[64];
	struct dirent *e;
	DIR *d;

	zram_new(96 * MIB, flaky_under, sizeof(flaky_under));
	snprintf(path, sizeof(path), "/dev/%s", flaky_under);
	swap_part_on(path, 0);
	swap_off(path);
	snprintf(table, sizeof(table), "0 %lu flakey %s 0 3 1 1 error_writes", 96 * MIB / 512, path);
	argv[5] = table;
	if (run_cmd(argv))
		skip("dmsetup cannot make a device of the table %s", table);
	d = opendir("/sys/block");
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/sys/block/%s/dm/name", e->d_name);
		if (!try_read(path, name, sizeof(name)) || strcmp(name, "soak-flaky\n"))
			continue;
		snprintf(flaky, sizeof(flaky), "%.31s", e->d_name);
	}
	if (d)
		closedir(d);
	if (!*flaky)
		die("the device soak-flaky is not in /sys/block");
	snprintf(soak->area[soak->nr_areas].path, sizeof(soak->area[0].path), "/dev/%s", flaky);
	soak->area[soak->nr_areas++].kib = 96 * KIB;
}

/* Pages that were to be written to the flaky device and did not get through it. */
uint64_t areas_write_errors(void)
{
	struct drive top, under;
	struct drive_stat t, u;

	if (!*flaky)
		return 0;
	snprintf(top.name, sizeof(top.name), "%s", flaky);
	snprintf(under.name, sizeof(under.name), "%s", flaky_under);
	drive_stat(&top, &t);
	drive_stat(&under, &u);
	/* The header went straight to the device below. */
	return t.wsectors + 8 > u.wsectors ? (t.wsectors + 8 - u.wsectors) / 8 : 0;
}

void shared_setup_check(void)
{
	pid_t pid;
	int status;

	swap_none_or_die();
	for (int i = 2; i <= 4; i++)
		part_path(i);
	/* The workers' cgroup, for the controller to find. */
	pid = fork();
	if (!pid) {
		cgroup_enter("soak");
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork: %s", strerror(errno));
	if (status)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	/* One worker alone would leave the others waiting for its round. */
	cgroup_set("soak", "memory.oom.group", "1");
	/* Else swapoff is refused for what it might need. */
	write_text("/proc/sys/vm/overcommit_memory", "1");
	if (soak->zswap)
		write_text("/sys/module/zswap/parameters/enabled", "Y");
}

void areas_setup(void)
{
	char path[160], other[160], name[32];
	struct drive drive;
	const char *mnt = fs_place(&drive);
	struct rng r;

	snprintf(path, sizeof(path), "%s/plain", mnt);
	file_plain(path, 128 * MIB);
	area_add(path, 0);
	rng_init(&r, mix_seed(bench_seed, 0xf11e));
	snprintf(path, sizeof(path), "%s/pieces", mnt);
	snprintf(other, sizeof(other), "%s/other", mnt);
	file_in_pieces(path, other, 96 * MIB, 2 * PAGE_SZ, 512 * KIB, &r);
	note("%u extents in the fragmented file", file_extents(path));
	area_add(path, 0);
	area_add(part_path(2), 0);
	area_add(part_path(3), 0);
	zram_new(64 * MIB, name, sizeof(name));
	snprintf(path, sizeof(path), "/dev/%s", name);
	area_add(path, 0);
	if (soak->faults)
		flaky_setup();
}

void areas_cleanup(void)
{
	const char *const argv[] = { "dmsetup", "remove", "--noudevsync", "soak-flaky", NULL };

	swap_cleanup();
	if (soak->faults && run_cmd(argv))
		note("dmsetup remove soak-flaky failed");
}

/*
 * Allocations fail for tasks that ask for it, also those that may sleep, of
 * pages of any order. A fork makes hundreds of slab allocations, hence so few.
 */
static const struct fault {
	const char *name;
	unsigned int interval, percent;
} faults[] = {
	{ "fail_page_alloc", 10, 5 },
	{ "failslab", 50, 10 },
};

void faults_setup(void)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault *f = &faults[i];
		char path[128];

		snprintf(path, sizeof(path), DEBUGFS "/%s/probability", f->name);
		if (access(path, W_OK))
			skip("no %s, it takes KERNEL=debug: %s: %s", f->name, path, strerror(errno));
#define SET(file, ...) do {							\
	snprintf(path, sizeof(path), DEBUGFS "/%s/" file, f->name);		\
	write_text(path, __VA_ARGS__);						\
} while (0)
		SET("task-filter", "Y");
		SET("ignore-gfp-wait", "N");
		SET("interval", "%u", f->interval);
		SET("times", "%d", FAULTS_GIVEN);
		SET("verbose", "0");
		SET("probability", "%u", f->percent);
#undef SET
	}
	write_text(DEBUGFS "/fail_page_alloc/ignore-gfp-highmem", "N");
	write_text(DEBUGFS "/fail_page_alloc/min-order", "0");
}

uint64_t faults_injected(const char *name)
{
	char path[128];

	if (!soak->faults)
		return 0;
	snprintf(path, sizeof(path), DEBUGFS "/%s/times", name);
	return FAULTS_GIVEN - read_u64(path);
}

static bool try_reclaim(uint64_t bytes, bool anon)
{
	time_t start = now_s();
	char text[64];
	bool done;

	snprintf(text, sizeof(text), "%" PRIu64 "%s", bytes, anon ? " swappiness=max" : "");
	soak->reclaims++;
	done = try_write(CGROUP "/memory.reclaim", text);
	if (now_s() - start > soak->longest_reclaim)
		soak->longest_reclaim = now_s() - start;
	return done;
}

static struct area *random_area(struct rng *r)
{
	return &soak->area[rng_below(r, soak->nr_areas)];
}

static uint64_t need_bytes(void)
{
	return soak->workers * WORKER_MIB * MIB + SLACK_MIB * MIB;
}

static uint64_t swap_kib(const struct area *gone)
{
	uint64_t kib = 0;

	for (int i = 0; i < soak->nr_areas; i++)
		if (soak->area[i].on && &soak->area[i] != gone)
			kib += soak->area[i].kib;
	return kib;
}

/* Room in swap without one area; what folios in memory still hold of it is none. */
static uint64_t swap_without(const struct area *gone)
{
	return swap_kib(gone) * KIB / 4 * 3;
}

static void lock(void)
{
	while (__atomic_test_and_set(&soak->lock, __ATOMIC_ACQUIRE))
		sleep_ms(1);
}

static void unlock(void)
{
	__atomic_clear(&soak->lock, __ATOMIC_RELEASE);
}

static void set_limit(const char *file, uint64_t v)
{
	if (v == UINT64_MAX)
		cgroup_set("soak", file, "max");
	else
		cgroup_set("soak", file, "%" PRIu64, v / PAGE_SZ * PAGE_SZ);
}

/*
 * Both limits; at each moment they allow together what the workers need. Less
 * memory only after as much was reclaimed: memory.max itself would kill.
 */
static void set_limits(uint64_t mem, uint64_t swap)
{
	if (mem >= soak->mem_max) {
		set_limit("memory.max", mem);
		soak->mem_max = mem;
		set_limit("memory.swap.max", swap);
		soak->swap_max = swap;
		return;
	}
	set_limit("memory.swap.max", swap);
	soak->swap_max = swap;
	for (int i = 0; i < 5; i++) {
		uint64_t now = read_u64(CGROUP "/memory.current");

		if (now < mem) {
			set_limit("memory.max", mem);
			soak->mem_max = mem;
			return;
		}
		if (!try_reclaim(now - mem + 2 * MIB, true))
			break;
	}
}

static uint64_t mem_floor(uint64_t swap)
{
	uint64_t need = need_bytes(), least = soak->floor;

	if (swap < need && need - swap > least)
		least = need - swap;
	return least;
}

static void act_limits(struct rng *r)
{
	uint64_t have = swap_without(NULL), swap = UINT64_MAX, mem;

	switch (rng_below(r, 4)) {
	case 0:
		swap = rng_below(r, 3) ? rng_below(r, need_bytes()) : 0;
		break;
	case 1:
		set_limits(UINT64_MAX, UINT64_MAX);
		return;
	}
	/* What is charged already beyond a new limit stays, and is no room for more. */
	mem = mem_floor(swap < have ? swap : have);
	if (mem != UINT64_MAX)
		mem += rng_below(r, 2) ? rng_below(r, 64 * MIB) : 0;
	set_limits(mem, swap);
	soak->limits++;
}

static void act_off(struct area *a, struct rng *r)
{
	unsigned int cut = rng_below(r, 6) ? OFF_S * 1000 : 5 + rng_below(r, 300);
	uint64_t have = swap_without(a), least;
	bool fail = soak->faults && rng_below(r, 2);

	if (!a->on || !have)
		return;
	/* What comes back from it must find room in memory or in the others. */
	lock();
	a->on = false;
	least = mem_floor(soak->swap_max < have ? soak->swap_max : have);
	if (soak->mem_max < least)
		set_limits(least, soak->swap_max);
	unlock();
	make_it_fail(fail);
	if (!swapoff_for(a->path, cut)) {
		soak->swapoffs++;
	} else {
		a->on = true;
		/* No memory: a fault, or the workers' cgroup could not be charged. */
		if (errno != EINTR && errno != ENOMEM)
			die("swapoff %s: %s", a->path, strerror(errno));
		soak->swapoffs_cut++;
	}
	make_it_fail(false);
}

static void act_on(struct rng *r)
{
	struct area *a = random_area(r);
	bool fail = soak->faults && rng_below(r, 2);

	if (a->on || (soak->tight && swap_kib(NULL) + a->kib > TIGHT_MIB * KIB))
		return;
	make_it_fail(fail);
	soak->swapons += area_on(a, r, fail);
	make_it_fail(false);
}

static void act_split(struct rng *r)
{
	int i = rng_below(r, soak->workers);
	char *base = soak->w[i].base[rng_below(r, NR_ARENAS)], text[128];
	unsigned int n = 1 + rng_below(r, ARENA_PAGES), at = rng_below(r, ARENA_PAGES - n + 1);
	unsigned int order = rng_below(r, 2) ? 0 : 2 + rng_below(r, 7);

	if (!soak->w[i].pid || !base)
		return;
	/* No terminating zero is sent: the kernel's buffer has one. */
	snprintf(text, sizeof(text), "%d,%p,%p,%u", soak->w[i].pid, base + at * PAGE_SZ,
		 base + (at + n) * PAGE_SZ, order);
	/* The worker may have ended or moved its arena. */
	if (try_write(DEBUGFS "/split_huge_pages", text))
		soak->debug_splits++;
}

/* Leave on as many areas, in random order after the flaky one, as make up TIGHT_MIB. */
static void tighten(struct rng *r)
{
	uint32_t order[MAX_AREAS];
	uint64_t kib = 0;

	for (int i = 0; i < soak->nr_areas; i++)
		order[i] = i;
	shuffle(r, order, soak->nr_areas);
	for (int i = 0; i < soak->nr_areas; i++) {
		if (is_flaky(&soak->area[order[i]])) {
			uint32_t t = order[0];

			order[0] = order[i];
			order[i] = t;
		}
	}
	for (int i = 0; i < soak->nr_areas; i++) {
		struct area *a = &soak->area[order[i]];

		if (kib + a->kib > TIGHT_MIB * KIB)
			act_off(a, r);
		else
			kib += a->kib;
	}
}

static bool going_on(void)
{
	return !__atomic_load_n(&soak->stop, __ATOMIC_RELAXED);
}

void swapper_main(void)
{
	struct rng r;

	rng_init(&r, mix_seed(mix_seed(bench_seed, soak->round), 0x5a));
	if (soak->tight)
		tighten(&r);
	while (going_on()) {
		if (rng_below(&r, 5) < 2)
			act_off(random_area(&r), &r);
		else
			act_on(&r);
		sleep_ms(1 + rng_below(&r, 30));
	}
	_exit(0);
}

void limits_main(void)
{
	struct rng r;

	rng_init(&r, mix_seed(mix_seed(bench_seed, soak->round), 0xc0));
	while (going_on()) {
		unsigned int what = rng_below(&r, 100);

		if (what < 30) {
			lock();
			act_limits(&r);
			unlock();
		} else if (what < 60) {
			try_reclaim((1 + rng_below(&r, 16)) * MIB, rng_below(&r, 2));
		} else if (what < 95) {
			act_split(&r);
		} else if (try_write(LRU_GEN, rng_below(&r, 2) ? "y" : "n")) {
			soak->lru_switches++;
		}
		sleep_ms(1 + rng_below(&r, 30));
	}
	_exit(0);
}
