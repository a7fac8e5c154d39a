// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print the frequency of this machine's time stamp counter in kHz. Under emulation it is
 * the guest's as well, and a guest that calibrates it on a busy machine may be off by a
 * factor of twenty: its clock then runs away and every timeout in it with it.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct sample {
	uint64_t tsc, ns, error;
};

/* The clock between two readings of the counter; the closest pair of many. */
static struct sample sample(void)
{
	struct sample best = { .error = UINT64_MAX };

	for (int i = 0; i < 1000; i++) {
		struct timespec ts;
		uint64_t before = __rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
		after = __rdtsc();
		if (after - before < best.error) {
			best.error = after - before;
			best.tsc = before + (after - before) / 2;
			best.ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
		}
	}
	return best;
}

int main(void)
{
	struct timespec wait = { .tv_nsec = 100000000 };
	struct sample a = sample(), b;

	nanosleep(&wait, NULL);
	b = sample();
	printf("%.0f\n", (b.tsc - a.tsc) * 1e6 / (b.ns - a.ns));
	return 0;
}
