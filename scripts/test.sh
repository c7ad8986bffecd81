#!/usr/bin/env bash
# Everything the test suite has: unit tests, real servers, scripts against the binary, the race detector, all platforms.
# Run as root (make test does not escalate): real mounts, namespaces, dockerd and loop devices need it.
set -euo pipefail
cd "$(dirname "$0")/.."
export TARE_REQUIRE=1 CGO_ENABLED=0
GO=${GO:-go}

echo "== every platform compiles"
for p in linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64; do
	GOOS=${p%/*} GOARCH=${p#*/} $GO vet ./cmd/... ./internal/agent/... ./internal/workload/... ./internal/wire ./internal/facts
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

# Before two test programs fetch them at once. Where it fails, the tests that need one say why.
for kernel in "amd64 cloud" "amd64 generic" "arm64 cloud"; do
	bin/tare guest fetch --arch "${kernel% *}" --flavour "${kernel#* }" || true
done

echo "== tests"
# One package at a time: two cores, and tests that boot machines and race against deadlines. Virtual machines are tested
# beside the others, because their tests wait more than they compute: for boots, and for servers that were killed. A job
# of its own process group keeps its signals, which a shell without job control would have it ignore.
machines=tare/internal/env/qemu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$GO build -o "$work/tested" ./scripts/tested
# What is said is what go test says without -v; the skipped tests, which it tells with -v only, come at the end.
tested() {
	$GO test -json -count=1 -timeout 24m "$@" | "$work/tested" -skips "$work/skips"
}
set -m
tested $machines >"$work/said" 2>&1 &
beside=$!
set +m
trap 'kill -TERM -- "-$beside" 2>/dev/null; rm -rf "$work"' EXIT
failed=0
mapfile -t others < <($GO list ./... | grep -vx "$machines")
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
	CGO_ENABLED=1 $GO test -race -short -count=1 -timeout 8m ./internal/wire ./internal/agent ./internal/deploy ./internal/proc ./internal/schedule ./internal/bundle
fi
