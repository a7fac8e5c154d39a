#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# scripts/kernel.sh [stock|patched|debug]: a bootable kernel in build/kernel/NAME (bzImage,
# config, id). stock is the base; patched is build/linux as it stands, or with AT=n the
# first n patches, as NAME-atN; debug is patched with kconfig/debug.config.
# A kernel of the same source, configuration and compiler is built once for all clones.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
KERNEL=${1:-${KERNEL:-patched}}
check_variables

recipe=1 # counts up when what follows would build another kernel from the same input
need make gcc bc bison flex libelf-dev libssl-dev lz4 ccache git cpio

base=$("$top/scripts/base.sh")
name=$KERNEL
case $KERNEL in
stock) src=$base ;;
*)
	src=$build/linux
	if [ -n "$AT" ]; then
		name=$KERNEL-at$AT
		src=$build/linux-at
		# Ours alone: nobody works in it.
		TREE=$src FORCE=1 "$top/scripts/tree.sh"
	elif ! "$top/scripts/tree.sh" 2>"$build/.tree-note"; then
		if [ ! -d "$src/.git" ] || ! grep -q 'has work that is not in patches/' "$build/.tree-note"; then
			cat "$build/.tree-note" >&2
			exit 1
		fi
		say "  build/linux has work that is not in patches/: built as it is"
	fi
	;;
esac

fragments=("$top/kconfig/box.config")
if [ "$KERNEL" = debug ]; then
	fragments+=("$top/kconfig/debug.config")
	! grep -q SWAP_BATCH_KUNIT_TEST "$src/mm/Kconfig" || fragments+=("$top/kconfig/kunit.config")
fi

# The tree that is there, with changes not committed, and without what no kernel is made of.
tree_id() {
	local index
	index=$(mktemp)
	cp "$src/.git/index" "$index"
	GIT_INDEX_FILE=$index git -C "$src" add -u .
	GIT_INDEX_FILE=$index add_untracked "$src"
	GIT_INDEX_FILE=$index git -C "$src" rm -q -r --cached Documentation tools/testing
	GIT_INDEX_FILE=$index git -C "$src" write-tree
	rm -f "$index"
}
if [ "$KERNEL" = stock ]; then
	id=$(git -C "$src" rev-parse 'HEAD^{tree}')
else
	id=$(tree_id)
fi
how=$({ cat "${fragments[@]}" && gcc --version && ld --version && echo "$recipe"; } | sha256sum | cut -c1-12)
store=$CACHE/kernels/${id:0:16}-$how

publish() {
	mkdir -p "$build/kernel"
	# One rename: a box that is starting sees the old kernel or the new one.
	[ -L "$build/kernel/$name" ] || rm -rf "${build:?}/kernel/$name"
	ln -sfn "$store" "$build/kernel/.$name.$$"
	mv -T "$build/kernel/.$name.$$" "$build/kernel/$name"
}
if [ -f "$store/bzImage" ]; then
	publish
	say "  kernel $name: built before (${store##*/})"
	exit
fi

[ "$KERNEL" != stock ] || lock "$base/.git/obj" "building the stock kernel" wait
lock build "building kernel $name"
if [ -f "$store/bzImage" ]; then
	publish
	exit
fi
mkdir -p "$CACHE/kernels"
need_room "$src" 2500 "the objects of kernel $name"
need_room "$CACHE" 1500 "compiler cache and kernels"

# Inside the source tree, for then kbuild's paths are relative: the same objects, and hits
# in the compiler cache, wherever a tree is. The kernel's .gitignore leaves it out.
obj=.obj-$KERNEL
mkdir -p "$src/$obj"
ln -sfn "$src/$obj" "$build/obj-$name"

kmake() { kernel_make "$src" "$obj" "$@"; }

configure() {
	local stamp out=$src/$obj
	stamp=$(cat "${fragments[@]}" | sha256sum)
	if [ "$(cat "$out/.swapout-config" 2>/dev/null)" != "$stamp" ]; then
		rm -f "$out/.swapout-config"
		kmake -s tinyconfig
		(cd "$src" && scripts/kconfig/merge_config.sh -m -O "$obj" "$obj/.config" "${fragments[@]}")
		echo "$stamp" >"$out/.swapout-config"
	fi
	kmake -s olddefconfig
	# Every line that was asked for, the last one where two fragments differ.
	awk -v config="$out/.config" '
		function parse(line) {
			if (line ~ /^# CONFIG_[A-Za-z0-9_]+ is not set$/) { key = substr(line, 3); sub(/ .*/, "", key); value = "n" }
			else if (line ~ /^CONFIG_[A-Za-z0-9_]+=/) { key = value = line; sub(/=.*/, "", key); sub(/^[^=]*=/, "", value) }
			else return 0
			return 1
		}
		BEGIN { while ((getline line < config) > 0) if (parse(line)) have[key] = value }
		parse($0) { want[key] = value }
		END {
			for (k in want) {
				h = (k in have) ? have[k] : "n"
				if (h != want[k]) { print k "=" want[k] " was asked for, the result is " h; bad = 1 }
			}
			exit bad
		}' "${fragments[@]}" ||
		die "the configuration lost lines of ${fragments[*]##*/} (see above)"
}

compile() {
	configure
	kmake -s -j"$(nproc)" bzImage
}
step "kernel-$name" compile

if [ "$KERNEL" != stock ] && [ "$(tree_id)" != "$id" ]; then
	die "$src changed while kernel $name was built; run again"
fi
new=$(mktemp -d "$CACHE/kernels/tmp.XXXXXX")
cp "$src/$obj/arch/x86/boot/bzImage" "$new/bzImage"
cp "$src/$obj/.config" "$new/config"
echo "${id:0:16}-$how" >"$new/id"
chmod 755 "$new"
rm -rf "$store"
mv "$new" "$store"
publish
