// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

/* A VMA of its own, aligned to 2 MiB. */
char *arena_map(size_t size, bool nohuge)
{
	char *p, *a;
	size_t pad = PMD_SZ - PAGE_SZ, head, tail;

	/* A page of guard on each side keeps the VMA from merging with a neighbour. */
	p = mmap(NULL, size + pad + 2 * PAGE_SZ, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("mmap of %zu KiB: %s", size / KIB, strerror(errno));
	a = (char *)(((uintptr_t)p + PAGE_SZ + PMD_SZ - 1) & ~(PMD_SZ - 1));
	head = a - PAGE_SZ - p;
	tail = p + size + pad + 2 * PAGE_SZ - (a + size + PAGE_SZ);
	if (head)
		munmap(p, head);
	if (tail)
		munmap(a + size + PAGE_SZ, tail);
	if (mprotect(a, size, PROT_READ | PROT_WRITE))
		die("mprotect: %s", strerror(errno));
	if (nohuge)
		arena_advise(a, size, MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE");
	return a;
}

void arena_advise(char *p, size_t size, int advice, const char *what)
{
	if (madvise(p, size, advice))
		die("%s of %zu KiB: %s", what, size / KIB, strerror(errno));
}

/*
 * Every word of a page differs from every other and none is zero, the last one
 * (which the kernel's zero test reads first) included.
 */
static uint64_t tag_base(uint64_t tag)
{
	tag *= 0x9e3779b97f4a7c15ULL;
	tag ^= tag >> 29;
	return (tag << 12) | 1;
}

void page_fill(char *page, uint64_t tag)
{
	uint64_t *w = (uint64_t *)page, base = tag_base(tag);

	for (uint64_t i = 0; i < PAGE_SZ / 8; i++)
		w[i] = base + i;
}

uint64_t page_bad(const char *page, uint64_t tag)
{
	const uint64_t *w = (const uint64_t *)page;
	uint64_t base = tag_base(tag), bad = 0;

	for (uint64_t i = 0; i < PAGE_SZ / 8; i++)
		bad += w[i] != base + i;
	return bad * 8;
}

/* First and last word only: cheap enough for the measured part of a run. */
bool page_is(const char *page, uint64_t tag)
{
	const volatile uint64_t *w = (const volatile uint64_t *)page;
	uint64_t base = tag_base(tag);

	return w[0] == base && w[PAGE_SZ / 8 - 1] == base + PAGE_SZ / 8 - 1;
}

void arena_fill(char *p, size_t size, uint64_t tag)
{
	for (size_t i = 0; i < size / PAGE_SZ; i++)
		page_fill(p + i * PAGE_SZ, (tag << 32) + i);
}

uint64_t arena_bad(const char *p, size_t size, uint64_t tag)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < size / PAGE_SZ; i++)
		bad += page_bad(p + i * PAGE_SZ, (tag << 32) + i);
	return bad;
}

/* One byte read of each page. */
void arena_touch(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i += PAGE_SZ)
		(void)*(volatile const char *)(p + i);
}

/* Wrong bytes end the workload: a figure from corrupt data is worth nothing. */
void verified(uint64_t bad)
{
	if (bad)
		die("DATA: %llu bytes differ from what was written", (unsigned long long)bad);
}

/* AnonHugePages of the mapping that starts at p. */
size_t anon_huge_bytes(const char *p)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool here = false;
	size_t kib = 0;

	if (!f)
		die("/proc/self/smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start == (unsigned long)p;
		else if (here && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
			break;
	}
	fclose(f);
	return kib * KIB;
}

#define PM_PRESENT	(1ULL << 63)
#define PM_SWAP		(1ULL << 62)
#define PM_PFN		((1ULL << 55) - 1)

static uint64_t *pagemap_read(const char *p, size_t size)
{
	size_t n = size / PAGE_SZ, len = n * 8, have = 0;
	uint64_t *e = malloc(len);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (!e || fd < 0)
		die("/proc/self/pagemap: %s", strerror(errno));
	while (have < len) {
		ssize_t r = pread(fd, (char *)e + have, len - have,
				  (uintptr_t)p / PAGE_SZ * 8 + have);

		if (r <= 0)
			die("/proc/self/pagemap: short read");
		have += r;
	}
	close(fd);
	return e;
}

/* Swap slot of each page, SLOT_NONE where there is none. The caller frees. */
uint64_t *slots_read(const char *p, size_t size)
{
	uint64_t *e = pagemap_read(p, size);

	/* Bits 0-4 are the swap type: one device is on, or the offsets mean nothing. */
	for (size_t i = 0; i < size / PAGE_SZ; i++)
		e[i] = e[i] & PM_SWAP ? (e[i] & PM_PFN) >> 5 : SLOT_NONE;
	return e;
}

size_t slots_swapped(const uint64_t *slot, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += slot[i] != SLOT_NONE;
	return k;
}

/* Of n - 1 neighbours: how many have the next slot. */
size_t slots_rising(const uint64_t *slot, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i + 1 < n; i++)
		k += slot[i] != SLOT_NONE && slot[i + 1] == slot[i] + 1;
	return k;
}

/* For a picture: a line "page slot" for each page that is in swap. */
void slots_write(const uint64_t *slot, size_t n)
{
	char path[512];
	FILE *f;

	if (!bench_slots)
		return;
	snprintf(path, sizeof(path), "%s/slots-%s.tsv", bench_slots, bench_name);
	f = fopen(path, "w");
	if (!f)
		die("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < n; i++)
		if (slot[i] != SLOT_NONE)
			fprintf(f, "%zu\t%llu\n", i, (unsigned long long)slot[i]);
	if (fclose(f))
		die("%s: %s", path, strerror(errno));
}

/* Pages that need no read: mapped, or swapped and still in the swap cache. */
size_t cached_pages(char *p, size_t size)
{
	size_t n = size / PAGE_SZ, k = 0;
	unsigned char *vec = malloc(n);

	if (!vec || mincore(p, size, vec))
		die("mincore: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		k += vec[i] & 1;
	free(vec);
	return k;
}

/*
 * Leave every page of the range in swap and nowhere else. MADV_PAGEOUT doesn't
 * see what it has unmapped already and left in the swap cache; proactive
 * reclaim finds it, clean, at the end of the LRU. Touching it again instead
 * would give up its slot where swap is half full.
 */
void arena_drop(char *p, size_t size)
{
	size_t left = size / PAGE_SZ;

	for (int i = 0; i < 20; i++) {
		arena_advise(p, size, MADV_PAGEOUT, "MADV_PAGEOUT");
		/* Under icount a sleep takes no time on the host, where the writes are. */
		for (int j = 0; j < 100000 && vmstat("nr_writeback"); j++)
			sleep_ms(1);
		left = cached_pages(p, size);
		if (!left)
			return;
		cgroup_reclaim(left * PAGE_SZ);
	}
	die("%zu of %zu pages stay in memory", left, size / PAGE_SZ);
}

/*
 * Fill the swap device with 4 KiB pages, which stay until the process ends, then
 * free that share of its aligned groups of slots, in percent, at random; of groups
 * of one every other. Returns the number of slots freed.
 */
size_t device_fill(const struct drive *d, size_t kib, size_t group, unsigned int free_percent,
		   struct rng *r)
{
	size_t size = kib * KIB / PMD_SZ * PMD_SZ, n = kib * KIB / PAGE_SZ, freed = 0;
	uint64_t *slot;
	uint8_t *hole;
	char *fill;

	fill = arena_map(size, true);
	for (size_t at = 0; at < size; at += 8 * MIB) {
		size_t len = size - at < 8 * MIB ? size - at : 8 * MIB;

		/* The last word only: nothing reads it, and it isn't zero. */
		for (size_t i = at; i < at + len; i += PAGE_SZ)
			*(uint64_t *)(fill + i + PAGE_SZ - 8) = i + 1;
		/* More than fits when the end is reached: what stays is let go of below. */
		arena_advise(fill + at, len, MADV_PAGEOUT, "MADV_PAGEOUT");
		drive_wait(d);
	}
	if (swap_free_kib() > 64)
		skip("%llu KiB are free of a device that should be full",
		     (unsigned long long)swap_free_kib());
	/* Slots don't follow addresses: choose slots, then free the pages that hold them. */
	hole = calloc(n / group + 1, sizeof(*hole));
	if (!hole)
		die("no memory");
	for (size_t i = 0; i < n / group; i++)
		hole[i] = group == 1 ? i & 1 : rng_below(r, 100) < free_percent;
	slot = slots_read(fill, size);
	for (size_t i = 0; i < size / PAGE_SZ; i++) {
		/* The last pages found no room. */
		if (slot[i] != SLOT_NONE && !hole[slot[i] / group])
			continue;
		arena_advise(fill + i * PAGE_SZ, PAGE_SZ, MADV_DONTNEED, "MADV_DONTNEED");
		freed += slot[i] != SLOT_NONE;
	}
	/* Nothing of the filling may stay in memory, to be found by later reclaim. */
	arena_drop(fill, size);
	free(slot);
	free(hole);
	return freed;
}

#define KPF_COMPOUND_HEAD	15
#define KPF_COMPOUND_TAIL	16

/*
 * How many pages of the range are mapped from folios of at least this order,
 * by walking /proc/kpageflags: a head and the tails that follow it.
 */
size_t large_pages(const char *p, size_t size, unsigned int order_min)
{
	uint64_t *e = pagemap_read(p, size), head = 0, nr = 0;
	int fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	size_t k = 0;

	if (fd < 0)
		skip("/proc/kpageflags: %s", strerror(errno));
	for (size_t i = 0; i < size / PAGE_SZ; i++) {
		uint64_t pfn = e[i] & PM_PFN, flags = 0;

		if (!(e[i] & PM_PRESENT))
			continue;
		if (pfn < head || pfn >= head + nr) {
			head = pfn;
			while (pread(fd, &flags, 8, head * 8) == 8 &&
			       flags & (1ULL << KPF_COMPOUND_TAIL))
				head--;
			nr = 1;
			while (pread(fd, &flags, 8, (head + nr) * 8) == 8 &&
			       flags & (1ULL << KPF_COMPOUND_TAIL))
				nr++;
		}
		k += nr >= 1UL << order_min;
	}
	close(fd);
	free(e);
	return k;
}
