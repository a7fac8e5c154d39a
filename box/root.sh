#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The box's root file system: Debian 12, minbase and the tools that tests use, as an ext4
# image in the cache. Prints the image's path. Booted with snapshot=on, so never written.
# ROOT=mariadb: with MariaDB, sysbench and the tables that box/tables makes as well.
# ROOT=build: with a compiler and the base's mm/, which box/objects prepares.
# BOX_ARCH=arm64: packages are unpacked and not configured, since they cannot run here.

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

packages=(bash util-linux mount fdisk dmsetup kmod procps psmisc iproute2 fio nvme-cli e2fsprogs
	xfsprogs btrfs-progs stress-ng liburing2 libnuma1 libcap2 libcap2-bin bc time)
suite=bookworm
size=1G
hooks=()
check_variables
prepare=
variant=(--variant=minbase)
if [ "$BOX_ARCH" = arm64 ]; then
	packages+=(coreutils dash sed grep mawk findutils diffutils gzip libc-bin)
	variant=(--variant=extract --architectures=arm64)
	# What configuring them would have made.
	# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
	hooks=(--customize-hook='cd "$1" && mkdir -p root && ln -sf mawk usr/bin/awk && { [ -e bin/sh ] || ln -s dash bin/sh; }
		echo "root:x:0:0:root:/root:/bin/bash" >etc/passwd && echo "root:x:0:" >etc/group')
fi
case $ROOT in
mariadb)
	packages+=(mariadb-server sysbench)
	prepare=tables
	size=3G
	;;
build)
	packages+=(gcc libc6-dev make bison flex bc libelf-dev libssl-dev)
	prepare=objects
	size=2G
	base=$("$top/scripts/base.sh")
	# What make needs for mm/ and no more: all of it is 1.7 GB.
	# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
	hooks=(--customize-hook='mkdir "$1/opt/linux"' --customize-hook="git -C $base archive HEAD ':(glob)**/Kconfig*' \
		:Makefile :Kbuild :arch/x86 :scripts :include :kernel :mm :lib :init :security :usr :certs :tools | "'tar -x -C "$1/opt/linux"')
	;;
esac
# shellcheck disable=SC2016 # for the shell that mmdebstrap starts
[ -z "$prepare" ] || hooks+=(--customize-hook="copy-in $top/box/$prepare /opt" --customize-hook='chroot "$1" '"/opt/$prepare")
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

make_root() {
	local include
	include=$(IFS=, && echo "${packages[*]}")
	mmdebstrap "${variant[@]}" --include="$include" "${aptopts[@]}" "${hooks[@]}" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$suite" "$tmp/root" "deb [signed-by=$keyring] $uri $suite main"
	mkdir -p "$tmp/root/out" "$tmp/root/box"
	install -m 755 "$top/box/stub" "$tmp/root/sbin/box-stub"
	echo box >"$tmp/root/etc/hostname"
	rm -f "$tmp/root/etc/resolv.conf"
	rm -rf "$tmp"/root/var/cache/apt/* "$tmp"/root/var/lib/apt/lists/*
	mke2fs -q -F -t ext4 -O ^has_journal -L root -U 5c1e7b1e-0000-4000-8000-000000000001 \
		-d "$tmp/root" "$tmp/image" "$size"
}

# Comments and messages don't make another image.
id=$( (echo "$suite ${packages[*]} $size ${variant[*]}" && declare -f make_root &&
	cat "$top/box/stub" && { [ -z "$prepare" ] || cat "$top/box/$prepare"; }) |
	sha256sum | cut -c1-12)
image=$CACHE/root-$id.ext4

[ ! -f "$image" ] || { echo "$image" && exit; }

need_root "mmdebstrap builds the box's root"
need_room "$CACHE" 3000 "the box's root image"
need mmdebstrap e2fsprogs debian-archive-keyring
lock "$CACHE/root" "building the box's root image" wait
[ ! -f "$image" ] || { echo "$image" && exit; }

# Whatever mirror and proxy the machine's own apt uses.
uri=$(mirror "$suite")
aptopts=()
while read -r line; do
	aptopts+=("--aptopt=${line%;}")
done < <(apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-Valid-Until|Check-Date)\b.* "[^"]+";$')

rm -rf --one-file-system "$CACHE"/root.tmp.*
tmp=$(mktemp -d "$CACHE/root.tmp.XXXXXX")
trap 'rm -rf --one-file-system "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

step root make_root
mv "$tmp/image" "$image"
echo "$image"
