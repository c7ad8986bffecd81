#!/usr/bin/env bash
# Build the report page from web/ into internal/show/report/page/dist, where the Go build embeds it: scripts/web.sh
# scripts/web.sh lint looks through its sources instead.
# Without Node.js it says so and succeeds: such a build of tare does everything else.
set -euo pipefail
cd "$(dirname "$0")/../web"
page=../internal/show/report/page/dist/page.html

need=20
if ! command -v npm >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)" -lt $need ]; then
	if [ "${1:-}" = lint ]; then
		echo "web: no Node.js $need or newer here, so the page's sources were not looked through" >&2
		exit 0
	fi
	rm -f "$page" # one of older sources would not fit the program
	echo "web: no Node.js $need or newer here, so this build has no HTML report; everything else works" >&2
	exit 0
fi
# npm ci empties node_modules first, so it runs only when what it installs has changed.
if [ ! -e node_modules/.tare ] || ! cmp -s package-lock.json node_modules/.tare; then
	npm ci --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.tare
fi
if [ "${1:-}" = lint ]; then
	exec npm run --silent lint
fi
npm run --silent build -- --logLevel warn
# The sources may be older than the page they did not change: make goes by the time.
touch "$page"
