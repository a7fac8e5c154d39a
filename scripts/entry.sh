#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What make's targets call: variables are looked at before any work, and of the targets
# that change build/ only one runs at a time.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
target=$1
given_cpus=${CPUS-}
check_variables

hand_over() {
	[ -x "$top/$1" ] || die "make $target needs $1, which is not there"
	cd "$top"
	exec "./$1" "${@:2}"
}

case $target in
report) hand_over bench/report.sh ;;
box)
	[ -n "${CMD-}" ] || die "CMD is empty; make box CMD='uname -a'"
	# The kernel of what is there now; a look, when nothing has changed.
	[ -n "${KERNEL_DIR-}" ] || "$top/scripts/kernel.sh" "$KERNEL"
	hand_over box/run.sh "$CMD"
	;;
shell)
	[ -n "${KERNEL_DIR-}" ] || "$top/scripts/kernel.sh" "$KERNEL"
	hand_over box/shell.sh
	;;
root) hand_over box/root.sh ;;
esac

lock build "make $target"
case $target in
tree) hand_over scripts/tree.sh ;;
patches) hand_over scripts/export.sh ;;
kernel) hand_over scripts/kernel.sh "$KERNEL" ;;
compare) hand_over bench/compare.sh ;;
bench-oltp)
	# Two CPUs: requests count, not instructions.
	[ "$ROOT" != plain ] || ROOT=mariadb
	export ROOT WORKLOADS=${WORKLOADS:-mariadb} CPUS=${given_cpus:-2}
	hand_over bench/compare.sh
	;;
check) hand_over scripts/check.sh ;;
arm64) hand_over scripts/arm64.sh ;;
coverage) hand_over scripts/coverage.sh ;;
configs)
	read -ra names <<<"${TESTS:-all}"
	hand_over scripts/bisect.sh "${names[@]}"
	;;
kselftest) hand_over scripts/kselftest.sh ;;
hardware)
	need gcc libc6-dev liburing-dev make
	step bench make -C "$top/bench" kit KIT="$build/hardware"
	say "  build/hardware: copy it to the machine, see docs/hardware.md"
	;;
soak)
	[ -n "${KERNEL_DIR-}" ] || "$top/scripts/kernel.sh" "$KERNEL"
	hand_over bench/soak.sh
	;;
clean)
	# build/linux stays, for the work in it, and so does what the cache holds.
	rm -rf "$build"/linux/.obj-*
	find "$build" -mindepth 1 -maxdepth 1 ! -name linux ! -name '.lock-build' -exec rm -rf {} +
	;;
distclean)
	# shellcheck source=series.sh
	. "$top/scripts/series.sh"
	if [ -d "$build/linux/.git" ] && ! is_saved "$build/linux" && [ "$FORCE" = 0 ]; then
		base=$CACHE/base-$(sed -n 's/^tarball-sha256: \(.\{12\}\).*/\1/p' "$top/BASE")
		[ -d "$base" ] || die "build/linux may hold work and the base to compare with is gone; FORCE=1 removes it"
		why=$(unsaved "$base" "$build/linux")
		[ -z "$why" ] || die "build/linux has work that is not in patches/:
$why
'make patches' exports commits; FORCE=1 removes all of it"
	fi
	# Only what these scripts put there: the cache may be a directory of somebody's.
	rm -rf "$CACHE"/{base,root}-* "$CACHE"/{base,root}.tmp.* "$CACHE"/{kernels,ccache,apt} "$CACHE"/kvm-*
	rmdir "$CACHE" 2>/dev/null || true
	rm -rf "$build"
	;;
*) die "unknown target $target" ;;
esac
