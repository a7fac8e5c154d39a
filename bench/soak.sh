#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# bench/soak.c in the box for MINUTES: is a byte, a slot or a charge lost in swap-out? With
# FAULTS=1 (KERNEL=debug) allocations and swap writes fail. Exit status: 0 if nothing was lost.
#
#   [MINUTES=10] [SEED=1] [FAULTS=1] [KERNEL=debug|patched|stock] [CPUS=4] bench/soak.sh

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
given=${TIMEOUT-}
check_variables
# On top: making the swap files, the end of the last round, on a debug kernel kmemleak's scans.
TIMEOUT=${given:-$((10#$MINUTES * 60 + 1200))}
[ "$FAULTS" = 0 ] || [ "$KERNEL" = debug ] ||
	die "FAULTS=1 needs KERNEL=debug: only that kernel injects faults"
need gcc libc6-dev liburing-dev make
step bench make -C "$top/bench"

out=$build/results/soak-$KERNEL
flags=(--minutes "$MINUTES" --seed "$SEED")
[ "$FAULTS" = 0 ] || flags+=(--faults)
export KERNEL CPUS TIMEOUT
OUT=$out "$top/box/run.sh" /box/bench/soak "${flags[@]}"
