#!/usr/bin/env bash
# Run the test suite, or packages of it, as on another machine: scripts/conditions.sh NAME [PACKAGE...]
#
#   one      one processor, by taskset
#   vendor   /proc/cpuinfo names another vendor of the processor. What asks the processor itself (the instruction CPUID)
#            sees the real one, and so does what has a /proc of its own: containers and machines. A user namespace
#            fails: the kernel mounts no /proc in one while something is mounted over a file of the old.
#   zone     TZ=Asia/Tokyo LANG=C LC_ALL=C
#   home     an empty HOME and no XDG folders
#   space    a TMPDIR with a space in its name
#   busy     two busy loops and a writer to the disk beside it
#   all      each of them in turn
#
# Names with commas between them are put on top of each other: vendor,zone,home,space
#
# It ends as scripts/test.sh does, which it starts. Run as root, after make build.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?name a condition: one, vendor, zone, home, space, busy or all}
shift
# What runs under the condition: the suite, or the conditions that are left.
suite=(scripts/test.sh)
case $name in
*,*) suite=(scripts/conditions.sh "${name#*,}") name=${name%%,*} ;;
esac
# Short: paths of sockets are made below it.
work=$(mktemp -d /tmp/cXXXX)
own=()
# What was started here ends with this script, each by its number.
trap '[ ${#own[@]} -eq 0 ] || kill "${own[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

case $name in
one) taskset -c 0 "${suite[@]}" "$@" ;;
vendor)
	sed -E -e 's/GenuineIntel/\n/; s/AuthenticAMD/GenuineIntel/; s/^(vendor_id.*)\n/\1AuthenticAMD/' \
		-e '/^vendor_id.*GenuineIntel/,/^$/ s/^(model name\s*: ).*/\1Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz/' \
		-e '/^vendor_id.*AuthenticAMD/,/^$/ s/^(model name\s*: ).*/\1AMD EPYC 7763 64-Core Processor/' \
		/proc/cpuinfo >"$work/cpuinfo"
	if cmp -s "$work/cpuinfo" /proc/cpuinfo; then
		echo "conditions: /proc/cpuinfo names neither AMD nor Intel, so there is no other vendor to name" >&2
		exit 1
	fi
	unshare --mount --propagation private bash -c 'mount --bind "$1/cpuinfo" /proc/cpuinfo && shift && "$@"' \
		bash "$work" "${suite[@]}" "$@"
	;;
zone) TZ=Asia/Tokyo LANG=C LC_ALL=C "${suite[@]}" "$@" ;;
home)
	# What Go and the tests keep by its content is not asked for again.
	for v in GOCACHE GOMODCACHE GOPATH GOENV; do
		value=$(go env $v)
		export "$v=$value"
	done
	export TARE_TEST_CACHE=${TARE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}
	mkdir "$work/h"
	env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_STATE_HOME HOME="$work/h" "${suite[@]}" "$@"
	;;
space)
	mkdir -m 1777 "$work/t p"
	chmod 755 "$work"
	TMPDIR="$work/t p" "${suite[@]}" "$@"
	;;
busy)
	for _ in 1 2; do
		bash -c 'while :; do :; done' &
		own+=($!)
	done
	# 256 MiB again and again, to the disk and not only to memory.
	bash -c 'while :; do dd if=/dev/zero of="$0/written" bs=1M count=256 conv=fsync,notrunc status=none; done' "$work" &
	own+=($!)
	"${suite[@]}" "$@"
	;;
all)
	failed=
	for c in one vendor zone home space busy; do
		echo "== condition $c"
		TARE_ARTIFACTS=${TARE_ARTIFACTS:+$TARE_ARTIFACTS/$c} scripts/conditions.sh $c "$@" || failed+=" $c"
	done
	[ -z "$failed" ] || { echo "conditions: failed under$failed" >&2 && exit 1; }
	;;
*)
	echo "conditions: there is no condition $name" >&2
	exit 2
	;;
esac
