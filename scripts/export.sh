#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# build/linux to patches/: one file a commit, the same bytes for the same commits, proved by
# applying them again. 0000-* (the cover letter) is written by hand and left alone.
# TREE=DIR exports another tree; OUT=DIR writes there and changes nothing else.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=series.sh
. "$top/scripts/series.sh"
[ -z "${AT-}" ] || die "AT goes with make tree; make patches exports all of build/linux"
check_variables
tree=${TREE:-$build/linux}
name=$(name_of "$tree")
out=${OUT:-$top/patches}
[ -d "$tree/.git" ] || die "no $name; make tree makes it"

need git
base=$("$top/scripts/base.sh")
lock build "make patches"

dirty=$(changes "$tree")
[ -z "$dirty" ] || die "$name has changes that are not committed (new files: git add -f):
$(sed -n 1,20p <<<"$dirty")"
at=$(state "$tree" at)
list_patches
if [ -n "$at" ] && [ "$at" -lt ${#patches[@]} ] && [ "$FORCE" = 0 ]; then
	die "$name was made with AT=$at: exporting it would remove patches $((at + 1)) to ${#patches[@]}.
'make tree' brings the whole series; FORCE=1 exports all the same"
fi
start=$(base_in "$base" "$tree")
[ -z "$(git -C "$tree" rev-list --merges "$start..HEAD")" ] || die "$name has merges, a series has none"

tmp=$(mktemp -d "$build/export.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$tmp/patches"
format_series "$tree" "$start..HEAD" "$tmp/patches"

# git am must give back each tree, author, subject and body.
patch_dir=$tmp/patches
list_patches
trace() { git -C "$1" log --reverse --date=raw --format='%T%n%an <%ae> %ad%n%B' "$2..HEAD"; }
sparse_clone "$base" "$tmp/tree"
apply_series "$tmp/tree"
trace "$tree" "$start" >"$tmp/before"
trace "$tmp/tree" "$(git -C "$base" rev-parse HEAD)" >"$tmp/after"
diff -u "$tmp/before" "$tmp/after" >&2 ||
	die "the series does not survive export and git am (- commit, + after git am); change the commit"

mkdir -p "$out"
changed=0
for p in "${patches[@]}"; do
	cmp -s "$p" "$out/${p##*/}" && continue
	say "  wrote   ${p##*/}"
	cp "$p" "$out/.new" && mv "$out/.new" "$out/${p##*/}"
	changed=$((changed + 1))
done
for p in "$top"/patches/[0-9][0-9][0-9][0-9]-*.patch; do
	case ${p##*/} in 0000-*) continue ;; esac
	if [ -f "$p" ] && [ ! -f "$tmp/patches/${p##*/}" ]; then
		say "  removed ${p##*/}"
		rm "$p"
		changed=$((changed + 1))
	fi
done

[ -z "$OUT" ] || exit 0

# What of the base the series touches. Of another base nothing is recorded.
if [ -z "$BASE" ]; then
	{
		grep -vE '^[0-9a-f]{64}  ' "$top/BASE"
		git -C "$tree" diff --name-only --no-renames --diff-filter=a "$start" HEAD | sort |
			(cd "$base" && xargs -r sha256sum)
	} >"$tmp/BASE"
	cmp -s "$tmp/BASE" "$top/BASE" || { cp "$tmp/BASE" "$top/.BASE.new" && mv "$top/.BASE.new" "$top/BASE"; }
fi

patch_dir=$top/patches
AT=
list_patches
write_state "$tree" "$(series_id "$base")" "$(git -C "$tree" rev-parse HEAD)"
say "  patches: ${#patches[@]} in all, $changed files changed"
