#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What swap-out costs on stock and on patched: boots stock, patched and stock again, runs
# the chosen workloads in each and writes build/results/compare.tsv, a table and a verdict.
#
#   [WORKLOADS='oltp-part mix'] [SEEDS='1 2 3'] [AT=n] [IOMMU=…] [CPUS=n] bench/compare.sh
#
# CPUS above 1 gives counts only: instructions can be counted on one CPU alone.
# Exit status: 0 all figures of bench/targets.tsv reached (those of workloads that ran) and
# every byte verified, 1 otherwise.

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

: "${WORKLOADS:=thp-file thp-part mthp-noswap mthp-swapmax0}"
: "${SEEDS:=1}"
: "${CPUS:=1}"
: "${TIMEOUT:=7200}"
check_variables
[[ $SEEDS =~ ^\ *[0-9]+(\ +[0-9]+)*\ *$ ]] || die "SEEDS=$SEEDS is not a list of numbers"
ICOUNT=$((CPUS == 1))
export CPUS ICOUNT TIMEOUT
read -ra workloads <<<"$WORKLOADS"
read -ra seeds <<<"$SEEDS"
((${#seeds[@]} <= 32)) || die "SEEDS: at most 32"

lock compare "make compare"
need gcc libc6-dev liburing-dev make
step bench make -C "$top/bench"
bench=$build/guest/bench/swapbench
for w in "${workloads[@]}"; do
	"$bench" --list | grep -qxF -- "$w" ||
		die "WORKLOADS: no workload '$w'; one of: $("$bench" --list | paste -sd' ')"
done

results=$build/results
work=$results/compare
rm -rf "$work" "$results/compare.tsv"
mkdir -p "$work"

series() {
	find "$top/patches" -name '0[0-9]*.patch' ! -name '0000-*' -printf '%f\n' 2>/dev/null | sort
}
if [ -n "$AT" ]; then series | head -n "$AT"; else series; fi >"$work/patches"

"$top/scripts/kernel.sh" stock
"$top/scripts/kernel.sh" patched

# one KERNEL DIR: one boot with all workloads.
# shellcheck disable=SC2317 # called by step
one() {
	local dir=$work/$2 rc=0 key want
	mkdir -p "$dir"
	KERNEL=$1 OUT=$dir "$top/box/run.sh" /box/bench/swapbench \
		--seed "$(IFS=,; echo "${seeds[*]}")" --out /out/bench.tsv --slots /out "${workloads[@]}" || rc=$?
	# 1: a workload failed, the table says which; the others are worth seeing.
	((rc <= 1)) || return "$rc"
	[ -s "$dir/bench.tsv" ] || die "$1 gave no figures"
	for key in "iommu=$IOMMU" "cpus=$CPUS" "icount=$ICOUNT" rotational=0 swap_kb=0 zswap=N; do
		want=${key#*=}
		key=${key%%=*}
		grep -qx "$key"$'\t'"$want" "$dir/state.tsv" ||
			die "$1: state is not $key $want: $(grep "^$key" "$dir/state.tsv")"
	done
}

# Boots differ in the kernel and in nothing else.
same_state() {
	local keep='^(icount|accel|iommu|max_hw_sectors_kb|rotational|cpus|swap_kb|lru_gen|zswap|thp|hugepages)'
	diff <(grep -E "$keep" "$work/stock-1/state.tsv") <(grep -E "$keep" "$work/$1/state.tsv") ||
		die "the state of $1 is not that of stock-1"
}

say "compare: ${workloads[*]}; seeds ${seeds[*]}; IOMMU=$IOMMU CPUS=$CPUS ${AT:+AT=$AT}"
step boot-stock-1 one stock stock-1
step boot-patched one patched patched
step boot-stock-2 one stock stock-2
same_state patched
same_state stock-2

note="Kernels: stock and $(wc -l <"$work/patches") patches; IOMMU=$IOMMU, CPUS=$CPUS, seeds ${seeds[*]}."
flags=(-i "$IOMMU" -p "$work/patches" -n "$note")
[ "$ICOUNT" = 1 ] || flags+=(-c)
rc=0
"$build/tools/compare" "${flags[@]}" -t "$top/bench/targets.tsv" -o "$results/compare.tsv" \
	"$work"/{stock-1,patched,stock-2}/bench.tsv | tee "$results/compare.txt" || rc=$?
say "results: build/results/compare.tsv"
exit $rc
