#!/bin/sh
# Compare a pull request with its base on this machine, and say what came out. It only carries: tare thinks.
#
#   pull.sh measure    build base and head, run them in turn, write comment, summary and check into the folder
#   pull.sh publish    send them, with the token; exit code 0 also where that is not allowed
#   pull.sh tool       print the path of tare: $TARE, that of PATH, or one that is built here with Go
#
# measure ends as "tare ab" does: 0, 3 if a condition to fail on certainly holds, 4 with --strict if something cannot be
# decided, 1 and 2 if nothing was compared. It runs the code of the pull request, so do not give it the token.
#
#   TARE_COMMAND   what is run in base and in head                                   (needed)
#   TARE_BUILD     how both are built, before, by a shell
#   TARE_FAIL_IF   conditions to fail on, one in a line      [slower(head, command, 5%)]
#   TARE_ARGS      further arguments of tare ab, one in a line
#   TARE_BASE, TARE_HEAD   other revisions than those of the CI system
#   TARE_REPO      a folder of the repository                                        [.]
#   TARE_DIR       the folder that is written                                        [tare-pull]
#   TARE_HISTORY   the file with earlier runs, which the CI system keeps   [none]
#   TARE_NAME      name of the comparison, if there are several                      [tare]
#   TARE_ANNOTATE  file that annotations are at: PATH or PATH:LINE
#   TARE_STRICT    yes: what cannot be decided fails
#   TARE_TOKEN     the right to comment (publish)
#   TARE_AUTHOR    who writes the comments, if it is not GitHub's own bot (publish)
#   TARE_COMMENT, TARE_CHECK   no: write none (publish)
#   TARE_API       in Jenkins, the address of the API, if the pull request's does not tell it (publish)
#   TARE           the program                                                       [tare]
set -eu

dir=${TARE_DIR:-tare-pull}
name=${TARE_NAME:-tare}

say() { printf 'pull.sh: %s\n' "$*" >&2; }

tool() {
	if [ -n "${TARE:-}" ]; then
		command -v "$TARE" && return
		say "there is no program $TARE"
		return 1
	fi
	command -v tare && return
	source=${GITHUB_ACTION_PATH:-}
	if [ -z "$source" ] || ! command -v go >/dev/null; then
		say "tare is not in the PATH, and there is no Go to build it: install tare in a step before (or use actions/setup-go)"
		return 1
	fi
	built=${RUNNER_TEMP:-/tmp}/tare-tool/tare
	say "building tare in $source"
	(cd "$source" && CGO_ENABLED=0 go build -trimpath -o "$built" ./cmd/tare) >&2
	printf '%s\n' "$built"
}

# lines FLAG TEXT prints the lines of a text that are not empty, each with the flag and = before it.
lines() {
	printf '%s\n' "$2" | while IFS= read -r line || [ -n "$line" ]; do
		line=${line%"$(printf '\r')"}
		[ -z "$line" ] || printf '%s\n' "$1$line"
	done
}

measure() {
	tare=${TARE:-tare}
	if [ -z "${TARE_COMMAND:-}" ]; then
		say "TARE_COMMAND is empty: what is to be run?"
		return 2
	fi
	mkdir -p "$dir"
	# What an earlier run left in a workspace that is kept must not pass for this one's.
	rm -rf "$dir/bundle"
	rm -f "$dir"/*.json "$dir"/*.md "$dir"/*.txt "$dir"/*.xml
	code=0
	revisions=$("$tare" pull begin ${TARE_REPO:+"--repo=$TARE_REPO"} ${TARE_BASE:+"--base=$TARE_BASE"} \
		${TARE_HEAD:+"--head=$TARE_HEAD"} "$dir" 2>"$dir/log.txt") || code=$?
	cat "$dir/log.txt" >&2
	conditions=$(lines --fail-if= "${TARE_FAIL_IF:-slower(head, command, 5%)}")
	if [ "$code" = 0 ]; then
		set --
		while IFS= read -r line; do
			[ -z "$line" ] || set -- "$@" "$line"
		done <<-END
			$conditions
			$(lines '' "${TARE_ARGS:-}")
		END
		hush=
		if [ "${GITHUB_ACTIONS:-}" = true ]; then # what is built and run may print commands to the runner
			hush=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
			printf '::stop-commands::%s\n' "$hush"
		fi
		{
			c=0
			"$tare" ab -q --git "${revisions%% *}" "${revisions##* }" --revision-name base --revision-name head \
				${TARE_REPO:+"--repo=$TARE_REPO"} ${TARE_BUILD:+"--build=$TARE_BUILD"} "$@" -o "$dir/bundle" \
				-- "$TARE_COMMAND" </dev/null || c=$?
			printf '%s\n' "$c" >"$dir/code.txt"
		} 2>&1 | tee -a "$dir/log.txt"
		[ -z "$hush" ] || printf '::%s::\n' "$hush"
		code=$(cat "$dir/code.txt")
	fi
	set --
	while IFS= read -r line; do
		[ -z "$line" ] || set -- "$@" "$line"
	done <<-END
		$conditions
	END
	[ "${TARE_STRICT:-}" != yes ] || set -- "$@" --strict
	final=0
	"$tare" pull report --name "$name" --code "$code" --log "$dir/log.txt" ${TARE_HISTORY:+"--history=$TARE_HISTORY"} \
		${TARE_ANNOTATE:+"--annotate=$TARE_ANNOTATE"} "$@" "$dir" || final=$?
	if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$dir/summary.md" ]; then
		cat "$dir/summary.md" >>"$GITHUB_STEP_SUMMARY"
	fi
	return "$final"
}

# next ARGUMENT... prints the next request.
next() {
	"$tare" pull next --name "$name" ${TARE_AUTHOR:+"--author=$TARE_AUTHOR"} "$@" "$dir"
}

publish() {
	tare=${TARE:-tare}
	set --
	[ "${TARE_COMMENT:-}" != no ] || set -- "$@" --no-comment
	[ "${TARE_CHECK:-}" != no ] || set -- "$@" --no-check
	if [ ! -f "$dir/comment.json" ]; then
		say "there is nothing to publish in $dir: run pull.sh measure before"
		return 0
	fi
	case ${TARE_TOKEN:-} in
	'') next --no-token "$@" || true ;;
	*[!A-Za-z0-9_.=+/~-]*) say "the token has characters that no token has; nothing is published" ;;
	*)
		request=$(next "$@") || request=
		while [ -n "$request" ]; do
			# The token is given to curl on its standard input: arguments are seen by every user of the machine.
			status=$({
				printf 'header = "Authorization: Bearer %s"\n' "$TARE_TOKEN"
				printf '%s\n' "$request"
			} | curl --silent --show-error --write-out '%{http_code}' --config -) || status=0
			case $status in *[!0-9]* | '') status=0 ;; esac
			request=$(next --status "$status" "$@") || request=
		done
		;;
	esac
	if [ "${GITHUB_ACTIONS:-}" = true ] && [ -f "$dir/annotations.txt" ]; then
		cat "$dir/annotations.txt"
	fi
}

case ${1:-} in
measure | publish | tool) "$1" ;;
*)
	say "usage: pull.sh measure | publish | tool"
	exit 2
	;;
esac
