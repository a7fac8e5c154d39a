// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

#define THP	"/sys/kernel/mm/transparent_hugepage"

/* What a workload may change; saved once before any of them runs. */
struct setting {
	char path[160];
	char value[64];
};

static struct setting saved[64];
static int nr_saved;

/* "always [madvise] never" becomes "madvise". */
static void strip_choice(char *s)
{
	char *a = strchr(s, '['), *b = a ? strchr(a, ']') : NULL;

	if (b) {
		*b = '\0';
		memmove(s, a + 1, b - a);
	} else {
		s[strcspn(s, "\n")] = '\0';
	}
}

static void save(const char *path)
{
	struct setting *s = &saved[nr_saved];
	char buf[128];

	if (nr_saved == (int)(sizeof(saved) / sizeof(saved[0])) ||
	    !try_read(path, buf, sizeof(buf)))
		return;
	strip_choice(buf);
	if (strlen(buf) >= sizeof(s->value) || strlen(path) >= sizeof(s->path))
		return;
	strcpy(s->path, path);
	strcpy(s->value, buf);
	nr_saved++;
}

static void each_mthp(void (*fn)(unsigned int kib, const char *arg), const char *arg)
{
	DIR *d = opendir(THP);
	struct dirent *e;
	unsigned int kib;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (sscanf(e->d_name, "hugepages-%ukB", &kib) == 1)
			fn(kib, arg);
	closedir(d);
}

static void save_mthp(unsigned int kib, const char *arg)
{
	char path[160];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/%s", kib, arg);
	save(path);
}

void settings_save(void)
{
	save(THP "/enabled");
	save(THP "/defrag");
	save(THP "/khugepaged/scan_sleep_millisecs");
	save("/proc/sys/vm/page-cluster");
	each_mthp(save_mthp, "enabled");
}

void settings_restore(void)
{
	for (int i = 0; i < nr_saved; i++)
		if (!try_write(saved[i].path, saved[i].value))
			note("%s: cannot restore '%s'", saved[i].path, saved[i].value);
}

static void set_mthp(unsigned int kib, const char *mode)
{
	char path[160];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/enabled", kib);
	/* Some sizes exist for files alone and have no such switch. */
	if (!access(path, F_OK))
		write_text(path, "%s", mode);
}

/*
 * One folio size on, all others off; 0 switches all off. khugepaged is kept
 * asleep: what it collapses in the middle of a run is nobody's workload.
 */
void thp_only(unsigned int kib, const char *mode)
{
	char path[160];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/enabled", kib ? kib : 2048);
	if (access(path, W_OK))
		skip("no folios of %u KiB: %s: %s", kib, path, strerror(errno));
	try_write(THP "/khugepaged/scan_sleep_millisecs", "4000000000");
	write_text(THP "/enabled", "never");
	write_text(THP "/defrag", "always");
	each_mthp(set_mthp, "never");
	if (kib)
		set_mthp(kib, mode);
}

uint64_t mthp_stat(unsigned int kib, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), THP "/hugepages-%ukB/stats/%s", kib, name);
	return read_u64(path);
}

uint64_t vmstat(const char *name)
{
	static char buf[32768];
	size_t len = strlen(name);

	read_text("/proc/vmstat", buf, sizeof(buf));
	for (char *l = buf; l && *l; l = strchr(l, '\n'), l = l ? l + 1 : NULL)
		if (!strncmp(l, name, len) && l[len] == ' ')
			return strtoull(l + len, NULL, 10);
	skip("/proc/vmstat has no %s", name);
}

#define CGROOT	"/sys/fs/cgroup"
#define CGDIR	CGROOT "/swapbench"

static char own[64];		/* cgroup of this process, "" for the root */

/* A memory cgroup of its own for the calling process. */
void cgroup_enter(const char *name)
{
	char path[160], buf[256];

	if (!try_read(CGROOT "/cgroup.controllers", buf, sizeof(buf)) || !strstr(buf, "memory"))
		skip("no memory controller of cgroup v2 at " CGROOT);
	write_text(CGROOT "/cgroup.subtree_control", "+memory");
	if (mkdir(CGDIR, 0755) && errno != EEXIST)
		die(CGDIR ": %s", strerror(errno));
	write_text(CGDIR "/cgroup.subtree_control", "+memory");
	snprintf(path, sizeof(path), CGDIR "/%s", name);
	if (mkdir(path, 0755) && errno != EEXIST)
		die("%s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), CGDIR "/%s/cgroup.procs", name);
	write_text(path, "0");
	snprintf(own, sizeof(own), "/swapbench/%s", name);
}

/* Take anonymous memory from this process's cgroup, the end of the LRU first. */
void cgroup_reclaim(size_t bytes)
{
	char path[160], text[64];

	snprintf(path, sizeof(path), CGROOT "%s/memory.reclaim", own);
	snprintf(text, sizeof(text), "%zu swappiness=max", bytes);
	/* EAGAIN: less than that was there to take. */
	if (!try_write(path, text) && errno != EAGAIN)
		skip("%s: %s", path, strerror(errno));
}

void cgroup_set(const char *name, const char *file, const char *fmt, ...)
{
	char path[160], text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), CGDIR "/%s/%s", name, file);
	write_text(path, "%s", text);
}

/*
 * Start a program with its output in a file; in a memcg of its own with a limit in
 * bytes, or if cgroup is NULL in the caller's. Exit statuses 126 and 127 as in a shell.
 */
pid_t start(const char *cgroup, size_t limit, const char *log, const char *const argv[])
{
	pid_t pid = fork();
	int fd;

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cgroup) {
		cgroup_enter(cgroup);
		cgroup_set(cgroup, "memory.max", "%zu", limit);
	}
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

/* Value of a key in a file such as memory.swap.events. */
uint64_t cgroup_event(const char *name, const char *file, const char *key)
{
	char path[160], buf[4096], *l;
	size_t len = strlen(key);

	snprintf(path, sizeof(path), CGDIR "/%s/%s", name, file);
	read_text(path, buf, sizeof(buf));
	for (l = buf; *l; l++) {
		if (!strncmp(l, key, len) && l[len] == ' ')
			return strtoull(l + len, NULL, 10);
		l += strcspn(l, "\n");
		if (!*l)
			break;
	}
	die("%s has no %s", path, key);
}

/* In the parent, when a workload has ended, however it did. */
void cgroup_cleanup(void)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(CGDIR);

	if (!d)
		return;
	try_write(CGDIR "/cgroup.kill", "1");
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' || e->d_type != DT_DIR)
			continue;
		snprintf(path, sizeof(path), CGDIR "/%s", e->d_name);
		for (int i = 0; rmdir(path) && errno == EBUSY && i < 100; i++)
			sleep_ms(20);
	}
	closedir(d);
	for (int i = 0; rmdir(CGDIR) && errno == EBUSY && i < 100; i++)
		sleep_ms(20);
}

#define TRACEFS	"/sys/kernel/tracing"

static const char *const probe_fn[] = { "dma_iova_link", "iommu_dma_map_phys" };

#define NR_PROBES	(sizeof(probe_fn) / sizeof(probe_fn[0]))

/*
 * Count IOVA mappings: every call of these two makes one. True if they can be
 * counted. Hits cost instructions, hence never together with a measurement.
 */
bool probes_on(void)
{
	int fd;

	if (access(TRACEFS "/kprobe_events", W_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	probes_off();
	fd = open(TRACEFS "/kprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0) {
		note("no iova_maps: " TRACEFS "/kprobe_events: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < NR_PROBES; i++) {
		char line[128];
		int n = snprintf(line, sizeof(line), "p:swapbench/%s %s\n", probe_fn[i], probe_fn[i]);

		if (write(fd, line, n) != n) {
			note("no iova_maps: probe on %s: %s", probe_fn[i], strerror(errno));
			close(fd);
			probes_off();
			return false;
		}
	}
	close(fd);
	write_text(TRACEFS "/events/swapbench/enable", "1");
	return true;
}

void probes_off(void)
{
	int fd;

	if (access(TRACEFS "/events/swapbench/enable", W_OK))
		return;
	try_write(TRACEFS "/events/swapbench/enable", "0");
	fd = open(TRACEFS "/kprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t i = 0; i < NR_PROBES; i++) {
		char line[128];
		int n = snprintf(line, sizeof(line), "-:swapbench/%s\n", probe_fn[i]);

		if (write(fd, line, n) != n)
			note("probe on %s not removed: %s", probe_fn[i], strerror(errno));
	}
	close(fd);
}

uint64_t probes_hits(void)
{
	char buf[4096], name[64];
	unsigned long long hits;
	uint64_t sum = 0;

	read_text(TRACEFS "/kprobe_profile", buf, sizeof(buf));
	for (char *l = strtok(buf, "\n"); l; l = strtok(NULL, "\n"))
		for (size_t i = 0; i < NR_PROBES; i++)
			if (sscanf(l, "%63s %llu", name, &hits) == 2 && !strcmp(name, probe_fn[i]))
				sum += hits;
	return sum;
}
