#!/usr/bin/env bash
# Measure this machine: the host, the built-in container, Docker if a daemon answers, and the micro-VM. Under 8 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh demo || echo "demo: going on with what is here" >&2
make --no-print-directory build
if command -v qemu-system-"$(uname -m)" >/dev/null && ! bin/tare guest list | grep -q "$(uname -m | sed s/aarch64/arm64/)"; then
	bin/tare guest fetch || echo "demo: no kernel for the micro-VM; going on without it" >&2
fi
exec bin/tare run --budget "${TARE_DEMO_BUDGET:-6m}" "$@"
