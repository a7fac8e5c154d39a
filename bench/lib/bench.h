/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the workloads share. Sizes are bytes unless a name says KiB, times are
 * nanoseconds of CPU time of the calling thread. Under -icount shift=0 one
 * nanosecond is one guest instruction: a cost, not a time on hardware.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE_SZ		4096UL
#define KIB		1024UL
#define MIB		(1024UL * KIB)
#define PMD_SZ		(2 * MIB)
#define CLUSTER_SLOTS	512UL		/* SWAPFILE_CLUSTER on x86 with THP_SWAP */

#define EXIT_SKIP	4		/* as in kselftest */

/* util.c */
extern const char *bench_name;		/* first column of every line printed */
extern uint64_t bench_seed;
extern int bench_out;			/* where lines go beside stdout, -1: nowhere */
extern const char *bench_slots;		/* directory for slot maps, NULL: none */

void bench_shared_init(void);
const char *bench_reason(void);
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void emit(const char *metric, const char *unit, double value);
void emit_text(const char *metric, const char *text);
/* "CPU" in the name becomes "insns" (unit insn) under icount, elsewhere "ns" (unit ns). */
void emit_cpu(const char *name, double ns);

bool under_icount(void);
uint64_t cpu_ns(void);
void sleep_ms(unsigned int ms);

bool try_read(const char *path, char *buf, size_t len);
void read_text(const char *path, char *buf, size_t len);
uint64_t read_u64(const char *path);
bool try_write(const char *path, const char *text);
void write_text(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int run_cmd(const char *const argv[]);

/* xorshift64: the same sequence for the same seed everywhere. */
struct rng {
	uint64_t s;
};

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n);
void shuffle(struct rng *r, uint32_t *v, uint32_t n);

/* mem.c */
char *arena_map(size_t size, bool nohuge);
void arena_advise(char *p, size_t size, int advice, const char *what);
void page_fill(char *page, uint64_t tag);
uint64_t page_bad(const char *page, uint64_t tag);
bool page_is(const char *page, uint64_t tag);
void arena_fill(char *p, size_t size, uint64_t tag);
uint64_t arena_bad(const char *p, size_t size, uint64_t tag);
void arena_touch(const char *p, size_t size);
void verified(uint64_t bad);
size_t anon_huge_bytes(const char *p);

#define SLOT_NONE	UINT64_MAX	/* this page isn't in swap */
uint64_t *slots_read(const char *p, size_t size);
size_t slots_swapped(const uint64_t *slot, size_t n);
size_t slots_rising(const uint64_t *slot, size_t n);
void slots_write(const uint64_t *slot, size_t n);
size_t cached_pages(char *p, size_t size);
void arena_drop(char *p, size_t size);
size_t large_pages(const char *p, size_t size, unsigned int order_min);

/* sys.c */
void settings_save(void);
void settings_restore(void);
void thp_only(unsigned int kib, const char *mode);
uint64_t mthp_stat(unsigned int kib, const char *name);
uint64_t vmstat(const char *name);
void cgroup_enter(const char *name);
void cgroup_set(const char *name, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void cgroup_reclaim(size_t bytes);
pid_t start(const char *cgroup, size_t limit, const char *log, const char *const argv[]);
uint64_t cgroup_event(const char *name, const char *file, const char *key);
void cgroup_cleanup(void);
bool probes_on(void);
void probes_off(void);
uint64_t probes_hits(void);

/* swap.c */
struct drive {
	char name[64];			/* in /sys/block */
};

struct drive_stat {
	uint64_t reads, rsectors;	/* requests completed, 512-byte sectors */
	uint64_t writes, wsectors;
	uint64_t inflight;
	uint64_t busy_ms, queue_ms;	/* with a request in flight; the same times how many */
};

#define P2_KIB	(64 * KIB)	/* what workloads use of partitions 2 and 3, in KiB */
#define P3_KIB	(1024 * KIB)

const char *part_path(int n);
void drive_of(const char *path, struct drive *d);
void drive_stat(const struct drive *d, struct drive_stat *s);
void drive_wait(const struct drive *d);
void drive_check(const struct drive *d);
uint64_t swap_part_on(const char *path, size_t kib);
void swap_file_on(const char *path);
void swap_off(const char *path);
void swap_none_or_die(void);
uint64_t swap_free_kib(void);
size_t device_fill(const struct drive *d, size_t kib, size_t group, unsigned int free_percent,
		   struct rng *r);
const char *fs_place(struct drive *d);
void file_plain(const char *path, size_t size);
void file_in_pieces(const char *path, const char *other, size_t size, size_t least, size_t most,
		    struct rng *r);
unsigned int file_extents(const char *path);
void swap_cleanup(void);

/* Workloads */
void thp_main(const char *name);
void frag_main(const char *name);
void seqread_main(const char *name);
void mthp_main(const char *name);
void oltp_main(const char *name);
void mix_main(const char *name);
void zram_main(const char *name);
void scale_main(const char *name);
void mariadb_main(const char *name);
void beside_main(const char *name);
void exits_main(const char *name);
void kbuild_main(const char *name);

/* zram.c */
const char *zram_path(size_t size);
void zram_reset(void);

#endif
