#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The kernel's own tools/mm/thp_swap_allocator_test, 100 rounds plain, with small folios beside
# (-s) and with aligned swap-in (-a), each on a zram device of 64 MiB as its header asks for:
# how many 64 KiB folios had to be split. Exit status: 0 if none, 1 otherwise.
#
#   [KERNEL=stock|patched] bench/allocator.sh

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
: "${TIMEOUT:=1800}"
check_variables
export TIMEOUT
need gcc libc6-dev
[ -d "$build/linux/.git" ] || "$top/scripts/tree.sh"
mkdir -p "$build/guest/bench"
step allocator-test gcc -O2 -static -w -o "$build/guest/bench/thp_swap_allocator_test" \
	"$build/linux/tools/mm/thp_swap_allocator_test.c"

# shellcheck disable=SC2016 # for the guest's shell
guest='cd /sys/kernel/mm/transparent_hugepage && echo never >hugepages-2048kB/enabled &&
	echo always >hugepages-64kB/enabled || exit 1
for how in "" -s -a; do
	id=$(cat /sys/class/zram-control/hot_add) && echo lzo >/sys/block/zram$id/comp_algorithm &&
		echo 64M >/sys/block/zram$id/disksize && mkswap /dev/zram$id >/dev/null &&
		swapon /dev/zram$id || exit 1
	/box/bench/thp_swap_allocator_test $how >/out/rounds$how || exit 1
	swapoff /dev/zram$id && echo $id >/sys/class/zram-control/hot_remove || exit 1
done'
out=$build/results/allocator-$KERNEL
OUT=$out step "allocator-$KERNEL" "$top/box/run.sh" "$guest"
for how in '' -s -a; do
	awk -v how="${how:-plain}" '
		/Fallback percentage/ {
			rounds++
			for (i = 1; i < NF; i++) {
				if ($i == "percentage:") { p = $(i + 1) + 0; if (p > worst) worst = p }
				if ($i == "swpout" && $(i + 1) == "inc:") out += $(i + 2)
				if ($i == "fallback" && $(i + 1) == "inc:") split_up += $(i + 2)
			}
		}
		END {
			printf "%-6s %d rounds, %d folios swapped out, %d split, worst round %.2f %%\n", how, rounds, out, split_up, worst
			exit !(rounds == 100 && out && !split_up)
		}' "$out/rounds$how" || bad=1
done
exit "${bad:-0}"
