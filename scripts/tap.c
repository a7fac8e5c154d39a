// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read what run_vmtests.sh printed (TAP with the TAP of each test nested in it
 * behind "# ") and say what passed, failed and was skipped.
 *
 *   tap list LOG            a line a test: result, name, reason
 *   tap check LOG           counts; exit 1 if a test failed or none ran
 *   tap expect LOG LIST     LOG is of a kernel that the tests named in LIST are
 *                           expected to fail on, and no others; exit 1 otherwise.
 *                           One behind "? " may fail or not: a matter of timing
 *   tap diff OLD NEW [LIST] tests with another result; exit 1 if one that passed
 *                           in OLD fails, is skipped or is gone in NEW, unless
 *                           its name begins with a line of LIST
 *
 * A program counts by the tests nested in it. It counts itself if it has none
 * or if it failed although none of them did.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum result { PASS, FAIL, SKIP, NR_RESULTS };

static const char * const result_name[] = { "pass", "FAIL", "skip" };

struct test {
	char *name;
	char *reason;
	enum result result;
	bool seen;
};

struct log {
	struct test *tests;
	size_t nr;
	size_t count[NR_RESULTS];
};

static void die(const char *fmt, ...)
{
	va_list args;

	fputs("tap: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static void *check(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

static struct test *find(const struct log *log, const char *name)
{
	size_t i;

	for (i = 0; i < log->nr; i++)
		if (!strcmp(log->tests[i].name, name))
			return &log->tests[i];
	return NULL;
}

static void add(struct log *log, enum result result, const char *program,
		const char *test, const char *reason)
{
	struct test *t;
	char *name;
	int again = 1;

	if (asprintf(&name, "%s%s%s", program, *test ? ": " : "", test) < 0)
		die("out of memory");
	/* A program may run again in another mode under the same name */
	while (find(log, name)) {
		free(name);
		if (asprintf(&name, "%s%s%s (%d)", program, *test ? ": " : "",
			     test, ++again) < 0)
			die("out of memory");
	}

	log->tests = check(realloc(log->tests, (log->nr + 1) * sizeof(*t)));
	t = &log->tests[log->nr++];
	t->name = name;
	t->reason = check(strdup(reason));
	t->result = result;
	t->seen = false;
	log->count[result]++;
}

/* What mktemp and mkdtemp made of _XXXXXX is not the same in the next run */
static void name_temporary(char *program)
{
	char *p = strstr(program, "/tmp/");

	p = p ? strrchr(p, '_') : NULL;
	if (p && strlen(p) == strlen("_XXXXXX"))
		strcpy(p, "_XXXXXX");
}

/* "ok 3 name # SKIP why", with or without number and reason */
static bool parse(char *line, enum result *result, char **name, char **reason)
{
	char *hash;

	if (!strncmp(line, "not ok ", 7)) {
		*result = FAIL;
		line += 7;
	} else if (!strncmp(line, "ok ", 3)) {
		*result = PASS;
		line += 3;
	} else {
		return false;
	}
	while (isdigit((unsigned char)*line) || *line == ' ' || *line == '-')
		line++;
	*name = line;
	*reason = "";
	hash = strstr(line, " #");
	if (!hash && *line == '#')
		hash = line;
	if (hash) {
		char *end = hash;

		*reason = hash + strspn(hash, " #");
		while (end > line && end[-1] == ' ')
			end--;
		if (!strncasecmp(*reason, "skip", 4)) {
			if (*result == PASS)
				*result = SKIP;
			*reason += 4;
			*reason += strspn(*reason, " :");
		}
		*end = 0;
	}
	return true;
}

static void load(struct log *log, const char *path)
{
	FILE *f = fopen(path, "r");
	size_t size = 0, nested = 0, nested_fail = 0;
	char *line = NULL, *program = check(strdup("?"));
	ssize_t len;

	memset(log, 0, sizeof(*log));
	if (!f)
		die("%s: %s", path, strerror(errno));
	while ((len = getline(&line, &size, f)) > 0) {
		char *p = line, *name, *reason;
		enum result result;
		int depth = 0;

		while (len && isspace((unsigned char)line[len - 1]))
			line[--len] = 0;
		while (*p == '#' || *p == ' ') {
			depth += *p == '#';
			p++;
		}
		if (depth && !strncmp(p, "running ", 8)) {
			free(program);
			p += 8;
			if (!strncmp(p, "bash ", 5))
				p += 5;
			program = check(strdup(p + (strncmp(p, "./", 2) ? 0 : 2)));
			name_temporary(program);
			nested = nested_fail = 0;
			continue;
		}
		if (!parse(p, &result, &name, &reason))
			continue;
		if (depth) {
			add(log, result, program, *name ? name : "unnamed", reason);
			nested++;
			nested_fail += result == FAIL;
		} else if (!nested || (result == FAIL && !nested_fail)) {
			add(log, result, program, "", reason);
		}
	}
	free(line);
	fclose(f);
}

static void show(const struct test *t)
{
	printf("%s  %s%s%s\n", result_name[t->result], t->name,
	       *t->reason ? "  # " : "", t->reason);
}

static void counts(const struct log *log)
{
	printf("%zu passed, %zu failed, %zu skipped\n", log->count[PASS],
	       log->count[FAIL], log->count[SKIP]);
}

static int do_check(const struct log *log)
{
	size_t i;

	for (i = 0; i < log->nr; i++)
		if (log->tests[i].result != PASS)
			show(&log->tests[i]);
	counts(log);
	if (!log->count[PASS])
		printf("no test passed\n");
	return log->count[FAIL] || !log->count[PASS];
}

/* The lines of a file, without comments, in an array that ends with NULL */
static char **read_list(const char *path)
{
	FILE *f = fopen(path, "r");
	char **list = NULL, *line = NULL;
	size_t size = 0, nr = 0;

	if (!f)
		die("%s: %s", path, strerror(errno));
	while (getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!*line || *line == '#')
			continue;
		list = check(realloc(list, (nr + 2) * sizeof(*list)));
		list[nr++] = check(strdup(line));
	}
	free(line);
	fclose(f);
	if (!nr)
		die("%s: empty", path);
	list[nr] = NULL;
	return list;
}

static int do_expect(struct log *log, char **list)
{
	size_t i, expected = 0;
	int bad = 0;

	for (; *list; list++) {
		char *line = *list;
		struct test *t;

		if (!strncmp(line, "? ", 2)) {
			t = find(log, line + 2);
			if (t)
				t->seen = true;
			continue;
		}
		expected++;
		t = find(log, line);
		if (t && t->result == FAIL) {
			t->seen = true;
			continue;
		}
		printf("%s, expected to fail: %s\n",
		       t ? result_name[t->result] : "did not run", line);
		bad = 1;
	}
	for (i = 0; i < log->nr; i++) {
		if (log->tests[i].result != FAIL || log->tests[i].seen)
			continue;
		printf("not expected to fail: ");
		show(&log->tests[i]);
		bad = 1;
	}
	printf("%zu of %zu expected failures; ", log->count[FAIL], expected);
	counts(log);
	return bad;
}

static bool begins_with_any(const char *name, char **list)
{
	for (; list && *list; list++)
		if (!strncmp(name, *list, strlen(*list)))
			return true;
	return false;
}

static int do_diff(struct log *old, struct log *new, char **either)
{
	size_t i;
	int bad = 0;

	for (i = 0; i < old->nr; i++) {
		struct test *o = &old->tests[i], *n = find(new, o->name);

		if (n)
			n->seen = true;
		if (n && n->result == o->result)
			continue;
		printf("%s -> %s  %s", result_name[o->result],
		       n ? result_name[n->result] : "gone", o->name);
		if (begins_with_any(o->name, either))
			printf("  (may do either)");
		else
			bad |= o->result == PASS;
		putchar('\n');
	}
	for (i = 0; i < new->nr; i++) {
		if (new->tests[i].seen)
			continue;
		printf("new: ");
		show(&new->tests[i]);
		if (!begins_with_any(new->tests[i].name, either))
			bad |= new->tests[i].result == FAIL;
	}
	printf("old: ");
	counts(old);
	printf("new: ");
	counts(new);
	return bad || !new->count[PASS];
}

int main(int argc, char **argv)
{
	struct log log, other;
	size_t i;

	if (argc < 3)
		die("usage: tap list|check LOG, tap expect LOG LIST, tap diff OLD NEW [LIST]");
	load(&log, argv[2]);
	if (argc == 3 && !strcmp(argv[1], "list")) {
		for (i = 0; i < log.nr; i++)
			show(&log.tests[i]);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "check"))
		return do_check(&log);
	if (argc == 4 && !strcmp(argv[1], "expect"))
		return do_expect(&log, read_list(argv[3]));
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "diff")) {
		load(&other, argv[3]);
		return do_diff(&log, &other, argc == 5 ? read_list(argv[4]) : NULL);
	}
	die("unknown command %s, or not its arguments", argv[1]);
}
