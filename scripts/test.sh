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

echo "== tests"
# One package at a time: two cores, and tests that boot machines and race against deadlines.
$GO test -count=1 -p 1 -timeout 18m ./...

if [ "$($GO env GOOS)" = linux ] && command -v gcc >/dev/null; then
	echo "== race detector"
	CGO_ENABLED=1 $GO test -race -short -count=1 -timeout 8m ./internal/wire ./internal/agent ./internal/deploy ./internal/proc ./internal/schedule ./internal/bundle
fi
