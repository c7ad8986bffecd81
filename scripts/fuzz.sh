#!/usr/bin/env bash
# Run every fuzz target for a while: scripts/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
GO=${GO:-go}
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' internal | xargs -n1 dirname | sort -u); do
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/func //' | sort -u); do
		echo "== $dir $target"
		$GO test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s"
	done
done
