#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the files of mm/ that the series touches after each patch, and all of mm/ after the
# last: no patch may bring an error or a warning that the base does not have, or bisection
# would stop there.
#
#   scripts/bisect.sh            the box's configuration, and sparse on what was touched
#   scripts/bisect.sh all        each line of kconfig/builds, with W=1
#   scripts/bisect.sh NAME...    those lines

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
check_variables
names=("$@")
[ "${1-}" != all ] || mapfile -t names < <(sed -n 's/^\([a-z][^[:space:]]*\).*/\1/p' "$top/kconfig/builds")
for name in "${names[@]}"; do
	grep -q "^${name}[[:space:]]" "$top/kconfig/builds" || die "kconfig/builds has no '$name'"
done
need gcc make ccache bc bison flex libelf-dev libssl-dev sparse git

tree=$build/linux-at
out=$logs/each.out
arguments=()
kmake() { kernel_make "$tree" "$obj" -s -j"$(nproc)" "${arguments[@]}" "$@"; }

# warnings FILE: those in a compiler's output, without line numbers.
warnings() { sed -n -E '/warning:|error:/s/:[0-9]+(:[0-9]+)?:/:/p' "$1" | sort -u; }

# nothing_new NAME: what NAME.last has and NAME.base does not.
nothing_new() { ! comm -13 "$logs/$1.base" "$logs/$1.last" | grep .; }

# sparse base|last. 0.6.4 fails the kernel's check of the checker; make C=1 then checks
# nothing and succeeds. Pass what it does not know, and look for the sign.
# shellcheck disable=SC2317 # called by step
sparse() {
	kmake C=2 CHECK='sparse -D__typeof_unqual__=__typeof__ -DNOTRACE' "${objects[@]}" >"$out" 2>&1 ||
		{ cat "$out"; return 1; }
	if grep 'not up to date' "$out"; then return 1; fi
	warnings "$out" >"$logs/sparse.$1"
}

configure() {
	local setting
	mkdir -p "$tree/$obj"
	if [ -z "$name" ]; then
		cp "$build/kernel/patched/config" "$tree/$obj/.config"
	else
		kmake tinyconfig
		for setting in "${settings[@]}"; do echo "CONFIG_$setting"; done >"$tree/$obj/.settings"
		(cd "$tree" && scripts/kconfig/merge_config.sh -m -O "$obj" "$obj/.config" \
			"$top/kconfig/box.config" "$obj/.settings") >/dev/null
	fi
	kmake olddefconfig
	for setting in "${settings[@]}"; do
		# "n" may also mean that the architecture has no such thing.
		case $setting in
		*=n) ! grep -q "^CONFIG_${setting%=n}=" "$tree/$obj/.config" ;;
		*) grep -qx "CONFIG_$setting" "$tree/$obj/.config" ;;
		esac || die "CONFIG_$setting was asked for, the result differs"
	done
}

# shellcheck disable=SC2317 # called by step
each() {
	local n
	git -C "$tree" checkout -q "${commits[0]}"
	configure
	mapfile -t objects < <(git -C "$tree" diff --name-only "${commits[0]}" "${commits[-1]}" |
		sed -n 's#^\(mm/[a-z_]*\)\.c$#\1.o#p')
	if [ -n "$name" ]; then
		# Those that this configuration has.
		kmake prepare mm/ >"$out" 2>&1 || { cat "$out"; echo "the base does not build"; return 1; }
		mapfile -t objects < <(cd "$tree/$obj" && ls "${objects[@]}" 2>/dev/null)
		(cd "$tree/$obj" && rm -f "${objects[@]}")
	fi
	for ((n = 0; n < ${#commits[@]}; n++)); do
		git -C "$tree" checkout -q "${commits[n]}"
		kmake olddefconfig
		kmake prepare "${objects[@]}" >"$out" 2>&1 || { cat "$out"; echo "does not build: ${patches[n - 1]}"; return 1; }
		warnings "$out" >"$logs/each.last"
		# What is not built again does not warn again.
		[ $n != 0 ] || cp "$logs/each.last" "$logs/each.base"
		[ $n != 0 ] || [ -n "$name" ] || sparse base
		echo "patch $n: $(wc -l <"$logs/each.last") warnings; $(git -C "$tree" log -1 --format=%s)"
		nothing_new each || { cat "$out"; return 1; }
	done
	kmake mm/ >"$out" 2>&1 || { cat "$out"; return 1; }
	if [ -z "$name" ]; then
		sparse last
		nothing_new sparse || return 1
		echo "sparse: nothing new in ${objects[*]}"
	fi
}

"$top/scripts/kernel.sh" patched
mkdir -p "$logs"
list_patches
# All of the series first, to have a tree; its commits, the base before them.
TREE=$tree FORCE=1 AT='' "$top/scripts/tree.sh"
mapfile -t commits < <(git -C "$tree" rev-list --reverse HEAD | tail -n $((${#patches[@]} + 1)))

obj=.obj-each name='' settings=()
[ ${#names[@]} != 0 ] || step "each-patch" each
for name in "${names[@]}"; do
	read -r _ arch compiler line < <(grep "^${name}[[:space:]]" "$top/kconfig/builds")
	read -ra settings <<<"$line"
	obj=.obj-each-$name
	arguments=(W=1 ARCH="$arch" CC="ccache $compiler")
	case $compiler in
	clang-*) need "$compiler" "lld-${compiler#clang-}" "llvm-${compiler#clang-}"; arguments+=(LLVM="-${compiler#clang-}") ;;
	*-gcc) need "gcc-${compiler%-gcc}"; arguments+=(CROSS_COMPILE="${compiler%gcc}") ;;
	esac
	step "each-patch-$name" each
	rm -rf "${tree:?}/$obj"
done
git -C "$tree" checkout -q series
