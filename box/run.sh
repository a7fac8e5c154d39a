#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Boot a kernel in the test box and run one command in it, as root.
#
#   [KERNEL=…] [MEM=…] [CPUS=…] [IOMMU=…] [ICOUNT=1] [TIMEOUT=s] [OUT=dir] box/run.sh COMMAND...
#   box/run.sh --shell
#
# KERNEL_DIR=dir boots dir/bzImage instead, with BOX_ARCH=arm64 dir/Image; APPEND adds to the kernel's command line.
# Exit status: the command's; 124 when the guest hung or took longer than TIMEOUT; 70 when
# its kernel printed a splat, panicked or died; 69 when the box could not be set up or did
# not prove the state that was asked for.
# OUT (the guest's /out) gets stdout, rc, state.tsv, console.log and what the command writes.

# shellcheck disable=SC2054 # QEMU's own commas
# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
DIE_STATUS=69

splats='WARNING: |BUG: |BUG at |Oops|KASAN: |KCSAN: |KFENCE: |UBSAN: |cut here \]|Kernel panic'
splats+='|possible (recursive|circular) locking|inconsistent lock state|circular locking dependency'
splats+='|suspicious RCU|blocked for more than|self-detected stall|detected stalls|detected expedited stalls'
splats+='|kmemleak: [0-9]+ new suspected|list_(add|del) corruption|ODEBUG: |refcount_t: |Invalid wait context'
splats+='|scheduling while atomic|nested lock was not taken|bad unlock balance|held lock freed|soft lockup'
# Bad page, died, warned, soft lockup.
taints=$((1 << 5 | 1 << 7 | 1 << 9 | 1 << 14))

mode=run
case ${1-} in
--shell) mode=shell ;;
--probe) mode=probe ;;
'') die "no command; usage: box/run.sh COMMAND..." ;;
esac

check_variables
[ "$ICOUNT" = 0 ] || CPUS=1
boot_timeout=300
[ "$KERNEL" != debug ] || boot_timeout=500
boot_timeout=${BOOT_TIMEOUT:-$boot_timeout}

if [ "$BOX_ARCH" = arm64 ]; then need qemu-system-arm; else need qemu-system-x86; fi
need fdisk gcc libc6-dev
image=$("$top/box/root.sh") || die "no root image"
if [ "${KERNEL_DIR-}" ]; then
	kernel=$KERNEL_DIR
else
	kernel=$build/kernel/$KERNEL
	[ "$KERNEL" = stock ] || kernel+=${AT:+-at$AT}
	[ -f "$kernel/bzImage" ] || "$top/scripts/kernel.sh" "$KERNEL" || die "no kernel to boot"
fi
boot=$kernel/bzImage
[ "$BOX_ARCH" != arm64 ] || boot=$kernel/Image
[ -f "$boot" ] || die "no kernel: $boot"

mkdir -p "$build/tmp" "$build/guest"
need_room "$build/tmp" 1500 "the box's drive"
work=$build/tmp/box.$$
qemu=
follow=
hold=
if [ -n "${OUT-}" ]; then
	mkdir -p "$OUT"
	out=$(cd "$OUT" && pwd -P)
else
	out=$work/out
fi

# shellcheck disable=SC2317 # called by the trap
clean_up() {
	# The drive and the tail that shows output end with the run, whatever ended it.
	[ -z "$qemu" ] || { kill -KILL "$qemu" && wait "$qemu"; } 2>/dev/null || true
	[ -z "$follow" ] || kill "$follow" 2>/dev/null || true
	rm -rf "$out/.box"
	[ -z "$hold" ] || [ "$hold" = "$out" ] || mv "$out" "$hold" 2>/dev/null || true
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# What runs killed outright have left.
for d in "$build"/tmp/box.*; do
	[ ! -d "$d" ] || kill -0 "${d##*.}" 2>/dev/null || rm -rf "$d"
done
rm -rf "$work"
mkdir -p "$work" "$out/.box"
rm -f "$out"/{rc,rc.new,stdout,state.tsv,tainted,console.log,qemu.log,kmemleak} "$out"/.box/*

truncate -s 4G "$work/drive"
sfdisk -q "$work/drive" <<-END
	label: gpt
	label-id: 5C1E7B1E-0000-4000-8000-000000000000
	start=2048, size=1MiB, uuid=5C1E7B1E-0000-4000-8000-000000000001
	size=64MiB, uuid=5C1E7B1E-0000-4000-8000-000000000002
	size=1GiB, uuid=5C1E7B1E-0000-4000-8000-000000000003
	uuid=5C1E7B1E-0000-4000-8000-000000000004
END

# A /dev/kvm that opens may still hang with the guest in its firmware: believe it after a
# boot, once for each boot of this machine.
kvm_works() {
	local proof answer=no
	[ -w /dev/kvm ] && [ "$BOX_ARCH" = x86_64 ] || return 1
	proof=$CACHE/kvm-$(cat /proc/sys/kernel/random/boot_id)
	if [ ! -f "$proof" ]; then
		say "box: trying KVM, at most 20 s"
		! ACCEL=kvm BOOT_TIMEOUT=20 OUT='' KERNEL_DIR=$kernel CPUS=2 "$0" --probe >/dev/null 2>&1 || answer=yes
		rm -f "$CACHE"/kvm-*
		echo $answer >"$proof.$$" && mv "$proof.$$" "$proof"
		say "box: KVM works here: $answer"
	fi
	[ "$(cat "$proof")" = yes ]
}

tty=ttyS0 qemu_bin=qemu-system-x86_64 machine=q35,kernel-irqchip=split
if [ "$BOX_ARCH" = arm64 ]; then
	tty=ttyAMA0 qemu_bin=qemu-system-aarch64 machine=virt,gic-version=3
	[ "$IOMMU" = none ] || machine+=,iommu=smmuv3
fi
append="root=/dev/vda rw init=/sbin/box-stub console=$tty panic=-1 oops=panic watchdog_thresh=60"
# On a busy host an emulated timer may miss the kernel's deadline for a first tick.
append+=" no_timer_check"
case $IOMMU in
translated) append+=" intel_iommu=on iommu.strict=0 iommu.passthrough=0" ;;
strict) append+=" intel_iommu=on iommu.strict=1 iommu.passthrough=0" ;;
passthrough) append+=" intel_iommu=on iommu=pt" ;;
none) append+=" intel_iommu=off" ;;
esac

args=(-nodefaults -no-user-config -display none -no-reboot -nic none
	-machine "$machine" -m "$MEM" -smp "$CPUS")
if [ "$ICOUNT" = 1 ]; then
	accel=tcg
	# Guest time is instructions, and jumps ahead whenever the guest waits for the host: no
	# timeout on that clock may count. Addresses and dates are the same in each run.
	args+=(-accel tcg,thread=single -icount shift=0,sleep=off -rtc base=2026-01-01,clock=vm)
	append+=" norandmaps nvme_core.io_timeout=1000000 nvme_core.admin_timeout=1000000"
	append+=" sysctl.kernel.hung_task_timeout_secs=0 rcupdate.rcu_cpu_stall_suppress=1"
else
	accel=$ACCEL
	if [ "$accel" = auto ]; then
		if kvm_works; then accel=kvm; else accel=tcg; fi
	fi
	if [ "$accel" = kvm ]; then args+=(-accel kvm); else args+=(-accel tcg,thread=multi); fi
fi
if [ "$accel" = tcg ] && [ "$ICOUNT" = 0 ] && [ "$BOX_ARCH" = x86_64 ]; then
	# Nor may the guest's clock depend on how busy the machine is while it boots.
	if [ ! "$build/box-tsc" -nt "$top/box/tsc.c" ]; then
		gcc -O2 -o "$work/tsc" "$top/box/tsc.c" && mv "$work/tsc" "$build/box-tsc"
	fi
	khz=$("$build/box-tsc")
	hz=$(sed -n 's/^CONFIG_HZ=//p' "$kernel/config" 2>/dev/null || true)
	append+=" tsc_early_khz=$khz lpj=$((khz * 1000 / ${hz:-250}))"
fi
# KVM cannot set that MSR in every nest of machines.
cpu=max
[ "$accel" != kvm ] || cpu+=,arch-capabilities=off
# An interrupt while the boot CPU's features are being read is in the middle of a change of
# what the base takes for a kernel address, if that depends on one of them: KASAN complains.
[ "$KERNEL" != debug ] || cpu+=,la57=off
args+=(-cpu "$cpu")
[ "$BOX_ARCH" = arm64 ] || [ "$IOMMU" = none ] || args+=(-device intel-iommu,intremap=on)
args+=(-kernel "$boot" -append "$append ${APPEND-}"
	# virtio bypasses the IOMMU: the drive is alone behind it.
	-drive "if=none,id=root,format=raw,file=$image,snapshot=on"
	-device virtio-blk-pci,drive=root
	-drive "if=none,id=swap,format=raw,file=$work/drive,discard=unmap,cache=unsafe"
	-device nvme,serial=swapout,drive=swap
	-fsdev "local,id=out,path=$out,security_model=none"
	-device virtio-9p-pci,fsdev=out,mount_tag=out
	-fsdev "local,id=box,path=$build/guest,security_model=none,readonly=on"
	-device virtio-9p-pci,fsdev=box,mount_tag=box
	-device virtio-rng-pci)

cp "$top/box/init" "$out/.box/init"
[ $mode != run ] || printf '%s\n' "$*" >"$out/.box/command"
cat >"$out/.box/env" <<END
export SWAPOUT_P1=/dev/nvme0n1p1 SWAPOUT_P2=/dev/nvme0n1p2
export SWAPOUT_P3=/dev/nvme0n1p3 SWAPOUT_P4=/dev/nvme0n1p4
export BOX_KERNEL=$KERNEL BOX_IOMMU=$IOMMU BOX_ICOUNT=$ICOUNT BOX_ACCEL=$accel BOX_CPUS=$CPUS
BOX_MODE=$mode BOX_TERM=${TERM:-linux} BOX_SIZE='$( [ ! -t 0 ] || stty size)'
BOX_KERNEL_ID=$(cat "$kernel/id" 2>/dev/null || echo unknown)
END
chmod 644 "$out"/.box/*

# Where the splat is, if there's one.
splat() { grep -aqE "$splats" "$out/console.log" 2>/dev/null; }

failed() { # STATUS MESSAGE PATTERN-OR-EMPTY
	hold=$out
	if [ "$out" = "$work/out" ]; then
		hold=$build/results/box-failed.$$
		rm -rf "$hold"
		mkdir -p "${hold%/*}"
		# The latest few are enough.
		find "${hold%/*}" -maxdepth 1 -name 'box-failed.*' -printf '%T@ %p\n' | sort -rn |
			sed -n 's/^[^ ]* //; 10,$p' | xargs -rd '\n' rm -rf
	fi
	say "box: $2 (KERNEL=$KERNEL IOMMU=$IOMMU, $accel)"
	if [ -n "$3" ]; then
		grep -anE -m 5 -A 25 "$3" "$out/console.log" | head -n 60 >&2 || true
	else
		say "--- last lines of the console"
		tail -n 15 "$out/console.log" >&2 || true
	fi
	say "--- all of it: $hold/console.log"
	exit "$1"
}

export TMPDIR=$work
if [ $mode = shell ]; then
	[ -t 0 ] || die "make shell needs a terminal"
	say "box: 'exit' or ctrl-D ends the box; results in /out go to $out"
	"$qemu_bin" "${args[@]}" -chardev "stdio,id=con,signal=off,logfile=$out/console.log" \
		-serial chardev:con || die "QEMU failed, status $?"
	[ ! -s "$out/.box/refused" ] || die "$(cat "$out/.box/refused")"
	exit 0
fi

# QEMU ends with this script, whatever ends it, and not by a ctrl-C of its own.
setsid setpriv --pdeathsig KILL "$qemu_bin" "${args[@]}" \
	-chardev "file,id=con,path=$out/console.log" -serial chardev:con \
	</dev/null >"$out/qemu.log" 2>&1 &
qemu=$!
if [ $mode = run ]; then
	: >"$out/stdout"
	tail -q -n +1 -f --pid=$qemu -s 0.2 "$out/stdout" &
	follow=$!
fi

# TIMEOUT is the command's: boots take longer on a busy machine.
start=$SECONDS
ready=
size=-1
while kill -0 $qemu 2>/dev/null; do
	sleep 0.2
	now=$(stat -c %s "$out/console.log" 2>/dev/null || echo 0)
	if [ "$now" != "$size" ] && splat; then
		# The rest of the trace, then no more.
		sleep 2
		break
	fi
	size=$now
	if [ -n "$ready" ]; then
		((SECONDS - start <= TIMEOUT)) ||
			failed 124 "the command did not end within TIMEOUT=$TIMEOUT s, guest killed" ""
	elif [ -e "$out/.box/ready" ]; then
		ready=$((SECONDS - start))
		start=$SECONDS
	else
		((SECONDS - start <= boot_timeout)) ||
			failed 124 "the guest did not get through its boot within $boot_timeout s, killed" ""
	fi
done
if splat; then
	failed 70 "the kernel complained, run ended" "$splats"
fi
status=0
{ wait $qemu; } 2>/dev/null || status=$?
qemu=
[ -z "$follow" ] || wait "$follow" || true
follow=
[ ! -s "$out/.box/refused" ] || failed 69 "$(cat "$out/.box/refused")" ""
if [ $status -ne 0 ]; then
	cat "$out/qemu.log" >&2
	failed 69 "QEMU failed with status $status" ""
fi
if [ $mode = probe ]; then
	[ -e "$out/.box/ready" ] || failed 70 "the guest ended before it was ready" ""
	exit 0
fi
[ -s "$out/rc" ] || failed 70 "the guest ended without a result (reset, triple fault or PID 1 gone)" ""
tainted=$(cat "$out/tainted" 2>/dev/null || echo 0)
((tainted & taints)) && failed 70 "the kernel is tainted ($tainted), a splat went past the console" ""
exit "$(cat "$out/rc")"
