#!/usr/bin/env bash
# Everything the test suite has: unit tests, real servers, scripts against the binary, the race detector, all platforms.
# Run as root (make test does not escalate): real mounts, namespaces, dockerd and loop devices need it.
set -euo pipefail
cd "$(dirname "$0")/.."
export TARE_REQUIRE=1 CGO_ENABLED=0
GO=${GO:-go}

# Tests make and remove files by the ten thousand. An ext4 without a journal passes over every inode that was deleted within
# the last minutes, and the packages that do so took three times as long there. So where files lie on one, the tests get
# a file system of their own: an image that is removed as soon as it is mounted, in a mount namespace that ends with this
# script, so that nothing of it is left however that ends.
unjournaled() {
	local device
	device=$(readlink "/sys/dev/block/$(findmnt -n -o MAJ:MIN -T "${TMPDIR:-/tmp}" | tr -d ' ')") &&
		[ -r "/proc/fs/ext4/${device##*/}/options" ] && ! grep -q '^data=' "/proc/fs/ext4/${device##*/}/options"
}
# empty prints a directory that stands for nothing and is as short as /tmp: paths of sockets must not become longer.
empty() {
	local d
	for d in /mnt /srv /media; do
		if [ -d $d ] && [ -z "$(ls -A $d)" ] && ! mountpoint -q $d; then
			echo $d
			return
		fi
	done
	return 1
}
if [ -z "${TARE_TEST_MOUNTED:-}" ] && [ "$(id -u)" = 0 ] && unjournaled && own=$(empty) && unshare --mount true; then
	export TARE_TEST_MOUNTED=$own
	exec unshare --mount --propagation private scripts/test.sh
fi
if [ -n "${TARE_TEST_MOUNTED:-}" ]; then
	image=$(mktemp)
	free=$(df --output=avail -B1M "$image" | tail -1)
	# Where there is little room, files stay where they are: an image that cannot grow gives I/O errors.
	if [ "$free" -ge 16384 ] && truncate -s "$((free * 3 / 4))M" "$image" && mke2fs -q -t ext4 "$image" && mount -o loop "$image" "$TARE_TEST_MOUNTED"; then
		chmod 1777 "$TARE_TEST_MOUNTED"
		export TMPDIR=$TARE_TEST_MOUNTED
		echo "== tests work in $TMPDIR, an ext4 with a journal"
	fi
	rm -f "$image"
fi

echo "== every platform compiles"
for p in linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64; do
	GOOS=${p%/*} GOARCH=${p#*/} $GO vet ./cmd/... ./internal/measure/... ./internal/sys/...
done
for p in darwin/arm64 windows/amd64 freebsd/amd64; do
	GOOS=${p%/*} GOARCH=${p#*/} $GO build -o /dev/null ./cmd/tare
done

# Both daemons of virtiofs are tested. Where this fails, the tests that need the one say why.
if TARE_VIRTIOFSD=$(scripts/deps.sh virtiofsd); then
	export TARE_VIRTIOFSD
else
	unset TARE_VIRTIOFSD
fi
# Disk images that other programs wrote, as QEMU keeps them for its tests. Where this fails, the test of them says so.
if TARE_QEMU_SAMPLES=$(scripts/deps.sh qemu-samples); then
	export TARE_QEMU_SAMPLES
else
	unset TARE_QEMU_SAMPLES
fi

# Before two test programs fetch them at once. Where it fails, the tests that need one say why.
for kernel in "amd64 cloud" "amd64 generic" "arm64 cloud"; do
	bin/tare guest fetch --arch "${kernel% *}" --flavour "${kernel#* }" || true
done

echo "== tests"
# Two packages at a time, and one machine of the machines' own: there are two cores, and tests that race against deadlines.
# Three machines at once took as long and starved all others. Beside the many go those that together take as long. A job of
# its own process group keeps its signals, which a shell without job control would have it ignore.
machines=tare/internal/lab/driver/qemu
slow="tare/bench tare/internal"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$GO build -o "$work/tested" ./scripts/tested
# make vet was before. What is said is what go test says without -v; the skipped tests, which it tells with -v only, come at
# the end. Those that are skipped for another reason than the machine's fail.
tested() {
	$GO test -json -count=1 -timeout 40m -vet=off "$@" | "$work/tested" -skips "$work/skips" -allowed scripts/tested/allowed
}
set -m
{
	failed=0
	tested -parallel 1 $machines || failed=1
	tested -p 1 $slow || failed=1
	exit $failed
} >"$work/said" 2>&1 &
beside=$!
set +m
trap 'kill -TERM -- "-$beside" 2>/dev/null; rm -rf "$work"' EXIT
failed=0
mapfile -t others < <($GO list ./... | grep -vxF "${slow// /$'\n'}"$'\n'"$machines")
tested -p 1 "${others[@]}" || failed=1
wait "$beside" || failed=1
trap 'rm -rf "$work"' EXIT
cat "$work/said"
echo "== skipped tests, and why"
sort "$work/skips"
if [ $failed -ne 0 ]; then
	exit 1
fi

if [ "$($GO env GOOS)" = linux ] && command -v gcc >/dev/null; then
	echo "== race detector"
	CGO_ENABLED=1 $GO test -race -short -count=1 -timeout 8m ./internal/measure/wire ./internal/measure/agent ./internal/lab/deploy ./internal/sys/proc ./internal/run/schedule ./internal/bundle
fi
