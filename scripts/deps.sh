#!/usr/bin/env bash
# Install what make needs beyond Go and Node.js: scripts/deps.sh [test|demo|bench]
# As root it installs; as anybody else it prints the one command that does. Silent when everything is here, and without
# apt, whose package names these are.
set -euo pipefail

case ${1:-test} in
# ipxe-qemu is only recommended by QEMU, which does not start with a network card when the card's ROM is missing.
test) packages=(qemu-system-x86 qemu-system-arm qemu-utils ipxe-qemu docker.io podman openssh-server openssh-client
	e2fsprogs iproute2 busybox-static strace fio sysbench mbw hyperfine jq gcc libc6-dev iperf3 wrk
	postgresql postgresql-contrib mmdebstrap
	nfs-ganesha nfs-ganesha-vfs samba smbclient rpcbind sshfs rsync groff-base exfatprogs make chromium fonts-dejavu-core bzip2 xfsprogs btrfs-progs dosfstools attr) ;;
demo) packages=(qemu-system-x86 ipxe-qemu e2fsprogs) ;;
bench) packages=(fio sysbench mbw hyperfine gcc libc6-dev qemu-system-x86 ipxe-qemu qemu-utils e2fsprogs docker.io iproute2 bzip2) ;;
*)
	echo "usage: scripts/deps.sh [test|demo|bench]" >&2
	exit 2
	;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	exit 0
fi

# iozone is in Debian's non-free component, which not everybody has: without it, its rows and comparisons say so.
if [ "${1:-test}" != demo ] && apt-cache show iozone3 >/dev/null 2>&1; then
	packages+=(iozone3)
fi

# A virtual machine of the machine's own kind is what demo boots.
if [ "${1:-test}" = demo ] && [ "$(dpkg --print-architecture)" = arm64 ]; then
	packages=(qemu-system-arm ipxe-qemu e2fsprogs)
fi

# From Debian 13 on the client is a package of its own, which docker.io only recommends.
if [ "${1:-test}" = test ] && ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
	packages+=(docker-cli)
fi

missing=()
for p in "${packages[@]}"; do
	status=$(dpkg-query --show --showformat='${db:Status-Status}' "$p" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${missing[*]}; get them with" >&2
	echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
# Recommended packages would bring a desktop's worth of emulator front ends. The lock is another apt's: wait for it.
install=(apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends)

# The lists of a fresh container are empty, and those of an old machine name versions that are gone: both show as a
# failing dry run or a failing download, and are cured in the same way.
update() {
	for try in 1 2 3; do
		# The lock of the lists is not covered by DPkg::Lock::Timeout.
		if apt-get -q -o Acquire::Retries=3 update; then
			return 0
		fi
		echo "deps: apt-get update failed, try $try of 3" >&2
		sleep $((try * 5))
	done
	return 1
}

echo "deps: installing ${missing[*]}"
if ! apt-get -q -s install --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
	update
	"${install[@]}" "${missing[@]}"
elif ! "${install[@]}" "${missing[@]}"; then
	update
	"${install[@]}" "${missing[@]}"
fi
