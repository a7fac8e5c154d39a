# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
# Sourced by every script: messages, steps with a log, locks, packages, variables.

set -eEuo pipefail
shopt -s inherit_errexit

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${SWAPOUT_CACHE:-/var/cache/swapout}
build=$top/build
logs=$build/log
export LC_ALL=C

say() { printf '%s\n' "$*" >&2; }

# DIE_STATUS: what a script's own failure exits with, where 1 could be a command's.
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit "${DIE_STATUS:-1}"
}

elapsed() { printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60)); }

# Work in the foreground, clock in the background: ctrl-C then reaches the work.
ticker() {
	local start=$SECONDS never n=0
	# Not sleep: one left behind would keep locks and pipes open.
	exec {never}<> <(:)
	# A ctrl-C does not come here, but ends what is being timed.
	until read -rt 1 -u "$never" || ! kill -0 $$ 2>/dev/null; do
		if [ -t 2 ]; then
			printf '\r  %-28s %s ' "$1" "$(elapsed "$start")" >&2
		elif ((++n % 60 == 0)); then
			printf '  %-28s %s ...\n' "$1" "$(elapsed "$start")" >&2
		fi
	done
}

# step NAME COMMAND...: run with output to build/log/NAME.log; on failure name the step
# and its log, show the end of it and give up.
step() {
	local name=$1 log=$logs/$1.log rc=0 start=$SECONDS tick
	shift
	mkdir -p "$logs"
	ticker "$name" &
	tick=$!
	# Not "if" or "||": those would switch errexit off inside.
	set +eE
	(
		set -eE
		# A step's own clean-up must not run the parent's.
		trap - EXIT
		"$@"
	) >"$log" 2>&1 </dev/null
	rc=$?
	set -eE
	kill "$tick" 2>/dev/null || true
	wait "$tick" 2>/dev/null || true
	[ ! -t 2 ] || printf '\r' >&2
	if [ $rc -ne 0 ]; then
		printf '  %-28s FAILED (status %s) after %s\n' "$name" $rc "$(elapsed "$start")" >&2
		printf -- '--- last lines of %s\n' "$log" >&2
		tail -n "${STEP_LINES:-20}" "$log" >&2
		printf -- '---\n' >&2
		die "step $name failed, status $rc; log: $log"
	fi
	printf '  %-28s %s\n' "$name" "$(elapsed "$start")" >&2
}

need_root() {
	[ "$(id -u)" = 0 ] || die "must run as root: $1"
}

# need_room DIR MIB WHAT
need_room() {
	local have
	mkdir -p "$1"
	have=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$have" -ge "$2" ] ||
		die "no room for $3: $1 has $have MiB free, $2 MiB are needed ($(($2 - have)) MiB more)"
}

# need PACKAGE...: install what is missing, nothing else.
need() {
	local p missing=()
	for p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
			missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	need_root "installs ${missing[*]}"
	step "install" apt_install "${missing[@]}"
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	local o=(-y -q --no-install-recommends -o DPkg::Lock::Timeout=300)
	echo "missing: $*"
	apt-get "${o[@]}" install "$@" && return
	# Lists may be old or absent: once more with fresh ones.
	apt-get -q -o DPkg::Lock::Timeout=300 update
	apt-get "${o[@]}" install "$@" ||
		die "cannot install $* (see above; the machine's apt sources must offer them)"
}

# mirror SUITE [any]: the URI that the machine's own apt has for SUITE of Debian; with
# "any", for want of that, the one it has for some other suite.
mirror() {
	local uri try
	for try in 1 2; do
		# shellcheck disable=SC2016 # apt's own variables
		uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
			'Created-By: Packages' 'Label: Debian' |
			awk -v s="$1" -v any="${2-}" '$3 != "main" { next } $2 == s { own = $1 }
				!other { other = $1 } END { print own ? own : any ? other : "" }')
		[ -z "$uri" ] || break
		# Labels come with the lists, which a fresh machine may not have.
		[ $try = 2 ] || [ "$(id -u)" != 0 ] || apt-get -q update >&2
	done
	[ -n "$uri" ] || die "the machine's apt configuration has no source for Debian $1 main"
	echo "$uri"
}

# lock NAME WHAT [wait]: one holder at a time. What a holder starts (make, scripts) counts
# as the holder.
lock() {
	local file=$build/.lock-$1 fd
	case $1 in */*) file=$1.lock ;; esac
	case " ${SWAPOUT_LOCKS-} " in *" $1 "*) return 0 ;; esac
	mkdir -p "$(dirname "$file")"
	exec {fd}>>"$file"
	if ! flock -n "$fd"; then
		if [ "${3-}" = wait ]; then
			say "waiting for another run: $(cat "$file")"
			flock "$fd"
		else
			die "another run is at work here: $(cat "$file"); wait for it or end it"
		fi
	fi
	echo "$2, pid $$, since $(date +%H:%M:%S)" >"$file"
	export SWAPOUT_LOCKS="${SWAPOUT_LOCKS-} $1"
}

# one_of VARIABLE VALUE...
one_of() {
	local name=$1 v
	shift
	for v; do [ "${!name-}" != "$v" ] || return 0; done
	die "$name=${!name-} is not known; one of: $*"
}

# number VARIABLE MIN MAX
number() {
	[[ ${!1-} =~ ^[0-9]{1,9}$ ]] || die "$1=${!1-} is not a number from $2 to $3"
	((10#${!1} >= $2 && 10#${!1} <= $3)) ||
		die "$1=${!1-} is not a number from $2 to $3"
}

# What a make above was told is nothing for the kernel's own make.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

# Empty is unset. Defaults stay in the script that has them: what it starts may have others.
variables=(KERNEL IOMMU MEM CPUS ICOUNT AT BASE TIMEOUT ACCEL FORCE OUT MINUTES SEED FAULTS ROOT BOX_ARCH PAGE_KIB)
for v in "${variables[@]}"; do
	[ -n "${!v-}" ] || unset "$v"
done
unset v

# Every variable that a user may set, before any work.
check_variables() {
	: "${KERNEL:=patched}" "${IOMMU:=translated}" "${MEM:=2G}" "${CPUS:=4}" "${ICOUNT:=0}"
	: "${AT=}" "${BASE=}" "${OUT=}" "${TIMEOUT:=600}" "${ACCEL:=auto}" "${FORCE:=0}"
	: "${MINUTES:=10}" "${SEED:=1}" "${FAULTS:=0}" "${ROOT:=plain}" "${BOX_ARCH:=x86_64}" "${PAGE_KIB:=16}"
	one_of KERNEL stock patched debug
	one_of IOMMU translated strict passthrough none
	one_of ICOUNT 0 1
	one_of ACCEL auto tcg kvm
	one_of FORCE 0 1
	one_of FAULTS 0 1
	one_of ROOT plain mariadb build
	one_of BOX_ARCH x86_64 arm64
	one_of PAGE_KIB 4 16 64
	number CPUS 1 8
	number TIMEOUT 1 86400
	number MINUTES 1 1400
	number SEED 0 999999999
	[[ $MEM =~ ^([0-9]{1,6})([MG])$ ]] || die "MEM=$MEM is not a size such as 512M or 2G"
	local m=$((10#${BASH_REMATCH[1]}))
	[ "${BASH_REMATCH[2]}" = M ] || m=$((m * 1024))
	((m >= 256 && m <= 65536)) || die "MEM=$MEM is not between 256M and 64G"
	if [ -n "$AT" ]; then
		local n
		n=$(find "$top/patches" -name '0[0-9]*.patch' ! -name '0000-*' 2>/dev/null | wc -l)
		number AT 0 9999
		AT=$((10#$AT))
		((AT <= n)) || die "AT=$AT: the series has $n patches"
	fi
	if [ -n "$BASE" ]; then
		if [ ! -f "$BASE/Makefile" ] || [ ! -d "$BASE/mm" ]; then
			die "BASE=$BASE is not a Linux source tree (no Makefile and mm/ in it)"
		fi
	fi
}

# kernel_make TREE OBJECTS ARGUMENT...: the kernel's own make with the compiler cache, with
# nothing of ours in its environment and nothing of this machine in what it builds.
kernel_make() {
	local tree=$1 obj=$2
	shift 2
	env "${variables[@]/#/-u}" -uCMD -uARCH -uCROSS_COMPILE \
		CCACHE_DIR="$CACHE/ccache" CCACHE_MAXSIZE=6G CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 \
		CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime \
		KBUILD_BUILD_TIMESTAMP='2026-01-01 00:00:00 UTC' KBUILD_BUILD_USER=box \
		KBUILD_BUILD_HOST=box KBUILD_BUILD_VERSION=1 \
		make -C "$tree" O="$obj" CC='ccache gcc' HOSTCC='ccache gcc' "$@"
}
