#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# All tests. A line each, and at the end "N passed, N failed, N skipped": the checks and,
# for the kernel's selftests, each test by itself. Exit status 1 if anything failed.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
check_variables
need_root "make check installs packages and builds a root image"
lock check "make check"

passed=0 failed=0 skipped=0 began=$SECONDS
mkdir -p "$logs" "$build/results"

result() { # ok|FAIL|skip NAME [WORD]
	case $1 in
	ok) passed=$((passed + 1)) ;;
	FAIL) failed=$((failed + 1)) ;;
	skip) skipped=$((skipped + 1)) ;;
	esac
	printf '%-4s  %s%s\n' "$1" "$2" "${3:+  ($3)}"
}

# check NAME COMMAND...: status 0 is ok, 4 a skip whose last line says why.
check() {
	local name=$1 log=$logs/check-$1.log rc=0 start=$SECONDS
	shift
	"$@" >"$log" 2>&1 </dev/null || rc=$?
	case $rc in
	0) result ok "$name" "$(elapsed "$start")" ;;
	4) result skip "$name" "$(tail -1 "$log")" ;;
	*)
		result FAIL "$name" "status $rc after $(elapsed "$start"), log: ${log#"$top"/}"
		tail -n 25 "$log" | sed 's/^/      /'
		;;
	esac
	return 0
}

# What export writes from a tree just made is what patches/ has.
round_trip() {
	local dir=$build/tmp/round-trip
	mkdir -p "$build/tmp"
	rm -rf "$dir"
	TREE=$build/linux-at FORCE=1 AT='' "$top/scripts/tree.sh"
	TREE=$build/linux-at OUT=$dir "$top/scripts/export.sh"
	diff -r -x 0000-cover-letter.patch "$top/patches" "$dir"
	rm -rf "$dir"
}

# The series as somebody would take it: a plain tree, git am and nothing of ours.
plain_am() {
	local base dir=$build/tmp/plain
	base=$("$top/scripts/base.sh")
	rm -rf "$dir"
	git clone -q --shared --no-checkout "$base" "$dir"
	git -C "$dir" sparse-checkout set --no-cone /mm /include/linux /tools/testing/selftests/mm /Documentation/admin-guide /MAINTAINERS
	git -C "$dir" checkout -q
	# The README's own words
	git -C "$dir" -c user.name=check -c user.email=check@localhost am -q "$top"/patches/0*.patch
	rm -rf "$dir"
}

# The box must see what it is there to see.
box_status() { # WANTED COMMAND...
	local want=$1 rc=0
	shift
	OUT=$build/results/box-self "$top/box/run.sh" "$@" || rc=$?
	echo "status $rc, wanted $want"
	[ $rc = "$want" ]
}

# bench/hardware.sh on the box as if it were such a machine: refuses what is in use, runs
# three times, compares; nothing is left behind.
hardware() {
	"$top/scripts/entry.sh" hardware || return
	mkdir -p "$build/guest" && rm -rf "$build/guest/hardware" && cp -r "$build/hardware" "$build/guest" || return
	# shellcheck disable=SC2016 # for the guest's shell
	KERNEL=patched CPUS=2 OUT=$build/results/box-hardware "$top/box/run.sh" '
		h="/box/hardware/hardware.sh" r=/out/results
		rm -rf $r
		refused() { ! "$h" run $r "$@" && [ ! -e $r ] || { echo "not refused: $*"; exit 1; }; }
		mkfs.ext4 -q -F $SWAPOUT_P4 && refused $SWAPOUT_P4
		mount $SWAPOUT_P4 /mnt && refused $SWAPOUT_P4
		refused /dev/nvme0n1; refused $SWAPOUT_P2; refused /etc/passwd; refused /nonesuch
		mkswap -q $SWAPOUT_P3 && swapon $SWAPOUT_P3 && refused /mnt
		swapoff -a
		"$h" run $r-file /mnt thp-file && [ "$(ls /mnt)" = lost+found ] || exit 1
		umount /mnt && wipefs -qa $SWAPOUT_P4
		for i in 1 2 3; do "$h" run $r $SWAPOUT_P4 thp-part mthp-noswap || exit 1; done
		"$h" compare $r && [ -z "$(blkid -p -o value -s TYPE $SWAPOUT_P4)" ]'
}

# tally NAME: count tests, a line each on stdin: pass, FAIL or skip, two blanks, the name.
tally() {
	local line
	while read -r line; do
		case $line in
		pass*) passed=$((passed + 1)) ;;
		FAIL*) result FAIL "$1: ${line#FAIL  }" ;;
		skip*) result skip "$1: ${line#skip  }" ;;
		esac
	done
}

# ksft NAME KERNEL TESTS [EXPECT]: one boot, and a result for each test in it.
ksft() {
	local log=$build/results/ksft-$2-${3// /+}.log
	KERNEL=$2 TESTS=$3 CPUS=2 TIMEOUT=1800 "$top/scripts/kselftest.sh" >"$logs/check-$1.log" 2>&1 || true
	if [ ! -f "$log" ]; then
		result FAIL "$1" "log: build/log/check-$1.log"
		tail -n 25 "$logs/check-$1.log" | sed 's/^/      /'
		return
	fi
	[ -z "${4-}" ] || return 0
	tally "$1" < <("$build/tap" list "$log")
	echo "      $1: $("$build/tap" check "$log" | tail -1)"
}

# One boot of the debug kernel: the series' unit tests, which run before init, and those of
# its selftests that reach most of its lines. All of them take half an hour there. The
# programs are those that swap-patched has built.
debug=$build/results/box-debug
debug_kernel() {
	rm -f "$debug"/{kunit,swap}.log
	# shellcheck disable=SC2016 # for the guest's shell
	KERNEL=debug OUT=$debug CPUS=2 TIMEOUT=1800 "$top/box/run.sh" '
		cat /sys/kernel/debug/kunit/swap_batch/results >/out/kunit.log
		mkfs.ext4 -q -F "$SWAPOUT_P4" && mount "$SWAPOUT_P4" /mnt && cd /mnt &&
		cp /box/ksft/mm/folio_swapout /box/ksft/mm/test_swap.sh . || exit 1
		export SWAP_TEST_PART=$SWAPOUT_P2 SWAP_TEST_TINY=$SWAPOUT_P1
		./test_swap.sh -t batch_gets_runs -t equal_fragmented >/out/swap.log 2>&1' || return
	cat "$debug"/{kunit,swap}.log
	grep -q '^ok .* swap_batch' "$debug/kunit.log"
}

# Tests of KUnit, which has them indented, and of the harness, as tally reads them.
debug_tests() {
	{ sed -n 's/^    //p' "$debug/kunit.log" && cat "$debug/swap.log"; } |
		sed -n -E 's/^not ok /FAIL  /p; s/^ok (.*# SKIP)/skip  \1/p; s/^ok /pass  /p'
}

check shell-and-names "$top/scripts/lint.sh" repository
check base "$top/scripts/base.sh"
check round-trip round_trip
check git-am plain_am
"$top/scripts/tree.sh"
check checkpatch "$top/scripts/lint.sh" patches
check kernel-stock "$top/scripts/kernel.sh" stock
check kernel-patched "$top/scripts/kernel.sh" patched
check each-patch-builds "$top/scripts/bisect.sh"
check box-runs box_status 3 'cat /out/state.tsv; exit 3'
TIMEOUT=20 check box-sees-a-hang box_status 124 'sleep 1000'
check box-sees-a-splat box_status 70 'echo "WARNING: this is a test" >/dev/kmsg; sleep 100'
check hardware-script hardware
check kernel-debug "$top/scripts/kernel.sh" debug
ksft swap-patched patched swap
check debug-kernel debug_kernel
[ ! -f "$debug/swap.log" ] || tally debug < <(debug_tests)
ksft swap-stock stock swap expect
check stock-shows-the-faults "$build/tap" expect "$build/results/ksft-stock-swap.log" "$top/box/stock-fails"
check allocator-test "$top/bench/allocator.sh"
others='thp process_madv cow'
for kernel in stock patched; do
	ksft "mm-$kernel" $kernel "$others" expect
done
# Some of these depend on timing: a second run may show that it was that.
no_worse() {
	local log=$build/results/ksft-patched-${others// /+}.log
	local stock=$build/results/ksft-stock-${others// /+}.log
	if "$build/tap" diff "$stock" "$log" "$top/box/may-differ"; then return; fi
	echo "once more:"
	mv "$log" "$log.1"
	ksft mm-patched patched "$others" expect
	"$build/tap" diff "$stock" "$log" "$top/box/may-differ"
}
check mm-no-worse no_worse

printf '\nall in %s\n%d passed, %d failed, %d skipped\n' "$(elapsed "$began")" $passed $failed $skipped
[ $failed = 0 ] && [ $passed != 0 ]
