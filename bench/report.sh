#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Pictures of what the last `make compare` measured: build/results/report/*.svg, *.png and
# a README.md that says what they are of. Draws what there is; nothing is measured here.

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

results=$build/results
work=$results/compare
out=$results/report
[ -s "$results/compare.tsv" ] || die "no build/results/compare.tsv: run 'make compare' first"
need gnuplot-nox

rm -rf "$out"
mkdir -p "$out/data"

# draw NAME: both kinds of picture, from report.gp's part of that name
draw() {
	local kind
	for kind in svg png; do
		gnuplot -e "kind='$kind'; name='$1'; data='$out/data'; out='$out/$1.$kind'" "$top/bench/report.gp" ||
			die "gnuplot failed on $1"
	done
	pictures+=("$1")
}

pictures=()
# What the targets name, as a share of stock: label, ratio, bound
awk -F'\t' 'NR == FNR { if (/^[^#]/) want[$1 "\t" $2] = ($4 ~ /x$/) ? $4 + 0 : "-"; next }
	($1 "\t" $2) in want && $6 + 0 > 0 { print $1 " " $2 "\t" $6 "\t" want[$1 "\t" $2] }' \
	"$top/bench/targets.tsv" "$results/compare.tsv" | tr _ ' ' >"$out/data/ratio"
[ ! -s "$out/data/ratio" ] || draw ratio

awk -F'\t' '$1 ~ /^oltp/ && $2 == "read_reqs_per_tx" { r[$1] = $4 "\t" $5; n[++k] = $1 }
	$1 ~ /^oltp/ && $2 == "write_reqs_per_tx" { w[$1] = $4 "\t" $5 }
	END { for (i = 1; i <= k; i++) print n[i] "\t" r[n[i]] "\t" w[n[i]] }' \
	"$results/compare.tsv" >"$out/data/requests"
[ ! -s "$out/data/requests" ] || draw requests

for w in thp-file thp-file-frag thp-part; do
	if [ ! -s "$work/stock-1/slots-$w.tsv" ] || [ ! -s "$work/patched/slots-$w.tsv" ]; then
		continue
	fi
	for k in stock-1 patched; do
		# From the first slot on: where it is on the device is of no interest
		sort -k2n "$work/$k/slots-$w.tsv" | awk 'NR == 1 { first = $2 } { print $1, $2 - first }' >"$out/data/slots-${k%-1}"
	done
	draw slots
	break
done

for what in size extents fill; do
	awk -F'\t' -v what="$what" '$1 ~ /^scale/ && $2 ~ "^" what "_[0-9]+_(out|in)_(insns|ns)_per_page" {
		split($2, p, "_"); s[p[2]] += $4; t[p[2]] += $5 }
		END { for (x in s) print x, s[x], t[x] }' "$results/compare.tsv" | sort -n >"$out/data/scale-$what"
done
[ ! -s "$out/data/scale-size" ] || draw scale

{
	echo "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
	echo "# Report of $(date +%F), commit $(git -C "$top" rev-parse --short HEAD)"
	echo
	sed -n 's/^Kernels: //p' "$results/compare.txt"
	echo "Counts and guest instructions under QEMU's icount: a cost, not a time. Nothing is claimed of hardware."
	echo
	for p in "${pictures[@]}"; do echo "![$p]($p.svg)"; done
	echo
	echo '```'
	cat "$results/compare.txt"
	echo '```'
} >"$out/README.md"
cp "$results/compare.tsv" "$out/"
say "  report: build/results/report (${pictures[*]})"
