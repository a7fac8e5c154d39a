// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merge the results of three boots, stock, patched and stock again, into one
 * table and judge them by a list of targets.
 *
 *   compare [-p FILE] [-i IOMMU] [-c] [-n NOTE] -t TARGETS -o TSV STOCK PATCHED STOCK
 *
 * -c: counts only, instructions weren't measured and no target asks for them.
 * -p names a file with the names of the applied patches, a line each, for
 * targets that need one. A figure that occurs several times (seeds) counts with
 * its median. Exit status: 0 all targets reached, 1 something is amiss, 2 usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOOTS		3
#define MAX_FIGURES	1024
#define MAX_VALUES	64

static const char *const boot_name[BOOTS] = { "stock", "patched", "stock again" };

struct figure {
	char workload[64], metric[64], unit[32];
	double v[BOOTS][MAX_VALUES];
	int n[BOOTS];
	char text[BOOTS][256];		/* unit "-": SKIP, FAIL and states */
};

static struct figure figures[MAX_FIGURES];
static int nr_figures;

static void fatal(const char *what, const char *why)
{
	fprintf(stderr, "compare: %s: %s\n", what, why);
	exit(2);
}

static struct figure *figure(const char *workload, const char *metric, const char *unit)
{
	struct figure *f;

	for (int i = 0; i < nr_figures; i++)
		if (!strcmp(figures[i].workload, workload) && !strcmp(figures[i].metric, metric))
			return &figures[i];
	if (!unit)
		return NULL;
	if (nr_figures == MAX_FIGURES)
		fatal(workload, "too many figures");
	f = &figures[nr_figures++];
	snprintf(f->workload, sizeof(f->workload), "%s", workload);
	snprintf(f->metric, sizeof(f->metric), "%s", metric);
	snprintf(f->unit, sizeof(f->unit), "%s", unit);
	return f;
}

/* Cut a line at its tabs; empty fields count. */
static int fields(char *line, char **f, int max)
{
	int n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (n < max && line)
		f[n++] = strsep(&line, "\t");
	return n;
}

static void load(const char *path, int boot)
{
	FILE *in = fopen(path, "re");
	char line[1024], *f[4];

	if (!in)
		fatal(path, strerror(errno));
	while (fgets(line, sizeof(line), in)) {
		struct figure *g;
		char *end;

		if (fields(line, f, 4) != 4)
			fatal(path, "a line without four fields");
		g = figure(f[0], f[1], f[2]);
		if (!strcmp(f[2], "-")) {
			snprintf(g->text[boot], sizeof(g->text[boot]), "%s", f[3]);
			continue;
		}
		if (g->n[boot] == MAX_VALUES)
			fatal(path, "too many values of one figure");
		g->v[boot][g->n[boot]++] = strtod(f[3], &end);
		if (*end || end == f[3])
			fatal(path, "a value that isn't a number");
	}
	fclose(in);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(struct figure *f, int boot)
{
	int n = f->n[boot];
	double *v = f->v[boot];

	qsort(v, n, sizeof(*v), by_value);
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static const char *number(double v, char *buf, size_t len)
{
	if (fabs(v) >= 1000 || v == (double)(long long)v)
		snprintf(buf, len, "%.0f", v);
	else
		snprintf(buf, len, "%.2f", v);
	return buf;
}

struct target {
	char workload[64], metric[64], op[4], bound[32];
	bool seen;
};

static struct target targets[256];
static int nr_targets;

static bool applied(const char *list, const char *pattern)
{
	FILE *f;
	char line[512];
	bool hit = false;

	if (!strcmp(pattern, "-"))
		return true;
	f = list ? fopen(list, "re") : NULL;
	if (!f)
		return false;
	while (!hit && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		hit = !fnmatch(pattern, line, 0);
	}
	fclose(f);
	return hit;
}

static void load_targets(const char *path, const char *patches, const char *iommu)
{
	FILE *in = fopen(path, "re");
	char line[512], *f[6];

	if (!in)
		fatal(path, strerror(errno));
	while (fgets(line, sizeof(line), in)) {
		struct target *t = &targets[nr_targets];

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (fields(line, f, 6) != 6)
			fatal(path, "a target without six fields");
		if (!applied(patches, f[4]))
			continue;
		if (strcmp(f[5], "-") && (!iommu || strcmp(f[5], iommu)))
			continue;
		if (nr_targets == sizeof(targets) / sizeof(targets[0]))
			fatal(path, "too many targets");
		snprintf(t->workload, sizeof(t->workload), "%s", f[0]);
		snprintf(t->metric, sizeof(t->metric), "%s", f[1]);
		snprintf(t->op, sizeof(t->op), "%s", f[2]);
		snprintf(t->bound, sizeof(t->bound), "%s", f[3]);
		nr_targets++;
	}
	fclose(in);
}

static bool reached(const struct target *t, double stock, double patched)
{
	char *end;
	double b = strtod(t->bound, &end);

	if (*end == 'x')
		b *= stock;
	else if (*t->bound == '+')
		b += stock;
	if (!strcmp(t->op, "<="))
		return patched <= b;
	if (!strcmp(t->op, ">="))
		return patched >= b;
	if (!strcmp(t->op, "<"))
		return patched < b;
	if (!strcmp(t->op, ">"))
		return patched > b;
	if (!strcmp(t->op, "=="))
		return patched == b;
	fatal(t->metric, "unknown operator in its target");
	return false;
}

static char missed[4096];
static int nr_missed;

static void miss(const struct target *t, const char *why)
{
	char line[256];

	snprintf(line, sizeof(line), "%s%s %s%s", nr_missed ? ", " : "", t->workload, t->metric, why);
	if (strlen(missed) + strlen(line) < sizeof(missed))
		strcat(missed, line);
	nr_missed++;
}

/* What kept a workload from giving figures, NULL if nothing did. */
static const char *ended_early(const char *workload, int boot, const char *how)
{
	struct figure *f = figure(workload, how, NULL);

	return f && f->text[boot][0] ? f->text[boot] : NULL;
}

int main(int argc, char **argv)
{
	const char *patches = NULL, *iommu = NULL, *list = NULL, *tsv = NULL, *text = NULL;
	int c, hit = 0, failed = 0, skipped = 0, incomplete = 0, multi = 0;
	bool counts = false;
	char tmp[512];
	const char *last = "";
	double worst = 0;
	FILE *out;

	while ((c = getopt(argc, argv, "p:i:cn:t:o:")) != -1) {
		switch (c) {
		case 'p': patches = optarg; break;
		case 'i': iommu = optarg; break;
		case 'c': counts = true; break;
		case 'n': text = optarg; break;
		case 't': list = optarg; break;
		case 'o': tsv = optarg; break;
		default: return 2;
		}
	}
	if (argc - optind != BOOTS || !list || !tsv)
		fatal("usage", "compare [-p FILE] [-i IOMMU] [-c] [-n NOTE] -t TARGETS -o TSV "
		      "STOCK PATCHED STOCK");
	for (int b = 0; b < BOOTS; b++)
		load(argv[optind + b], b);
	load_targets(list, patches, iommu);
	snprintf(tmp, sizeof(tmp), "%s.tmp", tsv);
	out = fopen(tmp, "we");
	if (!out)
		fatal(tmp, strerror(errno));
	fprintf(out, "workload\tmetric\tunit\tstock\tpatched\tratio\tdrift\n");
	printf("%-17s %-22s %-9s %13s %13s %7s %8s  %s\n", "workload", "metric", "unit", "stock",
	       "patched", "ratio", "drift", "target");

	for (int i = 0; i < nr_figures; i++) {
		struct figure *f = &figures[i];
		const char *name = strcmp(last, f->workload) ? f->workload : "";
		char a[64], b[64], ratio[32] = "-", drift[32] = "-", mark[128] = "";
		double s1, s2, p, stock;
		bool whole = f->n[0] && f->n[1] && f->n[2];

		if (!strcmp(f->unit, "-")) {
			bool bad = !strcmp(f->metric, "FAIL");

			if (!bad && strcmp(f->metric, "SKIP"))
				continue;
			for (int k = 0; k < BOOTS; k++) {
				if (!f->text[k][0])
					continue;
				printf("%-17s %s on %s: %s\n", f->workload, bad ? "FAILED" : "skipped",
				       boot_name[k], f->text[k]);
				fprintf(out, "%s\t%s\t%s\t%s\t\t\t\n", f->workload, f->metric,
					boot_name[k], f->text[k]);
				*(bad ? &failed : &skipped) += 1;
			}
			last = "";
			continue;
		}
		last = f->workload;
		if (!whole) {
			/* Told already if the workload as a whole said why. */
			bool known = false;

			for (int k = 0; k < BOOTS; k++)
				known |= !f->n[k] && (ended_early(f->workload, k, "SKIP") ||
						      ended_early(f->workload, k, "FAIL"));
			if (!known) {
				printf("%-17s %-22s not measured in every boot\n", name, f->metric);
				incomplete++;
			}
			continue;
		}
		multi |= f->n[0] > 1;
		s1 = median(f, 0);
		p = median(f, 1);
		s2 = median(f, 2);
		stock = (s1 + s2) / 2;
		if (stock)
			snprintf(ratio, sizeof(ratio), "%.4f", p / stock);
		if (s1) {
			snprintf(drift, sizeof(drift), "%+.2f%%", (s2 - s1) * 100 / s1);
			if (!strcmp(f->unit, "insn") && fabs((s2 - s1) / s1) > worst)
				worst = fabs((s2 - s1) / s1);
		}
		for (int k = 0; k < nr_targets; k++) {
			struct target *t = &targets[k];
			size_t used;
			bool ok;

			if (strcmp(t->workload, f->workload) || strcmp(t->metric, f->metric))
				continue;
			t->seen = true;
			ok = reached(t, stock, p);
			used = strlen(mark);
			snprintf(mark + used, sizeof(mark) - used, "%s%s %s %s", used ? ", " : "",
				 t->op, t->bound, ok ? "yes" : "MISSED");
			hit += ok;
			if (!ok)
				miss(t, "");
		}
		printf("%-17s %-22s %-9s %13s %13s %7s %8s  %s\n", name, f->metric, f->unit,
		       number(stock, a, sizeof(a)), number(p, b, sizeof(b)), ratio, drift, mark);
		fprintf(out, "%s\t%s\t%s\t%.10g\t%.10g\t%s\t%s\n", f->workload, f->metric, f->unit,
			stock, p, ratio, drift);
	}
	if (fclose(out) || rename(tmp, tsv))
		fatal(tsv, strerror(errno));

	/* A target whose workload ran but whose figure is missing isn't reached. */
	for (int k = 0; k < nr_targets; k++) {
		bool ran = false;

		for (int i = 0; i < nr_figures; i++)
			ran |= !strcmp(figures[i].workload, targets[k].workload);
		if (ran && !targets[k].seen && !(counts && strstr(targets[k].metric, "insns")))
			miss(&targets[k], " (no figure)");
	}
	printf("\n%s\n"
	       "stock: mean of the boots before and after the patched one; drift: the second against the first%s.\n",
	       counts ? "Counts are judged, not instructions or time." :
	       "Unit insn: guest instructions under QEMU's icount, one CPU; a cost, not a time on hardware.",
	       multi ? "; medians over the seeds" : "");
	if (text)
		printf("%s\n", text);
	if (worst > 0.01)
		printf("Stock drifted by up to %.1f %% in instructions: differences of that size mean nothing.\n",
		       worst * 100);
	printf("verdict: %d of %d figures reached", hit, hit + nr_missed);
	if (nr_missed)
		printf(", MISSED: %s", missed);
	if (failed)
		printf("; %d FAILED", failed);
	if (incomplete)
		printf("; %d figures incomplete", incomplete);
	if (skipped)
		printf("; %d skipped", skipped);
	printf("%s\n", failed ? "" : "; every byte verified");
	return nr_missed || failed || incomplete;
}
