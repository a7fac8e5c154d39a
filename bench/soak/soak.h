/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SOAK_H
#define SOAK_H

#include <sys/types.h>
#include <time.h>

#include "../lib/bench.h"

#define THP		"/sys/kernel/mm/transparent_hugepage"
#define LRU_GEN		"/sys/kernel/mm/lru_gen/enabled"
#define CGROUP		"/sys/fs/cgroup/swapbench/soak"

#define MAX_WORKERS	16
#define NR_ARENAS	4		/* the last one is a memfd */
#define SHMEM		(NR_ARENAS - 1)
#define ARENA_PAGES	2048U
#define ARENA_SZ	(ARENA_PAGES * PAGE_SZ)
#define WORKER_MIB	((int)(NR_ARENAS * ARENA_SZ / MIB))

/*
 * Memory and swap that the limits allow together must hold all arenas and what
 * comes on top: page tables, copies that children make, pinned pages that were
 * dropped, parts of folios that are not split yet.
 */
#define SLACK_MIB	64UL
#define FLOOR_MIB	48UL		/* memory.max is never less */
#define TIGHT_MIB	160UL		/* swap in a round with little of it */
#define STALL_S		400

enum {
#define OP(id, name, weight) id,
#include "ops.h"
#undef OP
	NR_OPS
};

struct area {
	char path[64];
	uint64_t kib;
	bool on;
};

#define MAX_AREAS	8

struct soak_shared {
	/* The run */
	int workers;
	unsigned int ops;
	bool faults, zswap;
	/* The round */
	unsigned int round;
	uint64_t floor;
	bool tight;			/* little swap */
	bool stop;			/* controllers end */
	bool hurry;			/* workers verify and end */
	struct {
		pid_t pid;
		char *base[NR_ARENAS];	/* for the controller and for siblings */
		uint64_t ops;
	} w[MAX_WORKERS];
	struct area area[MAX_AREAS];
	int nr_areas;
	/* Limits as set, UINT64_MAX: max; changed, like an area's state, under the lock */
	bool lock;
	uint64_t mem_max, swap_max;
	/* Counted over the run */
	uint64_t verified;		/* whole pages */
	uint64_t swapoffs, swapons;	/* under load */
	uint64_t swapoffs_cut, swapoffs_after;
	time_t longest_off, longest_reclaim;
	uint64_t limits, reclaims, debug_splits, lru_switches;
	uint64_t done[NR_OPS], refused[NR_OPS];
};

extern struct soak_shared *soak;

/* soak.c */
uint64_t mix_seed(uint64_t a, uint64_t b);
uint64_t key_of(const char *path, const char *key);
time_t now_s(void);

/* worker.c */
void worker_main(int nr) __attribute__((noreturn));

/* controller.c */
void limits_main(void) __attribute__((noreturn));
void swapper_main(void) __attribute__((noreturn));
void shared_setup_check(void);
void areas_setup(void);
void areas_cleanup(void);
uint64_t areas_write_errors(void);
bool area_on(struct area *a, struct rng *r, bool may_fail);
void area_off_for_good(struct area *a);
void faults_setup(void);
uint64_t faults_injected(const char *name);
void make_it_fail(bool on);

#endif
