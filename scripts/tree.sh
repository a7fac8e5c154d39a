#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# build/linux: a git tree of the base with the series applied by git am, or its first AT
# patches. Work in it that is not in patches/ is never lost: refused, or with FORCE=1 kept
# under refs/heads/backup-*. With TREE=DIR another directory than build/linux.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
check_variables
tree=${TREE:-$build/linux}

need git
base=$("$top/scripts/base.sh")
list_patches "$AT"
want=$(series_id "$base")

if [ -d "$tree/.git" ]; then
	if [ "$(state "$tree" id)" = "$want" ] && is_saved "$tree"; then
		say "  $(name_of "$tree") is up to date: ${#patches[@]} patches on $(git -C "$base" log -1 --format=%s)"
		exit
	fi
	if ! is_saved "$tree" && [ "$FORCE" = 0 ]; then
		why=$(unsaved "$base" "$tree")
		[ -z "$why" ] || die "$(name_of "$tree") has work that is not in patches/:
$why
'make patches' exports commits; FORCE=1 moves all of it to a branch backup-* and goes on"
	fi
elif [ -e "$tree" ]; then
	die "$(name_of "$tree") is there and is no git tree; move it away"
fi

lock build "make tree"
[ -d "$tree/.git" ] || need_room "$build" 3000 "a kernel tree"
tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
rm -rf "$build"/tree.tmp.*
tmp=$(mktemp -d "$build/tree.tmp.XXXXXX")

sparse_clone "$base" "$tmp/tree"
apply_series "$tmp/tree"
new=$(git -C "$tmp/tree" rev-parse HEAD)

if [ -d "$tree/.git" ]; then
	git=(git -C "$tree" -c advice.detachedHead=false)
	if ! is_saved "$tree"; then
		stamp=$(date +%Y%m%d-%H%M%S)
		"${git[@]}" branch "backup-$stamp" HEAD
		say "  commits kept as branch backup-$stamp"
		add_untracked "$tree"
		dirty=$("${git[@]}" stash create)
		if [ -n "$dirty" ]; then
			"${git[@]}" branch "backup-$stamp-changes" "$dirty"
			say "  uncommitted changes kept as branch backup-$stamp-changes"
			"${git[@]}" reset -q --hard
		fi
	fi
	"${git[@]}" fetch -q "$tmp/tree" HEAD
	"${git[@]}" checkout -q -B series "$new"
	write_state "$tree" "$want" "$new"
else
	fill() { git -C "$tmp/tree" sparse-checkout disable; }
	step tree fill
	git -C "$tmp/tree" checkout -q -B series "$new"
	write_state "$tmp/tree" "$want" "$new"
	mkdir -p "$(dirname "$tree")"
	mv "$tmp/tree" "$tree"
fi
say "  $(name_of "$tree"): ${#patches[@]} patches on $(git -C "$base" log -1 --format=%s)"
