#!/usr/bin/env bash
# Measure this machine: the host, the built-in container, Docker if a daemon answers, and the micro-VM. Under 8 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh demo || echo "demo: going on with what is here" >&2
# Only this platform's agent: the others would take a minute more, and the demo stays on this machine.
make --no-print-directory build PLATFORMS="$(go env GOOS)_$(go env GOARCH)"
if command -v qemu-system-"$(uname -m)" >/dev/null && ! bin/tare guest list | grep -q "$(uname -m | sed s/aarch64/arm64/)"; then
	bin/tare guest fetch || echo "demo: no kernel for the micro-VM; going on without it" >&2
fi
exec bin/tare run --budget "${TARE_DEMO_BUDGET:-5m30s}" "$@"
