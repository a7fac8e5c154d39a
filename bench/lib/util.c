// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

const char *bench_name = "bench";
uint64_t bench_seed = 1;
int bench_out = -1;
const char *bench_slots;

/* Shared with the parent, which prints it when the workload has ended. */
static char *reason;
#define REASON_LEN	512

void bench_shared_init(void)
{
	reason = mmap(NULL, REASON_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reason == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
}

const char *bench_reason(void)
{
	return reason;
}

static void leave(int status, const char *fmt, va_list ap)
{
	char text[REASON_LEN];

	/* An argument may be the reason that another process left. */
	vsnprintf(text, sizeof(text), fmt, ap);
	memcpy(reason, text, sizeof(text));
	fflush(NULL);
	_exit(status);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	leave(1, fmt, ap);
	va_end(ap);
	_exit(1);
}

void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	leave(EXIT_SKIP, fmt, ap);
	va_end(ap);
	_exit(1);
}

void note(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "# %s: ", bench_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void emit_line(const char *metric, const char *unit, const char *value)
{
	char line[REASON_LEN + 256];
	int n;

	n = snprintf(line, sizeof(line), "%s\t%s\t%s\t%s\n", bench_name, metric, unit, value);
	/* One write() a line: several processes append to the same file. */
	if (write(STDOUT_FILENO, line, n) != n || (bench_out >= 0 && write(bench_out, line, n) != n)) {
		perror("write result");
		_exit(1);
	}
}

void emit(const char *metric, const char *unit, double value)
{
	char text[64];

	if (value == (double)(int64_t)value)
		snprintf(text, sizeof(text), "%lld", (long long)value);
	else
		snprintf(text, sizeof(text), "%.4f", value);
	emit_line(metric, unit, text);
}

void emit_text(const char *metric, const char *text)
{
	emit_line(metric, "-", text);
}

void emit_cpu(const char *fmt, double ns)
{
	const char *at = strstr(fmt, "CPU"), *word = under_icount() ? "insns" : "ns";
	char name[128];

	/* Time under emulation says nothing about any machine. */
	if (getenv("BOX_ICOUNT") && !under_icount())
		return;
	snprintf(name, sizeof(name), "%.*s%s%s", (int)(at - fmt), fmt, word, at + 3);
	emit(name, under_icount() ? "insn" : "ns", ns);
}

bool under_icount(void)
{
	const char *e = getenv("BOX_ICOUNT");

	return e && !strcmp(e, "1");
}

uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

bool try_read(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n = 0;

	if (fd < 0)
		return false;
	while (have < len - 1 && (n = read(fd, buf + have, len - 1 - have)) > 0)
		have += n;
	close(fd);
	buf[have] = '\0';
	return n >= 0;
}

void read_text(const char *path, char *buf, size_t len)
{
	if (!try_read(path, buf, len))
		die("%s: cannot read: %s", path, strerror(errno));
}

uint64_t read_u64(const char *path)
{
	char buf[64], *end;
	uint64_t v;

	read_text(path, buf, sizeof(buf));
	v = strtoull(buf, &end, 10);
	if (end == buf)
		die("%s: not a number: %s", path, buf);
	return v;
}

bool try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int err;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	err = errno;
	close(fd);
	errno = err;
	return n == (ssize_t)strlen(text);
}

void write_text(const char *path, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!try_write(path, text))
		die("%s: cannot write '%s': %s", path, text, strerror(errno));
}

int run_cmd(const char *const argv[])
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[0], (char *const *)argv);
		fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void rng_init(struct rng *r, uint64_t seed)
{
	/* Neighbouring seeds must not start neighbouring sequences. */
	r->s = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	for (int i = 0; i < 8; i++)
		rng_next(r);
}

uint64_t rng_next(struct rng *r)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	r->s ^= r->s << 17;
	return r->s;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (rng_next(r) >> 32) * n >> 32;
}

void shuffle(struct rng *r, uint32_t *v, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = rng_below(r, i), t = v[i - 1];

		v[i - 1] = v[j];
		v[j] = t;
	}
}
