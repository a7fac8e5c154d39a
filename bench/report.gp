# SPDX-License-Identifier: GPL-2.0-only
# bench/report.sh's pictures. kind: svg or png; name: which; data: directory; out: file.
stock = '#b0b0b0'
patched = '#1f77b4'
wide = 900
high = name eq 'ratio' ? 120 + 26 * int(system("wc -l <".data."/ratio")) : 420
if (kind eq 'svg') {
	set terminal svg size wide,high font 'sans,13' background '#ffffff'
} else {
	set terminal pngcairo size wide,high font 'sans,11'
}
set output out
set border 3
set tics nomirror
set key top right Left reverse

if (name eq 'ratio') {
	set title 'Patched kernel, share of stock (shorter is better; | is the target)'
	set datafile separator "\t"
	set xrange [0:1.14]
	set yrange [*:*] reverse
	unset key
	set grid xtics
	set arrow from 1,graph 0 to 1,graph 1 nohead lc '#000000'
	plot data.'/ratio' using ($2/2):0:($2/2):(0.35):ytic(1) with boxxyerror fs solid lc rgb patched, \
		'' using (1.12):0:(sprintf("%.2f", $2)) with labels right, \
		'' using ($3):0 with points pt '|' ps 2 lc rgb '#d62728'
}
if (name eq 'requests') {
	set title 'Device requests per transaction'
	set datafile separator "\t"
	set style data histograms
	set style histogram rowstacked
	set style fill solid
	set boxwidth 0.8
	set yrange [0:*]
	set grid ytics
	set bmargin 4
	plot newhistogram 'stock' offset 0,-1, \
		data.'/requests' using 2:xtic(1) title 'reads' lc rgb '#1f77b4', \
		'' using 4 title 'writes' lc rgb '#ff7f0e', \
		newhistogram 'patched' offset 0,-1, \
		'' using 3:xtic(1) notitle lc rgb '#1f77b4', \
		'' using 5 notitle lc rgb '#ff7f0e'
}
if (name eq 'slots') {
	set multiplot layout 1,2 title '8 MiB of THP: which slot each page got'
	set xlabel 'page of the range'
	set ylabel 'slot, from the first'
	unset key
	set xrange [0:2048]
	set yrange [0:*]
	set xtics 512
	set ytics 512
	set grid
	set title 'stock'
	plot data.'/slots-stock' with dots lc rgb '#404040'
	set title 'patched'
	plot data.'/slots-patched' with dots lc rgb patched
	unset multiplot
}
if (name eq 'scale') {
	set multiplot layout 1,3 title 'Cost of a page: swapped out and touched again, guest instructions'
	set yrange [0:*]
	set grid ytics
	set key center right
	set style data linespoints
	array what[3] = ["size", "extents", "fill"]
	array label[3] = ["64 KiB mTHP to a file: MiB at a time", "64 KiB mTHP to a file: extents", "4 KiB pages to a partition: % full"]
	do for [i = 1:3] {
		file = data.'/scale-'.what[i]
		if (i < 3) { set logscale x } else { unset logscale x }
		set xlabel label[i]
		if (i == 1) { set xtics (8, 32, 128, 1024) }
		if (i == 2) { set xtics ('1' 1, '10' 10, '100' 100, '1000' 1000, '10k' 10000) }
		if (i == 3) { set xtics (10, 30, 60, 90) }
		set xrange [*:*]
		plot file using 1:2 lw 2 pt 7 lc rgb stock title 'stock', \
			'' using 1:3 lw 2 pt 7 lc rgb patched title 'patched'
	}
	unset multiplot
}
