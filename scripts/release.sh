#!/usr/bin/env bash
# Make all files of a release in dist/, from the tag of this commit: scripts/release.sh [FLAG OF GORELEASER...]
# It is called by make release, which builds the agents and the report page and names the version, the build and the flags
# of the linker. It publishes nothing. docs/releasing.md says what comes before and after.
#
# TARE_URL is where the project is kept, for the manifests of package managers: releases are looked for below
# $TARE_URL/releases/download/TAG.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}

if [ -z "${TARE_VERSION:-}" ] || [ -z "${TARE_LDFLAGS:-}" ]; then
	echo "release: this commit has no tag such as v1.2.3. Set one (docs/releasing.md) and call: make release" >&2
	exit 2
fi
case $TARE_VERSION in
*dirty*)
	echo "release: there are changes that are not committed, so this is not v${TARE_VERSION%-dirty}:" >&2
	git status --short | head -5 >&2
	exit 2
	;;
esac
if [ -z "${TARE_URL:-}" ]; then
	TARE_URL=https://tare.invalid
	echo "release: TARE_URL is not set, so the manifests say $TARE_URL, where nothing is" >&2
fi
export TARE_URL TARE_LDFLAGS GORELEASER_CURRENT_TAG=v$TARE_VERSION CGO_ENABLED=0
# What is made does not depend on who makes it, when and where.
export TZ=UTC LC_ALL=C SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git show -s --format=%ct HEAD)
umask 022

work=bin/release
rm -rf $work
mkdir -p $work/completions
$GO build -o $work/tool ./scripts/release
# The notes come first: without a section of this version in CHANGELOG.md there is no release.
$work/tool notes "$TARE_VERSION" >$work/notes.md
$work/tool changelog >$work/changelog.yaml
$GO build -trimpath -buildvcs=false -ldflags "$TARE_LDFLAGS" -o $work/tare ./cmd/tare
$work/tare man $work/man
gzip -9n $work/man/*.1
for shell in bash:tare.bash zsh:_tare fish:tare.fish powershell:tare.ps1; do
	$work/tare completion "${shell%%:*}" >"$work/completions/${shell#*:}"
done

# tool NAME prints the path of a tool that the go command has built and keeps.
tool() { $GO tool -modfile=tools/release/go.mod -n "$1"; }
# The list of modules has the sum of the program that wrote it, so that must not depend on where it was built.
ln -s "$(GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false" tool cyclonedx-gomod)" $work/cyclonedx-gomod
goreleaser=$(tool goreleaser)
# GoReleaser wants a repository that came from somewhere.
if [ -z "$(git remote)" ]; then
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=$TARE_URL
fi
# Without --skip=publish it would look for tokens, and with one found it would upload.
env -u GITHUB_TOKEN -u GITLAB_TOKEN -u GITEA_TOKEN "$goreleaser" release --clean --skip=publish,announce \
	--release-notes $work/notes.md --parallelism "${TARE_PARALLEL:-2}" "$@"
cp $work/notes.md dist/NOTES.md
