# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # top, build come from lib.sh
# Sourced: what tree, export and check share about the series and the trees made of it.

patch_dir=$top/patches

# list_patches [N]: patches=() in order, without the cover letter; the first N.
list_patches() {
	local p
	patches=()
	for p in "$patch_dir"/[0-9][0-9][0-9][0-9]-*.patch; do
		case ${p##*/} in 0000-*) continue ;; esac
		[ -f "$p" ] || continue
		[ -z "${1-}" ] || [ ${#patches[@]} -lt "$1" ] || break
		patches+=("$p")
	done
}

# One id for a base and patches on it.
series_id() { # BASE
	{
		git -C "$1" rev-parse 'HEAD^{commit}'
		[ ${#patches[@]} -eq 0 ] || cat "${patches[@]}"
	} | sha256sum | cut -d' ' -f1
}

name_of() { echo "${1#"$top"/}"; }

# The state: which series a tree was made from and the commit that it gave.
state() { git config -f "$1/.git/swapout" "series.$2" 2>/dev/null || true; } # TREE KEY
write_state() { # TREE ID HEAD
	printf '[series]\n\tid = %s\n\thead = %s\n\tat = %s\n' "$2" "$3" "$AT" >"$1/.git/swapout.new"
	mv "$1/.git/swapout.new" "$1/.git/swapout"
}

# The package's .gitignore ends in "/*": what git calls untracked is nothing. This is what
# it would call so with the kernel's own patterns.
untracked() {
	git -C "$1" ls-files --others --exclude='!/*' --exclude='/.*' --exclude='/debian' \
		--exclude-per-directory=.gitignore
}

add_untracked() { untracked "$1" | xargs -rd '\n' git -C "$1" add -f --; }

changes() {
	git -C "$1" status --short --untracked-files=no
	untracked "$1" | sed 's/^/?? /'
	if [ -d "$1/.git/rebase-apply" ] || [ -d "$1/.git/rebase-merge" ]; then
		echo "a git am or rebase that has not ended"
	fi
}

is_dirty() { [ -n "$(changes "$1")" ]; }

# Nothing in TREE but what patches/ holds, or held when the tree was made of it.
is_saved() {
	[ "$(git -C "$1" rev-parse HEAD)" = "$(state "$1" head)" ] && ! is_dirty "$1"
}

# The commit in TREE that the series starts from: the base, by commit or by content.
base_in() { # BASE TREE
	local c t
	c=$(git -C "$1" rev-parse HEAD)
	if git -C "$2" merge-base --is-ancestor "$c" HEAD 2>/dev/null; then
		echo "$c"
		return
	fi
	t=$(git -C "$1" rev-parse 'HEAD^{tree}')
	c=$(git -C "$2" log --first-parent -n 200 --format='%H %T' | awk -v t="$t" '$2 == t { print $1; exit }')
	[ -n "$c" ] || die "$(name_of "$2") does not start from the base in $1"
	echo "$c"
}

# Formatted so that an unchanged commit gives unchanged bytes, whatever git's
# configuration says.
format_series() { # TREE RANGE OUTDIR
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null git -C "$1" \
		-c diff.algorithm=myers -c diff.noprefix=false -c diff.mnemonicPrefix=false \
		-c diff.context=3 -c diff.renames=true -c core.quotePath=true \
		-c format.encodeEmailHeaders=true \
		format-patch -q --full-index --zero-commit -N --no-signature --no-cover-letter \
		-O/dev/null --no-thread --no-attach --no-notes --no-base --suffix=.patch \
		--filename-max-length=64 -o "$3" "$2"
}

# What TREE has that patches/ has not, one line each; empty when there's nothing.
unsaved() { # BASE TREE
	local b f d p
	changes "$2" | sed -n 1,20p
	b=$(base_in "$1" "$2")
	d=$(mktemp -d)
	format_series "$2" "$b..HEAD" "$d"
	list_patches
	for f in "$d"/*.patch; do
		[ -f "$f" ] || continue
		for p in "${patches[@]}"; do
			cmp -s "$f" "$p" && continue 2
		done
		echo "commit: $(sed -n 's/^Subject: \[PATCH\] //p' "$f" | head -n 1)"
	done
	rm -rf "$d"
	list_patches "$AT"
}

# A clone of the base with only the files checked out that the patches touch: seconds
# instead of minutes. git sparse-checkout disable makes it whole.
sparse_clone() { # BASE DIR
	git clone -q --shared --no-checkout --no-tags "$1" "$2"
	# Blobs of the package's base, so that am -3 finds them on other bases as well.
	local o
	for o in "$CACHE"/base-*/.git/objects; do
		[ ! -d "$o" ] || [ "$o" = "$1/.git/objects" ] || echo "$o" >>"$2/.git/objects/info/alternates"
	done
	git -C "$2" config core.sparseCheckout true
	git -C "$2" config core.sparseCheckoutCone false
	mkdir -p "$2/.git/info"
	{
		echo /Makefile
		[ ${#patches[@]} -eq 0 ] || sed -nE 's,^diff --git a/(\S+) b/(\S+)$,/\1\n/\2,p' "${patches[@]}"
	} | sort -u >"$2/.git/info/sparse-checkout"
	git -C "$2" checkout -q --detach HEAD
}

# As whoever is configured; a machine without anybody gets a name that says so.
git_am() { # TREE ARGUMENTS...
	local who=() t=$1
	shift
	git -C "$t" config user.email >/dev/null 2>&1 || who=(-c user.name=series -c user.email=series@localhost)
	GIT_TERMINAL_PROMPT=0 GIT_EDITOR=: git -C "$t" -c advice.mergeConflict=false -c am.threeWay=false \
		-c commit.gpgSign=false -c core.hooksPath=/dev/null -c core.autocrlf=false \
		-c rerere.enabled=false "${who[@]}" am "$@"
}

# How many of the first patches another base has already: those that can be taken back.
there_already() { # TREE
	local i k index=$1/.git/index.reverse
	for ((k = ${#patches[@]}; k > 0; k--)); do
		cp "$1/.git/index" "$index"
		for ((i = k; i > 0; i--)); do
			GIT_INDEX_FILE=$index git -C "$1" apply --cached --reverse "${patches[i - 1]}" 2>/dev/null || continue 2
		done
		break
	done
	rm -f "$index"
	echo "$k"
}

# patches=() by git am onto TREE, with fixed dates: the same hashes each time.
apply_series() { # TREE
	local p out skip
	skip=$(there_already "$1")
	for p in "${patches[@]}"; do
		if ((skip-- > 0)); then
			say "  ${p##*/}: skipped, the base has it already"
			continue
		fi
		if out=$(git_am "$1" -q --committer-date-is-author-date --keep-non-patch "$p" 2>&1); then
			continue
		fi
		git_am "$1" --abort 2>/dev/null || true
		if out=$(git_am "$1" -q -3 --committer-date-is-author-date --keep-non-patch "$p" 2>&1); then
			say "  ${p##*/}: applied by three-way merge"
			continue
		fi
		git_am "$1" --abort 2>/dev/null || true
		explain "$1" "$p" "$out"
	done
}

# explain TREE PATCH GIT-AM'S-OUTPUT: which file and hunk of it, then the end.
explain() {
	local why
	why=$({ git -C "$1" apply --verbose --reject "$2" 2>&1 || true; } | awk -v patch="$2" '
		/^Checking patch / { file = $3; sub(/\.\.\.$/, "", file) }
		/^error: .*: (No such file|does not exist|already exists)/ { sub(/^error: /, ""); print "  file " $0 }
		/^Applying patch .* with/ { file = $3 }
		/^Rejected hunk #/ {
			n = $3; gsub(/[#.]/, "", n)
			print "  file " file ", hunk " n ": " hunk(file, n)
		}
		function hunk(f, n,    line, here, count, found) {
			while ((getline line < patch) > 0) {
				if (line ~ /^diff --git /) here = (line == "diff --git a/" f " b/" f)
				if (here && line ~ /^@@ / && ++count == n) { found = line; break }
			}
			close(patch)
			return found
		}')
	git -C "$1" reset -q --hard
	die "patch ${2##*/} does not apply:
${why:-$3}"
}
