#!/usr/bin/env bash
# Print the files that exist here and differ from where this branch left another, or that git does not know yet:
# scripts/changed.sh BRANCH PATHSPEC...
# Where there is no such branch, all files are printed.
set -euo pipefail
cd "$(dirname "$0")/.."
branch=$1
shift
if base=$(git merge-base HEAD "$branch" 2>/dev/null); then
	git diff --name-only --diff-filter=d "$base" -- "$@"
	git ls-files --others --exclude-standard -- "$@"
else
	git ls-files -- "$@"
fi
