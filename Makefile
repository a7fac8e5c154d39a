# SPDX-License-Identifier: GPL-2.0-only
# Entry points; the work is in scripts/, box/ and bench/. GNU make.

export KERNEL IOMMU MEM CPUS ICOUNT AT BASE TIMEOUT ACCEL FORCE OUT CMD TARGETS TESTS
export MINUTES SEED FAULTS ROOT PAGE_KIB
SHELL = /bin/bash
run = @scripts/entry.sh $@

help:
	@sed -n 's/^#H \{0,1\}//p' Makefile

#H make compare                stock and patched kernel, what swapping out costs on both
#H make bench-oltp             the same with MariaDB and sysbench in the box
#H make hardware               the workloads for a real machine, build/hardware (docs/hardware.md)
#H make report                 pictures of what it measured, build/results/report
#H make check                  every test of the series and of this repository
#H make kselftest TARGETS=mm   the kernel's own mm suite in the box (TESTS=swap: one category)
#H make soak                   does swap-out lose a byte, a slot or a charge? (MINUTES=10 SEED=1;
#H                             KERNEL=debug FAULTS=1: while allocations and writes fail)
#H make coverage               which lines of the series the tests and MINUTES of soak reach
#H make configs                each patch without SWAP, THP, MEMCG, ..., for i386 and arm64, by
#H                             clang: kconfig/builds (TESTS='no-swap clang' for some of them)
#H make arm64                  the swap selftests on arm64 with PAGE_KIB=4|16|64, 16 if not said
#H
#H make tree                   build/linux: git tree of the base with the series (AT=n: first n)
#H make patches                export build/linux to patches/
#H make kernel                 build KERNEL=stock|patched|debug (AT=n: first n patches)
#H make root                   the box's root file system
#H make box CMD='...'          run one command in the box, as root
#H make shell                  log in to the box
#H make clean                  remove build/ except build/linux
#H make distclean              remove build/ and the cache
#H
#H KERNEL=patched MEM=2G CPUS=4 IOMMU=translated|strict|passthrough|none ICOUNT=0|1
#H TIMEOUT=600 (seconds, box) OUT=DIR (the box's /out) ACCEL=auto|tcg|kvm
#H BASE=DIR (another kernel tree) FORCE=1 (tree, patches, clean: see their messages)
#H SWAPOUT_CACHE=DIR (default /var/cache/swapout)

tree patches kernel root compare bench-oltp hardware report check configs coverage arm64 kselftest soak clean distclean:
	$(run)

# Not the whole recipe's status is the command's: make turns any failure into 2 and prints
# the status; box/run.sh itself returns it.
box shell:
	$(run)

.PHONY: help tree patches kernel root box shell compare bench-oltp hardware report check configs coverage arm64 kselftest soak clean distclean
.NOTPARALLEL:
