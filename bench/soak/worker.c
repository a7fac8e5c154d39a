// SPDX-License-Identifier: GPL-2.0-only
/*
 * soak's workers. A page holds which one it is, its generation, a checksum over
 * all of it and random words. What it must hold is in a table that is locked
 * in memory, so that swap cannot make the table agree with a wrong page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soak.h"

#ifndef MADV_COLD
#define MADV_COLD	20
#define MADV_PAGEOUT	21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define WORDS		(PAGE_SZ / 8)
#define SPLICE_PAGES	16U		/* a pipe has that many buffers */
#define URING_PAGES	64U

enum kind {
	ZERO,		/* never written, or dropped */
	DATA,		/* generation gen */
	EITHER,		/* gen or zero: MADV_FREE */
};

struct state {
	uint32_t gen : 30, kind : 2;
};

struct arena {
	char *base;
	int fd;				/* of a memfd, or -1 */
	/* A part that was moved elsewhere */
	char *away;
	unsigned int away_at, away_n;
	struct state st[ARENA_PAGES];
};

struct range {
	unsigned int arena, at, n;
};

static struct worker {
	struct rng rng;
	uint32_t nonce;
	struct arena a[NR_ARENAS];
	/* Pages in the pipe, and what they must be: writing to them would change the pipe */
	int pipe[2];
	struct range spliced;
	struct state spliced_st[SPLICE_PAGES];
	/* A registered buffer; a page that was dropped since isn't the process's any more */
	struct range pinned;
	bool pinned_live[URING_PAGES];
	int uring, view;
	uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	bool child;
	uint64_t copy[WORDS];
} *w;

static int me;
static unsigned int op_now, op_kind;
static uint64_t verified_here;

static const char *const kind_name[] = { "zero", "data", "data or zero" };

static bool try_again(void)
{
	return errno == ENOMEM || errno == EAGAIN || errno == EINTR;
}

static char *page_at(const struct arena *a, unsigned int i)
{
	if (i - a->away_at < a->away_n)
		return a->away + (i - a->away_at) * PAGE_SZ;
	return a->base + i * PAGE_SZ;
}

static uint64_t page_id(unsigned int arena, unsigned int i)
{
	return 0x50a6ULL << 48 | (uint64_t)me << 40 | (uint64_t)arena << 32 | i;
}

static uint64_t page_sum(const uint64_t *p)
{
	uint64_t h = 0x9e3779b97f4a7c15ULL;

	for (unsigned int i = 0; i < WORDS; i++) {
		if (i == 2)
			continue;
		h = (h ^ p[i]) * 0xff51afd7ed558ccdULL;
		h ^= h >> 29;
	}
	return h;
}

/* xorshift64 never gives 0, so neither the page nor its last word is. */
static void page_write(uint64_t *p, unsigned int arena, unsigned int i, uint32_t gen)
{
	struct rng r;

	rng_init(&r, mix_seed(page_id(arena, i), (uint64_t)w->nonce << 32 | gen));
	p[0] = page_id(arena, i);
	p[1] = (uint64_t)w->nonce << 32 | gen;
	for (unsigned int k = 3; k < WORDS; k++)
		p[k] = rng_next(&r);
	p[2] = page_sum(p);
}

static bool page_zero(const uint64_t *p)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < WORDS; i++)
		any |= p[i];
	return !any;
}

static bool page_good(const uint64_t *p, unsigned int arena, unsigned int i, struct state st)
{
	verified_here++;
	if (st.kind == ZERO)
		return page_zero(p);
	if (st.kind == EITHER && !p[0])
		return page_zero(p);
	return p[0] == page_id(arena, i) && p[1] == ((uint64_t)w->nonce << 32 | st.gen) &&
		p[2] == page_sum(p);
}

static uint64_t pagemap(const char *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t v = 0;

	if (fd < 0 || pread(fd, &v, 8, (uintptr_t)p / PAGE_SZ * 8) != 8)
		v = 0;
	if (fd >= 0)
		close(fd);
	return v;
}

static void page_wrong(const uint64_t *found, const char *at, unsigned int arena, unsigned int i,
		       struct state st, const char *where)
{
	uint64_t want[WORDS] = { 0 }, map = at ? pagemap(at) : 0;
	unsigned int k, bad = 0, first = WORDS, last = 0;
	bool again = at && page_good((const uint64_t *)at, arena, i, st);

	if (st.kind != ZERO)
		page_write(want, arena, i, st.gen);
	for (k = 0; k < WORDS; k++) {
		if (found[k] == want[k])
			continue;
		if (first == WORDS)
			first = k;
		last = k;
		bad++;
	}
	note("wrong page: worker %d%s, arena %u, page %u of %u at %p, %s, in operation %u (kind %u)",
	     me, w->child ? " (child)" : "", arena, i, ARENA_PAGES, at, where, op_now, op_kind);
	note("expected %s generation %u, nonce %x; %u words differ, from %u to %u; pagemap %016" PRIx64
	     "; second look is %s", kind_name[st.kind], st.gen, w->nonce, bad, first, last, map,
	     again ? "right" : "wrong");
	note("words 0-3: %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64 ", last %016" PRIx64
	     ", sum is %016" PRIx64, found[0], found[1], found[2], found[3], found[WORDS - 1],
	     page_sum(found));
	die("wrong page: worker %d%s, arena %u%s, page %u, %s: expected %s generation %u, found id %"
	    PRIx64 " generation %" PRIx64, me, w->child ? " (child)" : "", arena,
	    arena == SHMEM ? " (memfd)" : "", i, where, kind_name[st.kind], st.gen, found[0],
	    found[1]);
}

static void verify_page(unsigned int arena, unsigned int i)
{
	struct arena *a = &w->a[arena];
	const char *p = page_at(a, i);
	struct state *st = &a->st[i];

	if (st->kind != EITHER) {
		if (!page_good((const uint64_t *)p, arena, i, *st)) {
			memcpy(w->copy, p, PAGE_SZ);
			page_wrong(w->copy, p, arena, i, *st, "in memory");
		}
		return;
	}
	/* It may go while it's looked at, but then it's gone. */
	memcpy(w->copy, p, PAGE_SZ);
	if (!page_good(w->copy, arena, i, *st)) {
		memcpy(w->copy, p, PAGE_SZ);
		if (!page_zero(w->copy))
			page_wrong(w->copy, p, arena, i, *st, "after MADV_FREE");
	}
	if (!w->copy[0])
		st->kind = ZERO;
}

static void verify_range(const struct range *r)
{
	for (unsigned int i = r->at; i < r->at + r->n; i++)
		verify_page(r->arena, i);
}

static bool is_spliced(unsigned int arena, unsigned int i)
{
	/* A child's write is to a copy: it is welcome to it. */
	return !w->child && arena == w->spliced.arena && i - w->spliced.at < w->spliced.n;
}

static void write_range(const struct range *r, bool zero)
{
	struct arena *a = &w->a[r->arena];

	for (unsigned int i = r->at; i < r->at + r->n; i++) {
		uint64_t *p = (uint64_t *)page_at(a, i);

		verify_page(r->arena, i);
		if (is_spliced(r->arena, i))
			continue;
		a->st[i].gen++;
		a->st[i].kind = zero ? ZERO : DATA;
		if (zero)
			memset(p, 0, PAGE_SZ);
		else
			page_write(p, r->arena, i, a->st[i].gen);
	}
}

/* A range in one piece of address space; of 1 page to 2 MiB, at times all of the arena. */
static struct range pick(struct rng *g, unsigned int arenas, unsigned int most)
{
	static const uint16_t size[] = { 1, 2, 4, 8, 16, 16, 32, 64, 128, 256, 512, 512 };
	unsigned int what = rng_below(g, 16), align = rng_below(g, 4);
	struct range r = { .arena = rng_below(g, arenas) };
	const struct arena *a = &w->a[r.arena];

	if (what < 12)
		r.n = size[what];
	else if (what == 15 && most >= ARENA_PAGES)
		r.n = ARENA_PAGES;
	else
		r.n = 1 + rng_below(g, 600);
	if (r.n > most)
		r.n = most;
	r.at = rng_below(g, ARENA_PAGES - r.n + 1);
	if (align && what < 12)
		r.at -= r.at % r.n;
	if (r.at < a->away_at && r.at + r.n > a->away_at)
		r.n = a->away_at - r.at;
	else if (r.at - a->away_at < a->away_n && r.at + r.n > a->away_at + a->away_n)
		r.n = a->away_at + a->away_n - r.at;
	return r;
}

static bool advise(const struct range *r, int advice)
{
	return !madvise(page_at(&w->a[r->arena], r->at), r->n * PAGE_SZ, advice);
}

/* What changes the expected content must not end half done. */
static void advise_all(const struct range *r, int advice, const char *what)
{
	for (int i = 0; !advise(r, advice); i++)
		if (!try_again() || i == 10000)
			die("%s: %s", what, strerror(errno));
}

static void dropped(const struct range *r, enum kind kind)
{
	struct arena *a = &w->a[r->arena];

	for (unsigned int i = r->at; i < r->at + r->n; i++) {
		if (kind == ZERO)
			a->st[i].kind = ZERO;
		else if (a->st[i].kind == DATA)
			a->st[i].kind = EITHER;
		if (r->arena == w->pinned.arena && i - w->pinned.at < w->pinned.n)
			w->pinned_live[i - w->pinned.at] = false;
	}
}

static bool op_dontneed(struct rng *g)
{
	struct range r = pick(g, NR_ARENAS, 600);

	verify_range(&r);
	if (r.arena != SHMEM) {
		advise_all(&r, MADV_DONTNEED, "MADV_DONTNEED");
		dropped(&r, ZERO);
		return true;
	}
	/* Of shared memory only the mapping goes; a hole is what drops it. */
	if (rng_below(g, 2)) {
		advise_all(&r, MADV_DONTNEED, "MADV_DONTNEED");
		verify_range(&r);
		return true;
	}
	/* A hole in a large folio is zeroed in place, in a pipe as well. */
	if (w->spliced.n && w->spliced.arena == SHMEM)
		return false;
	advise_all(&r, MADV_REMOVE, "MADV_REMOVE");
	dropped(&r, ZERO);
	return true;
}

static void bring_back(struct arena *a);

/*
 * A range that begins and ends where a folio of its size does, emptied and
 * written: large folios come from that, as what comes back from swap is small.
 */
static bool op_refill(struct rng *g)
{
	unsigned int n = 4U << rng_below(g, 8), out = rng_below(g, 3);
	struct range r = { rng_below(g, NR_ARENAS), rng_below(g, ARENA_PAGES - 2 * n), n };
	struct arena *a = &w->a[r.arena];

	if (rng_below(g, 2))
		bring_back(a);
	else if (r.at + 2 * n > a->away_at && r.at < a->away_at + a->away_n)
		return false;
	r.at += -((uintptr_t)page_at(a, r.at) / PAGE_SZ) & (n - 1);
	if (r.arena == SHMEM && w->spliced.n && w->spliced.arena == SHMEM)
		return false;
	verify_range(&r);
	advise_all(&r, r.arena == SHMEM ? MADV_REMOVE : MADV_DONTNEED, "drop");
	dropped(&r, ZERO);
	write_range(&r, false);
	return !out || advise(&r, MADV_PAGEOUT);
}

static bool op_free(struct rng *g)
{
	struct range r = pick(g, SHMEM, 600);

	verify_range(&r);
	/* Whatever it says: what it got to may go. */
	dropped(&r, EITHER);
	return advise(&r, MADV_FREE);
}

/* Address space for size bytes; at a boundary of 2 MiB plus some pages. */
static char *reserve(size_t size, unsigned int pages)
{
	size_t all = size + 2 * PMD_SZ;
	char *p, *at;

	for (int i = 0; ; i++) {
		p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			break;
		if (!try_again() || i == 10000)
			die("mmap: %s", strerror(errno));
	}
	at = (char *)(((uintptr_t)p + PMD_SZ - 1) & ~(PMD_SZ - 1)) + pages * PAGE_SZ;
	if (at > p)
		munmap(p, at - p);
	if (p + all > at + size)
		munmap(at + size, p + all - at - size);
	return at;
}

/*
 * A range may be of several VMAs, and memory may run short between two of them:
 * then page by page what isn't there yet.
 */
static void move(char *from, char *to, unsigned int pages)
{
	unsigned char vec;

	if (mremap(from, pages * PAGE_SZ, pages * PAGE_SZ, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
		return;
	for (unsigned int i = 0; i < pages; i++) {
		char *f = from + i * PAGE_SZ, *t = to + i * PAGE_SZ;

		for (int k = 0; !mincore(f, PAGE_SZ, &vec) || errno == EAGAIN; k++) {
			if (mremap(f, PAGE_SZ, PAGE_SZ, MREMAP_MAYMOVE | MREMAP_FIXED, t) == t)
				break;
			if (!try_again() || k == 10000)
				die("mremap: %s", strerror(errno));
		}
	}
}

static void bring_back(struct arena *a)
{
	if (!a->away_n)
		return;
	move(a->away, a->base + a->away_at * PAGE_SZ, a->away_n);
	a->away_n = 0;
}

static bool op_move_part(struct rng *g)
{
	unsigned int arena = rng_below(g, NR_ARENAS), off = rng_below(g, 512), keep = rng_below(g, 2);
	struct arena *a = &w->a[arena];
	struct range r;

	bring_back(a);
	r = pick(g, 1, 600);
	r.arena = arena;
	a->away = reserve(r.n * PAGE_SZ, off);
	move(a->base + r.at * PAGE_SZ, a->away, r.n);
	a->away_at = r.at;
	a->away_n = r.n;
	if (!keep) {
		verify_range(&r);
		bring_back(a);
	}
	return true;
}

static bool op_move_all(struct rng *g)
{
	unsigned int arena = rng_below(g, NR_ARENAS);
	struct arena *a = &w->a[arena];
	char *to;

	bring_back(a);
	/* Every second time at an odd place, where no PMD can map it. */
	to = reserve(ARENA_SZ, rng_below(g, 2) ? rng_below(g, 512) : 0);
	move(a->base, to, ARENA_PAGES);
	a->base = to;
	soak->w[me].base[arena] = to;
	return true;
}

/* Map pages of an arena, from page at on, to p. */
static void map_at(const struct arena *a, char *p, unsigned int at, unsigned int pages)
{
	int flags = MAP_FIXED | (a->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	for (int i = 0; mmap(p, pages * PAGE_SZ, PROT_READ | PROT_WRITE, flags, a->fd,
			     a->fd < 0 ? 0 : at * PAGE_SZ) != p; i++)
		if (!try_again() || i == 10000)
			die("mmap: %s", strerror(errno));
}

static bool op_unmap(struct rng *g)
{
	struct range r = pick(g, NR_ARENAS, 600);
	struct arena *a = &w->a[r.arena];
	char *p = page_at(a, r.at);

	verify_range(&r);
	for (int i = 0; munmap(p, r.n * PAGE_SZ); i++)
		if (!try_again() || i == 10000)
			die("munmap: %s", strerror(errno));
	map_at(a, p, r.at, r.n);
	if (a->fd < 0)
		dropped(&r, ZERO);
	else
		verify_range(&r);
	return true;
}

static void splice_check(void)
{
	struct range *s = &w->spliced;

	for (unsigned int i = 0; i < s->n; i++) {
		size_t have = 0;

		while (have < PAGE_SZ) {
			ssize_t n = read(w->pipe[0], (char *)w->copy + have, PAGE_SZ - have);

			if (n < 0 && try_again())
				continue;
			if (n <= 0)
				die("pipe: %s", n ? strerror(errno) : "ends early");
			have += n;
		}
		if (!page_good(w->copy, s->arena, s->at + i, w->spliced_st[i]))
			page_wrong(w->copy, NULL, s->arena, s->at + i, w->spliced_st[i], "in a pipe");
	}
	s->n = 0;
}

static bool op_splice(struct rng *g)
{
	struct range r = pick(g, NR_ARENAS, SPLICE_PAGES);
	struct iovec v;
	ssize_t n;

	splice_check();
	v.iov_base = page_at(&w->a[r.arena], r.at);
	v.iov_len = r.n * PAGE_SZ;
	n = vmsplice(w->pipe[1], &v, 1, SPLICE_F_NONBLOCK);
	if (n <= 0)
		return false;
	if (n % PAGE_SZ)
		die("vmsplice took %zd bytes", n);
	r.n = n / PAGE_SZ;
	memcpy(w->spliced_st, &w->a[r.arena].st[r.at], r.n * sizeof(struct state));
	w->spliced = r;
	return true;
}

static void uring_setup(void)
{
	struct io_uring_params p = { 0 };
	char *sq, *cq;

	w->uring = syscall(__NR_io_uring_setup, 4, &p);
	if (w->uring < 0)
		return;
	w->view = memfd_create("soak-view", MFD_CLOEXEC);
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED,
		  w->uring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*w->cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED, w->uring, IORING_OFF_CQ_RING);
	w->sqe = mmap(NULL, p.sq_entries * sizeof(*w->sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
		      w->uring, IORING_OFF_SQES);
	if (w->view < 0 || sq == MAP_FAILED || cq == MAP_FAILED || w->sqe == MAP_FAILED)
		die("io_uring: %s", strerror(errno));
	w->sq_tail = (uint32_t *)(sq + p.sq_off.tail);
	w->sq_mask = (uint32_t *)(sq + p.sq_off.ring_mask);
	w->sq_array = (uint32_t *)(sq + p.sq_off.array);
	w->cq_head = (uint32_t *)(cq + p.cq_off.head);
	w->cq_tail = (uint32_t *)(cq + p.cq_off.tail);
	w->cq_mask = (uint32_t *)(cq + p.cq_off.ring_mask);
	w->cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

static long uring_enter(unsigned int submit)
{
	return syscall(__NR_io_uring_enter, w->uring, submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

/* len bytes of the registered buffer from at into the memfd; what the write returned. */
static int uring_write(const char *at, unsigned int len, uint64_t to)
{
	uint32_t tail = *w->sq_tail, head;
	struct io_uring_sqe *e = &w->sqe[tail & *w->sq_mask];
	int res;

	memset(e, 0, sizeof(*e));
	e->opcode = IORING_OP_WRITE_FIXED;
	e->fd = w->view;
	e->addr = (uintptr_t)at;
	e->len = len;
	e->off = to;
	w->sq_array[tail & *w->sq_mask] = tail & *w->sq_mask;
	__atomic_store_n(w->sq_tail, tail + 1, __ATOMIC_RELEASE);
	for (int i = 0; uring_enter(1) < 1; i++)
		if (!try_again() || i == 10000)
			die("io_uring_enter: %s", strerror(errno));
	head = *w->cq_head;
	while (__atomic_load_n(w->cq_tail, __ATOMIC_ACQUIRE) == head)
		uring_enter(0);
	res = w->cqe[head & *w->cq_mask].res;
	__atomic_store_n(w->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}

/* What the kernel sees through the pins must be what the process sees. */
static bool uring_check(const char *at, unsigned int n)
{
	struct range *p = &w->pinned;
	bool done = true;

	for (unsigned int i = 0; i < n; i++) {
		struct state st = w->a[p->arena].st[p->at + i];

		if (!w->pinned_live[i])
			continue;
		if (uring_write(at + i * PAGE_SZ, PAGE_SZ, 0) != (int)PAGE_SZ ||
		    pread(w->view, w->copy, PAGE_SZ, 0) != (ssize_t)PAGE_SZ) {
			done = false;
			continue;
		}
		if (!page_good(w->copy, p->arena, p->at + i, st))
			page_wrong(w->copy, page_at(&w->a[p->arena], p->at + i), p->arena, p->at + i,
				   st, "through a registered buffer");
	}
	return done;
}

static bool op_uring(struct rng *g)
{
	static char *pinned_va;
	struct range r = pick(g, NR_ARENAS, URING_PAGES);
	struct iovec v;

	if (w->uring < 0)
		return false;
	if (w->pinned.n) {
		bool done = uring_check(pinned_va, w->pinned.n);
		w->pinned.n = 0;
		for (int i = 0; syscall(__NR_io_uring_register, w->uring,
					IORING_UNREGISTER_BUFFERS, NULL, 0); i++)
			if (!try_again() || i == 10000)
				die("IORING_UNREGISTER_BUFFERS: %s", strerror(errno));
		return done;
	}
	v.iov_base = page_at(&w->a[r.arena], r.at);
	v.iov_len = r.n * PAGE_SZ;
	if (syscall(__NR_io_uring_register, w->uring, IORING_REGISTER_BUFFERS, &v, 1))
		return false;
	/* The kernel goes on calling it by this address, wherever the pages are moved. */
	pinned_va = v.iov_base;
	w->pinned = r;
	for (unsigned int i = 0; i < r.n; i++)
		w->pinned_live[i] = true;
	return true;
}

static bool op_sibling(struct rng *g)
{
	int other = rng_below(g, soak->workers), fd;
	unsigned int arena = rng_below(g, NR_ARENAS), n = 1 + rng_below(g, 600);
	unsigned int at = rng_below(g, ARENA_PAGES - n);
	struct iovec v;
	pid_t pid;
	bool done;

	if (other == me)
		other = (other + 1) % soak->workers;
	pid = soak->w[other].pid;
	v.iov_base = soak->w[other].base[arena];
	if (!pid || !v.iov_base)
		return false;
	v.iov_base = (char *)v.iov_base + at * PAGE_SZ;
	v.iov_len = n * PAGE_SZ;
	fd = syscall(__NR_pidfd_open, pid, 0);
	if (fd < 0)
		return false;
	done = syscall(__NR_process_madvise, fd, &v, 1, MADV_PAGEOUT, 0) > 0;
	close(fd);
	return done;
}

static void child_main(struct rng *g) __attribute__((noreturn));

/* What it writes is its own from then on, in a table that is its own as well. */
static void child_main(struct rng *g)
{
	w->child = true;
	w->pinned.n = 0;
	for (int i = 2 + rng_below(g, 4); i; i--) {
		struct range r = pick(g, NR_ARENAS, 300);

		verify_range(&r);
		r = pick(g, SHMEM, 32);
		write_range(&r, false);
		if (rng_below(g, 2))
			advise(&r, MADV_PAGEOUT);
		verify_range(&r);
	}
	__atomic_add_fetch(&soak->verified, verified_here, __ATOMIC_RELAXED);
	_exit(0);
}

static bool op_fork(struct rng *g)
{
	uint64_t seed = rng_next(g);
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return false;
	if (!pid) {
		struct rng child;

		rng_init(&child, seed);
		verified_here = 0;
		child_main(&child);
	}
	/* Meanwhile here; not in the memfd, which the child is looking at. */
	for (int i = rng_below(g, 5); i; i--) {
		struct range r = pick(g, SHMEM, 64);

		write_range(&r, false);
		if (rng_below(g, 2))
			advise(&r, MADV_PAGEOUT);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	/* The OOM killer's, who comes for all of the cgroup. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		raise(SIGKILL);
	if (WIFSIGNALED(status))
		die("a child of worker %d was killed by signal %d", me, WTERMSIG(status));
	if (WEXITSTATUS(status))
		_exit(1);	/* it left the reason */
	return true;
}

static bool op_run(unsigned int op, struct rng *g)
{
	struct range r;

	switch (op) {
	case OP_WRITE:
	case OP_ZERO:
		r = pick(g, NR_ARENAS, 600);
		write_range(&r, op == OP_ZERO);
		return true;
	case OP_VERIFY:
		r = pick(g, NR_ARENAS, 600);
		verify_range(&r);
		return true;
	case OP_PAGEOUT:
		r = pick(g, NR_ARENAS, ARENA_PAGES);
		return advise(&r, MADV_PAGEOUT);
	case OP_COLD:
		r = pick(g, NR_ARENAS, ARENA_PAGES);
		return advise(&r, MADV_COLD);
	case OP_WILLNEED:
		r = pick(g, NR_ARENAS, 600);
		return advise(&r, MADV_WILLNEED);
	case OP_DONTNEED:
		return op_dontneed(g);
	case OP_REFILL:
		return op_refill(g);
	case OP_FREE:
		return op_free(g);
	case OP_COLLAPSE:
		r = pick(g, NR_ARENAS, ARENA_PAGES);
		/* Whole 2 MiB or nothing is there to collapse. */
		r.at = r.at / 512 * 512;
		r.n = 512;
		if (w->a[r.arena].away_n)
			return false;
		return advise(&r, MADV_COLLAPSE);
	case OP_MOVE_PART:
		return op_move_part(g);
	case OP_MOVE_ALL:
		return op_move_all(g);
	case OP_FORK:
		return op_fork(g);
	case OP_UNMAP:
		return op_unmap(g);
	case OP_SPLICE:
		return op_splice(g);
	case OP_URING:
		return op_uring(g);
	case OP_SIBLING:
		return op_sibling(g);
	}
	die("operation %u", op);
}

static unsigned int op_draw(struct rng *g)
{
	static const uint16_t weight[NR_OPS] = {
#define OP(id, name, weight) [id] = weight,
#include "ops.h"
#undef OP
	};
	unsigned int sum = 0, at;

	for (int i = 0; i < NR_OPS; i++)
		sum += weight[i];
	at = rng_below(g, sum);
	for (int i = 0; ; i++) {
		if (at < weight[i])
			return i;
		at -= weight[i];
	}
}

/* A page that swap could not give back comes as SIGBUS. */
static void on_fault(int sig, siginfo_t *si, void *ctx)
{
	const char *at = si->si_addr;

	(void)ctx;
	for (unsigned int k = 0; k < NR_ARENAS; k++)
		for (unsigned int i = 0; i < ARENA_PAGES; i++)
			if (page_at(&w->a[k], i) == (char *)((uintptr_t)at & ~(PAGE_SZ - 1)))
				die("%s: worker %d%s, arena %u, page %u at %p, pagemap %016" PRIx64
				    ", operation %u (kind %u)", sig == SIGBUS ? "SIGBUS" : "SIGSEGV",
				    me, w->child ? " (child)" : "", k, i, at, pagemap(at), op_now,
				    op_kind);
	die("signal %d (code %d) at %p, which is in no arena: worker %d%s, operation %u (kind %u)", sig,
	    si->si_code, at, me, w->child ? " (child)" : "", op_now, op_kind);
}

static void worker_setup(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	cgroup_enter("soak");
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w == MAP_FAILED || mlock(w, sizeof(*w)))
		die("table of pages: %s", strerror(errno));
	rng_init(&w->rng, mix_seed(mix_seed(bench_seed, soak->round), me));
	/* No page of an earlier round, or run, can pass for one of this. */
	w->nonce = mix_seed(bench_seed, soak->round) >> 33 | 1;
	for (int i = 0; i < NR_ARENAS; i++) {
		struct arena *a = &w->a[i];

		a->fd = -1;
		if (i == SHMEM) {
			a->fd = memfd_create("soak", MFD_CLOEXEC);
			if (a->fd < 0 || ftruncate(a->fd, ARENA_SZ))
				die("memfd: %s", strerror(errno));
		}
		a->base = reserve(ARENA_SZ, 0);
		map_at(a, a->base, 0, ARENA_PAGES);
		soak->w[me].base[i] = a->base;
	}
	if (pipe2(w->pipe, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	uring_setup();
	/* Some arenas are full from the start. */
	for (unsigned int i = 0; i < NR_ARENAS; i++) {
		struct range r = { i, 0, ARENA_PAGES / 4 * rng_below(&w->rng, 5) };

		write_range(&r, false);
	}
}

void worker_main(int nr)
{
	me = nr;
	worker_setup();
	make_it_fail(soak->faults);
	for (op_now = 0; op_now < soak->ops && !soak->hurry; op_now++) {
		struct rng g;
		bool done;

		/* A sequence of its own, so that what fails here changes nothing later. */
		op_kind = op_draw(&w->rng);
		rng_init(&g, rng_next(&w->rng));
		done = op_run(op_kind, &g);
		__atomic_add_fetch(done ? &soak->done[op_kind] : &soak->refused[op_kind], 1,
				   __ATOMIC_RELAXED);
		__atomic_add_fetch(&soak->verified, verified_here, __ATOMIC_RELAXED);
		verified_here = 0;
		soak->w[me].ops++;
	}
	splice_check();
	for (unsigned int k = 0; k < NR_ARENAS; k++) {
		for (unsigned int i = 0; i < ARENA_PAGES; i++)
			verify_page(k, i);
		soak->w[me].ops++;
	}
	__atomic_add_fetch(&soak->verified, verified_here, __ATOMIC_RELAXED);
	_exit(0);
}
