#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the files of mm/ that the series touches after each patch, and all of mm/ after the
# last: no patch may bring an error or a warning that the base does not have, or bisection
# would stop there. Then sparse on what was touched.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
check_variables
need gcc make ccache bc bison flex libelf-dev libssl-dev sparse git

tree=$build/linux-at
obj=$tree/.obj-each
out=$logs/each.out
"$top/scripts/kernel.sh" patched
mkdir -p "$logs"
list_patches

kmake() { kernel_make "$tree" .obj-each -s -j"$(nproc)" "$@"; }

# sparse NAME: what it says, without line numbers, to sparse.NAME. 0.6.4 fails the kernel's
# check of the checker; make C=1 then checks nothing and succeeds. Pass what it does not
# know, and look for the sign.
# shellcheck disable=SC2317 # called by step
sparse() {
	kmake C=2 CHECK='sparse -D__typeof_unqual__=__typeof__ -DNOTRACE' "${objects[@]}" >"$out" 2>&1 ||
		{ cat "$out"; return 1; }
	if grep 'not up to date' "$out"; then return 1; fi
	sed -n -E '/warning:|error:/s/:[0-9]+:[0-9]+:/:/p' "$out" | sort >"$logs/sparse.$1"
}

# shellcheck disable=SC2317 # called by step
each() {
	local n warned known=0
	for ((n = 0; n <= ${#patches[@]}; n++)); do
		if [ $n = 0 ]; then
			# All of the series first, to have a tree; then back to its base.
			TREE=$tree FORCE=1 AT='' "$top/scripts/tree.sh"
			mkdir -p "$obj"
			cp "$build/kernel/patched/config" "$obj/.config"
			mapfile -t commits < <(git -C "$tree" rev-list --reverse HEAD | tail -n $((${#patches[@]} + 1)))
			last=${commits[-1]}
			mapfile -t objects < <(git -C "$tree" diff --name-only "${commits[0]}" "$last" |
				sed -n 's#^\(mm/[a-z_]*\)\.c$#\1.o#p')
		fi
		git -C "$tree" checkout -q "${commits[n]}"
		kmake olddefconfig
		[ $n != ${#patches[@]} ] || objects+=(mm/)
		kmake prepare "${objects[@]}" >"$out" 2>&1 || { cat "$out"; echo "does not build: ${patches[n - 1]}"; return 1; }
		warned=$(grep -c 'warning:' "$out" || true)
		if [ $n = 0 ]; then
			known=$warned
			sparse base
		fi
		echo "patch $n: $warned warnings; $(git -C "$tree" log -1 --format=%s)"
		if ((warned > known)); then
			cat "$out"
			return 1
		fi
	done
	unset 'objects[-1]'
	sparse last
	if comm -13 "$logs/sparse.base" "$logs/sparse.last" | grep .; then return 1; fi
	echo "sparse: nothing new in ${objects[*]}"
}
step "each-patch" each
git -C "$tree" checkout -q series
