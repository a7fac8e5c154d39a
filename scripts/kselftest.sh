#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Run the kernel's own selftests, as the series has them, in the test box.
#
#   [KERNEL=stock|patched|debug] [TARGETS=mm] [TESTS='swap thp'] scripts/kselftest.sh
#
# TESTS are categories of run_vmtests.sh; none means all of them. The log goes to
# build/results/ksft-KERNEL-TESTS.log. If both stock and patched were run, what
# differs is shown. Exit status: 0 if nothing failed, 1 otherwise.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

: "${TIMEOUT:=7200}"
export TIMEOUT
check_variables
: "${TARGETS:=mm}" "${TESTS:=}"
one_of TARGETS mm
[[ $TESTS =~ ^[a-z_\ -]*$ ]] || die "TESTS=$TESTS: categories of run_vmtests.sh, such as 'swap thp'"
results=$build/results
name=${TESTS:-all}
name=${name// /+}

# shellcheck disable=SC2317 # called by step
# The selftests come from the tree, so that an edit there is an edit here.
build_selftests() {
	local src=$build/linux/tools/testing/selftests obj=$build/obj-ksft
	export CCACHE_DIR=$CACHE/ccache CCACHE_BASEDIR=$build CCACHE_NOHASHDIR=1
	mkdir -p "$obj"
	make -C "$build/linux" O="$obj" -s headers
	make -C "$src" O="$obj" -s -j"$(nproc)" TARGETS=mm CC='ccache gcc' \
		install INSTALL_PATH="$build/guest/ksft.new"
	[ -x "$build/guest/ksft.new/mm/run_vmtests.sh" ]
	rm -rf "$build/guest/ksft"
	mv "$build/guest/ksft.new" "$build/guest/ksft"
}

need gcc make ccache flex bison bc rsync libcap-dev libnuma-dev liburing-dev pkg-config
[ -d "$build/linux/.git" ] || "$top/scripts/tree.sh"
mkdir -p "$build/guest" "$results"
step "selftests" build_selftests
step "tap" gcc -O2 -Wall -Wextra -Werror -o "$build/tap" "$top/scripts/tap.c"

# Category swap makes its own swap and needs to see what happens without; others use what is on.
swap=
# shellcheck disable=SC2016 # for the guest's shell
[ "$TESTS" = swap ] || swap='mkswap "$SWAPOUT_P3" >/dev/null && swapon "$SWAPOUT_P3" &&'
# On a real file system: the tests make swap files beside them.
# shellcheck disable=SC2016 # for the guest's shell
guest=$swap'
	mkfs.ext4 -q -F "$SWAPOUT_P4" && mkdir -p /mnt && mount "$SWAPOUT_P4" /mnt &&
	cp -a /box/ksft/. /mnt && cd /mnt/mm &&
	export SWAP_TEST_PART=$SWAPOUT_P2 SWAP_TEST_TINY=$SWAPOUT_P1 &&
	{ ./run_vmtests.sh '"${TESTS:+-t \"$TESTS\"}"' >/out/ksft.log 2>&1 || true; }'
log=$results/ksft-$KERNEL-$name.log
out=$build/results/box-ksft-$KERNEL-$name
rm -f "$log"
OUT=$out step "kselftest-$KERNEL-$name" "$top/box/run.sh" "$guest"
grep -q 'SUMMARY: PASS' "$out/ksft.log" || die "run_vmtests.sh did not end; log: $out/ksft.log"
mv "$out/ksft.log" "$log"

status=0
"$build/tap" check "$log" || status=1
old=$results/ksft-stock-$name.log
new=$results/ksft-patched-$name.log
if [ -f "$old" ] && [ -f "$new" ]; then
	printf '\nstock against patched, what differs:\n'
	"$build/tap" diff "$old" "$new" "$top/box/may-differ" || true
fi
exit $status
