#!/usr/bin/env bash
# Known vulnerabilities of what tare is built from, as far as it calls them: scripts/vulnerable.sh
# The database is the Go project's, or the one that GOVULNDB names: an address, or file:///FOLDER. Where it cannot be
# reached nothing is known, which is said and is no failure: a test run without a network must be possible.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$GO build -modfile=tools/go.mod -o "$work/govulncheck" golang.org/x/vuln/cmd/govulncheck
code=0
"$work/govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} ./... >"$work/said" 2>&1 || code=$?
# It ends with 3 where it found something, and with 1 for all that kept it from looking.
if [ $code -eq 1 ] && grep -qE 'fetching vulnerabilities|no such host|dial tcp|proxyconnect|i/o timeout' "$work/said"; then
	echo "govulncheck: NOT RUN, its database cannot be reached (GOVULNDB names another):"
	sed 's/^/    /' "$work/said"
	exit 0
fi
cat "$work/said"
exit $code
