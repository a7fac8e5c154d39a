#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The swap selftests on arm64 with other pages, in an emulated machine with an SMMUv3: 16 and
# 64 KiB pages are without THP_SWAP. Exit status: 0 if nothing failed.
#
#   [PAGE_KIB=16] [KERNEL=stock|patched] scripts/arm64.sh

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
: "${TIMEOUT:=3600}" "${CPUS:=2}"
check_variables
one_of KERNEL stock patched
need gcc make ccache bc bison flex git gcc-aarch64-linux-gnu libc6-dev-arm64-cross rsync
[ -d "$build/linux/.git" ] || "$top/scripts/tree.sh"

name=arm64-$PAGE_KIB-$KERNEL
src=$build/linux
[ "$KERNEL" = patched ] || src=$("$top/scripts/base.sh")
obj=.obj-arm64-$PAGE_KIB
kernel=$build/kernel/$name
out=$build/results/box-$name
kmake() { kernel_make "$1" "$obj" -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- CC='ccache aarch64-linux-gnu-gcc' "${@:2}"; }

# shellcheck disable=SC2317 # called by step
make_kernel() {
	local line
	mkdir -p "$src/$obj" "$kernel"
	kmake "$src" tinyconfig
	echo "CONFIG_ARM64_${PAGE_KIB}K_PAGES=y" >"$src/$obj/.pages"
	(cd "$src" && scripts/kconfig/merge_config.sh -m -O "$obj" "$obj/.config" \
		"$top"/kconfig/{box,arm64}.config "$obj/.pages")
	kmake "$src" olddefconfig
	grep -h '^CONFIG' "$top/kconfig/arm64.config" "$src/$obj/.pages" | while read -r line; do
		grep -qx "$line" "$src/$obj/.config" || die "$line was asked for, the result differs"
	done
	kmake "$src" -j"$(nproc)" Image
	cp "$src/$obj/arch/arm64/boot/Image" "$kernel/"
	cp "$src/$obj/.config" "$kernel/config"
	echo "$name" >"$kernel/id"
}
step "kernel-$name" make_kernel

# shellcheck disable=SC2317 # called by step
make_test() {
	local ksft=$build/linux/tools/testing/selftests tmp=$build/tmp/arm64
	mkdir -p "$tmp" "$build/guest/arm64"
	kmake "$build/linux" headers
	# Without liburing, which Debian has for the machine's own architecture.
	echo >"$tmp/local_config.h"
	(cd "$ksft/mm" && aarch64-linux-gnu-gcc -static -O2 -D_GNU_SOURCE -I.. -I"$tmp" -I../../../include/uapi \
		-isystem "$build/linux/$obj/usr/include" \
		-o "$build/guest/arm64/folio_swapout" folio_swapout.c vm_util.c thp_settings.c)
	cp "$ksft/mm/test_swap.sh" "$build/guest/arm64"
}
step "selftest-arm64" make_test

export BOX_ARCH=arm64 KERNEL TIMEOUT CPUS
rm -f "$out/swap.log"
# shellcheck disable=SC2016 # for the guest's shell
KERNEL_DIR=$kernel OUT=$out step "swap-$name" "$top/box/run.sh" '
	getconf PAGESIZE
	mkfs.ext4 -q -F "$SWAPOUT_P4" && mkdir -p /mnt && mount "$SWAPOUT_P4" /mnt && cp /box/arm64/* /mnt && cd /mnt || exit 1
	export SWAP_TEST_PART=$SWAPOUT_P2 SWAP_TEST_TINY=$SWAPOUT_P1
	./test_swap.sh >/out/swap.log 2>&1; true'
grep -E '^not ok|# SKIP|^# (FAILED|PASSED|Totals)' "$out/swap.log" || true
say "log: $out/swap.log"
grep -q '^# Totals.* fail:0 ' "$out/swap.log"
