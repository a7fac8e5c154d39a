#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Style of the repository (lint.sh repository) and of the patches (patches).

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

repository() {
	local bad=0 f files
	need shellcheck
	cd "$top"
	mapfile -t files < <(git ls-files --cached --others --exclude-standard)
	for f in "${files[@]}"; do
		[ -f "$f" ] || continue
		case $f in
		COPYING | patches/* | docs/results/* | *.svg | *.png) continue ;;
		esac
		head -3 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0-only' ||
			{ echo "$f: no SPDX line"; bad=1; }
	done
	mapfile -t files < <(git ls-files --cached --others --exclude-standard |
		xargs -r grep -lE '^#!/bin/(ba)?sh' -- 2>/dev/null)
	shellcheck -x "${files[@]}" || bad=1
	echo "${#files[@]} shell files"
	# Nothing of the machine it was written on
	if git grep -nE '(^|[[:space:]=:(])/(work|root|home)/|https?://[^ ]*(debian\.org|snapshot)' \
		-- . ':!patches' ':!COPYING' ':!scripts/lint.sh'; then
		echo "a path or a host of one machine"
		bad=1
	fi
	return $bad
}

patches() {
	local bad=0 p ignore
	need perl python3-ply python3-git
	cd "$build/linux"
	for p in "$top"/patches/0[0-9]*.patch; do
		case $p in */0000-*) continue ;; esac
		# TRACE_EVENT() has a style of its own.
		ignore=UNKNOWN_COMMIT_ID,FILE_PATH_CHANGES
		! grep -q '^+++ b/include/trace/' "$p" || ignore+=,PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE
		# An imported tree has no history to look commits up in. Signing is
		# for whoever sends the series.
		PATH=/usr/bin:$PATH perl scripts/checkpatch.pl --strict --no-signoff --no-summary -q \
			--ignore "$ignore" "$p" || bad=1
		! grep -nE '^(Signed-off|Reviewed|Acked|Tested|Suggested)-by:' "$p" || bad=1
	done
	rm -f .checkpatch-camelcase.git.
	return $bad
}

case ${1-} in
repository | patches) "$1" ;;
*) die "usage: lint.sh repository|patches" ;;
esac
