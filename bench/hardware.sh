#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The workloads on a machine of your own, without QEMU: copy this directory there (what
# `make hardware` makes: this script, swapbench, compare, targets.tsv) and, as root,
#
#   ./hardware.sh run RESULTS DEVICE|DIRECTORY [WORKLOAD...]    once each boot
#   ./hardware.sh compare RESULTS                               stock, patched, stock again
#
# DEVICE is a whole drive or a partition: WHAT IT HOLDS IS LOST, so it is refused if it is in
# use or holds anything. DIRECTORY is on the file system that is to have the swap file.
# CPU time is time there, in nanoseconds. SEEDS='1 2 3' for workloads that draw numbers.

set -eEuo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd -P)

die() {
	echo "hardware.sh: $*" >&2
	exit 1
}

# Lines of RESULTS/N/state.tsv: what a figure depends on.
state() { # FILE-OR-DIRECTORY
	local f disk
	[ -b "$1" ] && disk=$1 || disk=$(findmnt -no source -T "$1")
	disk=$(lsblk -no pkname,kname "$disk" | awk 'NR == 1 { print $1 }')
	printf 'kernel\t%s\n' "$(uname -rv)"
	printf 'cmdline\t%s\n' "$(cat /proc/cmdline)"
	printf 'cpu\t%s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	printf 'cpus\t%s\n' "$(nproc)"
	printf 'memory\t%s\n' "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
	printf 'drive\t%s\n' "$disk $(cat "/sys/block/$disk/device/model" 2>/dev/null)"
	for f in /sys/devices/system/cpu/cpu0/cpufreq/scaling_{driver,governor} \
		/sys/devices/system/cpu/intel_pstate/no_turbo /sys/devices/system/cpu/cpufreq/boost \
		/sys/module/zswap/parameters/enabled /sys/kernel/mm/lru_gen/enabled \
		/sys/kernel/mm/transparent_hugepage/{enabled,shmem_enabled} /proc/sys/vm/{swappiness,page-cluster} \
		"/sys/block/$disk/device/device/iommu_group/type" \
		"/sys/block/$disk/queue/"{max_hw_sectors_kb,max_sectors_kb,rotational,scheduler}; do
		printf '%s\t%s\n' "$f" "$(cat "$f" 2>/dev/null || echo absent)"
	done
}

run() {
	local results=$1 target=$2 n workloads=("${@:3}") used
	[ "$(id -u)" = 0 ] || die "must run as root"
	[ -x "$here/swapbench" ] || die "no swapbench beside this script: make hardware"
	[ "$(wc -l </proc/swaps)" = 1 ] || die "swap is on: swapoff -a first (the workloads need all pages to go to one place)"
	if [ -b "$target" ]; then
		used=$(lsblk -nro mountpoints "$target" | sed '/^$/d')
		[ -z "$used" ] || die "$target is in use: $used"
		[ "$(lsblk -nro name "$target" | wc -l)" = 1 ] || die "$target has partitions or is part of something: name one of those"
		used=$(blkid -p -o export "$target" 2>/dev/null | sed -n '/^\(TYPE\|PTTYPE\)=/p') || true
		[ -z "$used" ] || die "$target holds something (${used//$'\n'/, }): 'wipefs -a $target' if it may go"
		[ "$(blockdev --getsize64 "$target")" -ge $((5 << 29)) ] || die "$target is smaller than 2.5 GiB"
		export SWAPOUT_P2=$target SWAPOUT_P3=$target SWAPOUT_P4=$target
	elif [ -d "$target" ]; then
		[ "$(df -Pm "$target" | awk 'NR == 2 { print $4 }')" -ge 1000 ] || die "$target has less than 1 GB free"
		SWAPOUT_DIR=$(mktemp -d "$target/swapbench.XXXXXX")
		export SWAPOUT_DIR
		trap 'rm -rf "$SWAPOUT_DIR"' EXIT
	else
		die "$target is neither a block device nor a directory"
	fi
	if [ ${#workloads[@]} = 0 ]; then
		if [ -d "$target" ]; then
			workloads=(thp-file thp-file-frag seqread)
		else
			workloads=(thp-part mthp-noswap mthp-swapmax0 thp-part-frag oltp-part oltp-mthp mix mix-60 rewrite)
		fi
	fi
	mkdir -p "$results"
	for ((n = 1; ; n++)); do [ -e "$results/$n" ] || break; done
	mkdir "$results/$n"
	state "$target" >"$results/$n/state.tsv"
	env -u BOX_ICOUNT -u BOX_IOMMU "$here/swapbench" --seed "$(tr ' ' , <<<"${SEEDS:-1}")" --out "$results/$n/bench.tsv" \
		--slots "$results/$n" "${workloads[@]}" || die "a workload failed, see above and $results/$n/bench.tsv"
	[ ! -b "$target" ] || wipefs -qa "$target"
	echo "hardware.sh: run $n of $(uname -r) is in $results/$n"
}

compare() {
	local results=$1 n kernel=()
	for n in 1 2 3; do
		[ -s "$results/$n/bench.tsv" ] || die "$results/$n/bench.tsv is not there: three runs are wanted, stock, patched, stock"
		kernel[n]=$(sed -n 's/^kernel\t//p' "$results/$n/state.tsv")
	done
	echo "1: ${kernel[1]}"$'\n'"2: ${kernel[2]}"$'\n'"3: ${kernel[3]}"
	[ "${kernel[1]}" = "${kernel[3]}" ] || echo "WARNING: the first and the last kernel are not the same"
	[ "${kernel[1]}" != "${kernel[2]}" ] || echo "WARNING: all runs are of one kernel"
	for n in 2 3; do
		diff <(grep -v ^kernel "$results/1/state.tsv") <(grep -v ^kernel "$results/$n/state.tsv") ||
			echo "WARNING: the state of run $n is not that of run 1"
	done
	# All patches: targets of single ones hold. CPU time is printed and judged by nobody.
	printf '%s\n' batch large-entries >"$results/patches"
	"$here/compare" -c -p "$results/patches" -i none -n "On hardware: CPU time of the calling thread in ns, see state.tsv." \
		-t "$here/targets.tsv" -o "$results/compare.tsv" "$results"/{1,2,3}/bench.tsv
}

case ${1-} in
run) [ $# -ge 3 ] && run "${@:2}" && exit ;;
compare) [ $# = 2 ] && compare "$2" && exit ;;
esac
sed -n '3,/^$/s/^# \{0,1\}//p' "$0" >&2
exit 2
