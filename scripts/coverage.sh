#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Which of the lines that the series adds to mm/*.c have run: a kernel that counts, the unit
# tests, the swap selftests and MINUTES of soak with faults in one boot, then gcov. Lines that
# did not run are shown; docs/uncovered has those that may be and why. Exit status 1 if
# there is another.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
check_variables
need gcc make ccache bc bison flex libelf-dev libssl-dev lz4 git libc6-dev liburing-dev
export -n KERNEL TIMEOUT

src=$build/linux
obj=.obj-gcov
out=$build/results/coverage
kernel=$build/kernel/gcov
"$top/scripts/kernel.sh" patched
series=$(git -C "$src" log --format=%H -n 1 --grep '^Linux 7\.' -E)
mapfile -t files < <(git -C "$src" diff --name-only "$series" HEAD | grep -E '^mm/[a-z_]*\.c$')

# shellcheck disable=SC2317 # called by step
counting_kernel() {
	local f profile=()
	for f in "${files[@]}"; do
		f=${f##*/}
		# make's own words: other directories have a memory.o as well.
		# shellcheck disable=SC2016
		profile+=("GCOV_PROFILE_${f%.c}.o="'$(if $(filter mm,$(obj)),y,n)')
	done
	mkdir -p "$src/$obj" "$kernel"
	(cd "$src" && scripts/kconfig/merge_config.sh -m -O "$obj" "$build/kernel/patched/config" "$top/kconfig/gcov.config")
	kernel_make "$src" "$obj" -s olddefconfig
	kernel_make "$src" "$obj" -s -j"$(nproc)" "${profile[@]}" bzImage
	cp "$src/$obj/arch/x86/boot/bzImage" "$kernel/"
	cp "$src/$obj/.config" "$kernel/config"
	echo gcov >"$kernel/id"
}
step kernel-gcov counting_kernel
step bench make -C "$top/bench"
[ -x "$build/guest/ksft/mm/folio_swapout" ] || KERNEL=patched TESTS=swap "$top/scripts/kselftest.sh"

# shellcheck disable=SC2317 # called by step
measure() {
	rm -rf "$out"
	# shellcheck disable=SC2016 # for the guest's shell
	KERNEL_DIR=$kernel OUT=$out CPUS=2 TIMEOUT=$((10#$MINUTES * 60 + 3600)) "$top/box/run.sh" '
		cat /sys/kernel/debug/kunit/swap_batch/results
		mkfs.ext4 -q -F "$SWAPOUT_P4" && mount "$SWAPOUT_P4" /mnt && cp -a /box/ksft/. /mnt && cd /mnt/mm || exit 1
		SWAP_TEST_PART=$SWAPOUT_P2 SWAP_TEST_TINY=$SWAPOUT_P1 ./run_vmtests.sh -t swap | grep -a "^# SUMMARY\|^# not ok\|^# Totals"
		cd / && umount /mnt
		/box/bench/soak --faults --seed '"$SEED --minutes $MINUTES"'
		mkdir -p /out/gcda && cd /sys/kernel/debug/gcov && find . -name "*.gcda" | while read -r f; do cat "$f" >"/out/gcda/${f##*/}"; done'
}
step measure measure

cd "$out/gcda"
for f in "${files[@]}"; do
	f=${f##*/}
	[ -s "${f%.c}.gcda" ] || die "no counts of $f"
	cp "$src/$obj/mm/${f%.c}.gcno" .
	gcov "${f%.c}.gcda" >/dev/null 2>&1
done
# Added lines that gcov has as code, and of those the ones that never ran.
added=0
: >"$out/uncovered"
for f in "${files[@]}"; do
	git -C "$src" diff -U0 "$series" HEAD -- "$f" |
		sed -n -E 's/^@@ [^+]*\+([0-9]+)(,([0-9]+))? .*/\1 \3/p' |
		awk '{ n = $2 == "" ? 1 : $2; for (i = 0; i < n; i++) print $1 + i }' >lines
	n=$(awk -F: 'NR == FNR { want[$1]; next } { l = $2 + 0 } l in want && $1 !~ /^ *-$/ && !(l in seen) { seen[l]; n++ }
		END { print n + 0 }' lines "${f##*/}.gcov")
	added=$((added + n))
	# A function that is inlined in several places has several counts: one is enough.
	awk -F: -v f="$f" 'NR == FNR { want[$1]; next } { l = $2 + 0 }
		l in want && $1 ~ /[0-9]/ { ran[l] }
		l in want && $1 ~ /#####|=====/ { t = $0; sub(/^[^:]*:[^:]*:[ \t]*/, "", t); never[l] = t }
		END { for (l in never) if (!(l in ran)) print f "\t" never[l] }' lines "${f##*/}.gcov" | sort >>"$out/uncovered"
done
grep -v '^#' "$top/docs/uncovered" | cut -f 1,2 | sort >known
sort "$out/uncovered" | comm -23 - known >"$out/unexplained"
say "coverage: $added lines of code added to mm/, $(wc -l <"$out/uncovered") never ran, $(wc -l <"$out/unexplained") of them without a reason in docs/uncovered"
cat "$out/unexplained"
[ ! -s "$out/unexplained" ]
