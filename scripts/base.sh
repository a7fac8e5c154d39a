#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The base of the series as a git repository of one commit, made when it isn't there yet.
# Prints its directory. BASE=DIR: another tree, a git clone or plain, as build/base.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
check_variables
need git xz-utils

field() { sed -n "s/^$1: //p" "$top/BASE"; }
package=$(field package)
version=$(field package-version)
suite=$(field suite)
tarball=$(field tarball)
sha=$(field tarball-sha256)

# The same commit on every machine: nothing of it comes from here.
import() { # TREE MESSAGE
	local g=(git -C "$1" -c core.autocrlf=false -c core.fsync=none -c gc.auto=0
		-c user.name=base -c user.email=base@localhost -c commit.gpgSign=false)
	rm -rf "$1/.git"
	git init -q --template= -b base "$1"
	# A threshold of 1: every blob goes straight into one pack instead of 90,000 files.
	"${g[@]}" -c core.bigFileThreshold=1 -c core.compression=1 add -A -f .
	GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' \
		"${g[@]}" commit -q --no-verify -m "$2"
	git -C "$1" rev-parse HEAD
}

fetch() {
	local apt=$CACHE/apt deb uri o
	deb=$apt/archives/${package}_${version}_all.deb
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/none"
	if [ ! -f "$deb" ]; then
		# The suite where the machine has it, else on the mirror it takes its own suite from.
		uri=$(mirror "$suite" any)
		# A state of apt's own rather than a line in /etc/apt: the machine stays as it is, and
		# its next upgrade can't take anything from this suite. The pin says so once more.
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" \
			>"$apt/backports.list"
		printf 'Package: *\nPin: release n=%s\nPin-Priority: 1\n' "$suite" >"$apt/preferences"
		o=(-q -o "Dir::Etc::sourcelist=$apt/backports.list" -o Dir::Etc::sourceparts=-
			-o "Dir::Etc::preferences=$apt/preferences" -o "Dir::Etc::preferencesparts=$apt/none"
			-o "Dir::State::lists=$apt/lists" -o "Dir::Cache::archives=$apt/archives"
			-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root
			-o Acquire::Languages=none)
		apt-get "${o[@]}" update
		# In a directory of its own until it is whole.
		rm -rf "$apt/new" && mkdir "$apt/new"
		(cd "$apt/new" && apt-get "${o[@]}" download "$package=$version") ||
			die "$uri $suite does not offer $package $version"
		mv "$apt"/new/*.deb "$deb"
		rmdir "$apt/new"
	fi
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./$tarball" >"$tmp/tarball"
	if ! echo "$sha  $tmp/tarball" | sha256sum -c; then
		rm -f "$deb"
		die "$tarball in $package $version has another sha256 than BASE says: $(sha256sum <"$tmp/tarball")"
	fi
	mkdir "$tmp/tree"
	xz -T0 -dc "$tmp/tarball" | tar -x --strip-components=1 -C "$tmp/tree"
	import "$tmp/tree" "Linux $(field version) ($package $version)"
}

copy() {
	if [ -n "$head" ]; then
		git clone -q --shared --no-tags "$BASE" "$tmp/tree"
		git -C "$tmp/tree" checkout -q --detach "$head"
	else
		mkdir "$tmp/tree"
		cp -a "$BASE/." "$tmp/tree/"
		# Somebody built in there: out of the way of builds outside.
		make -s -C "$tmp/tree" mrproper
		import "$tmp/tree" "Linux, a tree of unknown origin"
	fi
}

# Does another tree hold what the series needs?
inspect() { # TREE
	local v p s missing=() changed=() path sum
	v=$(sed -n 's/^VERSION = //p' "$1/Makefile")
	p=$(sed -n 's/^PATCHLEVEL = //p' "$1/Makefile")
	s=$(sed -n 's/^SUBLEVEL = //p' "$1/Makefile")
	[[ $v =~ ^[0-9]+$ && $p =~ ^[0-9]+$ ]] || die "BASE=$BASE: its Makefile names no version"
	((v > 7 || v == 7 && p >= 3)) ||
		die "BASE=$BASE is Linux $v.$p.$s; the series needs 7.3 or later (it was made for $(field version))"
	while read -r sum path; do
		if [ ! -f "$1/$path" ]; then
			missing+=("$path")
		elif [ "$(sha256sum <"$1/$path" | cut -d' ' -f1)" != "$sum" ]; then
			changed+=("$path")
		fi
	done < <(grep -E '^[0-9a-f]{64}  ' "$top/BASE")
	[ ${#missing[@]} -eq 0 ] ||
		die "BASE=$BASE does not hold what the series changes; missing: ${missing[*]}"
	[ ${#changed[@]} -eq 0 ] ||
		say "base: Linux $v.$p.$s, differs from $(field version) in: ${changed[*]}; git am -3 will have to merge"
}

tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

if [ -z "$BASE" ]; then
	dir=$CACHE/base-${sha:0:12}
	if [ ! -d "$dir" ]; then
		need_root "fills the cache $CACHE"
		lock "$CACHE/base" "fetching the base" wait
	fi
	if [ ! -d "$dir" ]; then
		need debian-archive-keyring
		need_room "$CACHE" 6000 "the base tree and its git repository"
		rm -rf "$CACHE"/base.tmp.*
		tmp=$(mktemp -d "$CACHE/base.tmp.XXXXXX")
		step base fetch
		mv "$tmp/tree" "$dir"
	fi
	echo "$dir"
	exit
fi

BASE=$(cd "$BASE" && pwd -P)
dir=$build/base
head=
from="plain $BASE"
if [ "$(git -C "$BASE" rev-parse --show-toplevel 2>/dev/null)" = "$BASE" ]; then
	head=$(git -C "$BASE" rev-parse -q --verify 'HEAD^{commit}') || die "BASE=$BASE has no commit"
	from="git $head"
	[ -z "$(git -C "$BASE" status --porcelain -uno)" ] ||
		say "base: BASE=$BASE has changes that are not committed; they are left out"
fi
inspect "$BASE"
if [ "$(cat "$dir/.git/swapout-from" 2>/dev/null)" != "$from" ]; then
	lock build "fetching the base"
	need_room "$build" 4000 "a copy of BASE=$BASE"
	rm -rf "$build"/base.tmp.*
	tmp=$(mktemp -d "$build/base.tmp.XXXXXX")
	step base copy
	echo "$from" >"$tmp/tree/.git/swapout-from"
	rm -rf "$dir"
	mv "$tmp/tree" "$dir"
fi
echo "$dir"
