#!/usr/bin/env bash
# Everything the test suite has: unit tests, real servers, scripts against the binary, the race detector, all platforms.
# Run as root (make test does not escalate): real mounts, namespaces, dockerd and loop devices need it.
#
#   scripts/test.sh [PACKAGE...]
#
# With packages it tests these only, in the same way. A test that failed is repeated alone, twice at most. It ends with the
# tests that passed only then (FLAKY NAME: REASON) and with how many passed, failed and were skipped. In $TARE_ARTIFACTS
# are summary.txt with that line and flaky.txt with all that the flaky ones said.
set -euo pipefail
cd "$(dirname "$0")/.."
export TARE_REQUIRE=1 CGO_ENABLED=0
GO=${GO:-go}
# As make build has it, or all of this machine's packages would be compiled once more.
flags=$($GO env GOFLAGS)
[[ " $flags " == *" -trimpath "* ]] || flags="${flags:+$flags }-trimpath"
export GOFLAGS=$flags

# Tests make and remove files by the ten thousand. An ext4 without a journal passes over every inode that was deleted within
# the last minutes, and the packages that do so took three times as long there. So where files lie on one, the tests get
# a file system of their own: an image that is removed as soon as it is mounted, in a mount namespace that ends with this
# script, so that nothing of it is left however that ends.
unjournaled() {
	local device
	device=$(readlink "/sys/dev/block/$(findmnt -n -o MAJ:MIN -T "${TMPDIR:-/tmp}" | tr -d ' ')") &&
		[ -r "/proc/fs/ext4/${device##*/}/options" ] && ! grep -q '^data=' "/proc/fs/ext4/${device##*/}/options"
}
# empty prints a directory that stands for nothing and is as short as /tmp: paths of sockets must not become longer.
empty() {
	local d
	for d in /mnt /srv /media; do
		if [ -d $d ] && [ -z "$(ls -A $d)" ] && ! mountpoint -q $d; then
			echo $d
			return
		fi
	done
	return 1
}
if [ -z "${TARE_TEST_MOUNTED:-}" ] && [ "$(id -u)" = 0 ] && unjournaled && own=$(empty) && unshare --mount true; then
	export TARE_TEST_MOUNTED=$own
	exec unshare --mount --propagation private scripts/test.sh "$@"
fi
if [ -n "${TARE_TEST_MOUNTED:-}" ]; then
	image=$(mktemp)
	free=$(df --output=avail -B1M "$image" | tail -1)
	# Where there is little room, files stay where they are: an image that cannot grow gives I/O errors.
	if [ "$free" -ge 16384 ] && truncate -s "$((free * 3 / 4))M" "$image" && mke2fs -q -t ext4 "$image" && mount -o loop "$image" "$TARE_TEST_MOUNTED"; then
		chmod 1777 "$TARE_TEST_MOUNTED"
		# Whoever asks for a folder with a space in its name gets one.
		case ${TMPDIR:-} in
		*' '*) TMPDIR=$TARE_TEST_MOUNTED/${TMPDIR##*/} && mkdir -m 1777 "$TMPDIR" ;;
		*) TMPDIR=$TARE_TEST_MOUNTED ;;
		esac
		export TMPDIR
		echo "== tests work in $TMPDIR, an ext4 with a journal"
	fi
	rm -f "$image"
fi

work=$(mktemp -d)
# What was started beside this script ends with it, each in a process group of its own.
fetching=() building=() reading=() beside=()
trap 'for p in "${fetching[@]}" "${building[@]}" "${reading[@]}" "${beside[@]}"; do kill -TERM -- "-$p" 2>/dev/null; done; rm -rf "$work"' EXIT

# phase says what comes, and after how long.
phase() { printf '== %s (after %d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

# What Debian's release lacks is fetched while the sites are made: both daemons of virtiofs are tested; there is no
# MySQL and no VirtualBox; the agent for Windows needs a newer Wine; other programs' tests have disk images and logs of
# database servers; GitHub publishes what its API takes; ReFrame runs the test class of contrib; and no package has the
# control plane of Kubernetes, which is built of Go modules, once. Where this fails, the tests that need it fail with the
# reason.
elsewhere=(kube=TARE_KUBE virtiofsd=TARE_VIRTIOFSD mysql=TARE_MYSQL_ROOT wine=TARE_WINE_ROOT
	virtualbox=TARE_VIRTUALBOX_ROOT qemu-samples=TARE_QEMU_SAMPLES sql-logs=TARE_SQL_LOGS blkid-samples=TARE_BLKID_SAMPLES github-api=TARE_GITHUB_API
	reframe=TARE_REFRAME)
# The sites that tests serve in environments take minutes to install, and are kept. Where this fails, the tests that need them
# try again and say why.
stacks=()
[ $# -gt 0 ] || stacks=(mediawiki,pages=40,comments=10,users=5,pictures=4 wordpress,pages=40,comments=20,users=5,pictures=4)
set -m
for what in "${elsewhere[@]}"; do
	scripts/deps.sh "${what%=*}" >"$work/${what%=*}" 2>"$work/${what%=*}.log" &
	fetching+=($!)
done
tare=bin/tare
if [ ${#stacks[@]} -gt 0 ] && ! [ -x $tare ]; then
	tare=$work/tare
	$GO build -o "$tare" ./cmd/tare
fi
for stack in ${stacks[@]+"${stacks[@]}"}; do
	"$tare" stack build "$stack" >/dev/null 2>"$work/${stack%%,*}.log" &
	building+=($!)
done
set +m

# What needs processors and disturbs nobody is done while tests wait, with no priority: lint, that every platform
# compiles, and whether what is used has known faults. All is told at the end.
read_only() {
	env -u MAKEFLAGS make --no-print-directory lint tidy || return
	for p in linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64; do
		GOOS=${p%/*} GOARCH=${p#*/} $GO vet ./cmd/... ./internal/measure/... ./internal/sys/... || return
	done
	for p in darwin/arm64 windows/amd64 freebsd/amd64; do
		GOOS=${p%/*} GOARCH=${p#*/} $GO build -o /dev/null ./cmd/tare || return
	done
	scripts/vulnerable.sh
}
if [ $# -eq 0 ]; then
	set -m
	(renice -n 19 $BASHPID >/dev/null && read_only) >"$work/read_only" 2>&1 </dev/null &
	reading=($!)
	set +m
fi

phase "what is fetched"
for n in "${!elsewhere[@]}"; do
	name=${elsewhere[n]%=*} variable=${elsewhere[n]#*=}
	if wait "${fetching[n]}"; then
		export "$variable=$(<"$work/$name")"
	else
		unset "$variable"
	fi
	cat "$work/$name.log"
	rm -f "$work/$name" "$work/$name.log"
done
for n in "${!stacks[@]}"; do
	wait "${building[n]}" || echo "the site ${stacks[n]} could not be made"
	cat "$work/${stacks[n]%%,*}.log"
	rm -f "$work/${stacks[n]%%,*}.log"
done
fetching=() building=()

# standing lists what stands in the user's own folders: all that is right in them, and all of tare and of the programs
# that the tests start but what is kept there on purpose.
home=$HOME cache=${XDG_CACHE_HOME:-$HOME/.cache} config=${XDG_CONFIG_HOME:-$HOME/.config}
data=${XDG_DATA_HOME:-$HOME/.local/share} state=${XDG_STATE_HOME:-$HOME/.local/state}
kept=${TARE_TEST_CACHE:-$cache/tare}
mkdir -p "$kept/guest" "$cache/staticcheck" "$cache/biome" # the last two are of lint, which is at work
standing() {
	{
		find "$home" "$cache" "$config" "$data" "$state" -mindepth 1 -maxdepth 1
		find "$cache/tare" "$data/tare" "$home/.ssh" "$home/.docker" "$config/containers" "$data/containers" \
			\( -path "$kept/guest" -o -path "$kept/virtiofsd" -o -path "$kept/mysql" -o -path "$kept/wine" \
			-o -path "$kept/virtualbox" -o -path "$kept/vboxsf" -o -path "$kept/qemu-samples" -o -path "$kept/github-api" -o -path "$kept/sql-logs" -o -path "$kept/blkid-samples" \) -prune -o -print
	} 2>/dev/null | LC_ALL=C sort -u || true # some of these are not there
}
# The go command has folders of its own there.
for name in GOCACHE GOMODCACHE GOPATH GOENV; do
	value=$($GO env $name)
	export "$name=$value"
done
standing >"$work/before"

# The tests have a home of their own. What is the same for all is kept where the user has it: what Go built and fetched,
# and guest kernels, which are fetched before two test programs fetch them at once. Where that fails, the tests that need
# one say why.
export HOME=$work/home
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
mkdir -p "$HOME/.cache/tare"
ln -s "$kept/guest" "$HOME/.cache/tare/guest"
if [ -x bin/tare ]; then
	for kernel in "amd64 cloud" "amd64 generic" "arm64 cloud" "riscv64 generic"; do
		bin/tare guest fetch --arch "${kernel% *}" --flavour "${kernel#* }" || true
	done
fi
if TARE_VBOXSF_MODULES=$(TARE_TEST_CACHE=$kept scripts/deps.sh vboxsf); then
	export TARE_VBOXSF_MODULES
else
	unset TARE_VBOXSF_MODULES
fi

# goroutines lists the packages that start one.
goroutines() {
	$GO list -f '{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' ./... |
		while read -r package file; do
			if [ -n "$file" ] && grep -qE '^[[:space:]]*go (func\b|[[:alnum:]_.]+\()|\.Go\(|\bAfterFunc\(' "$file"; then
				echo "$package"
			fi
		done | sort -u
}

$GO build -o "$work/tested" ./scripts/tested
$GO build -modfile=tools/go.mod -o "$work/gotestsum" gotest.tools/gotestsum

# run NAME PACKAGES FLAG... tests packages and keeps what was said in a file of that name. make vet was before; without
# symbols and DWARF a test binary is linked sooner.
run() {
	local name=$1 packages=$2
	shift 2
	"$work/gotestsum" --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary=all --no-color \
		--rerun-fails=2 --rerun-fails-max-failures=8 --rerun-fails-abort-on-data-race --jsonfile "$work/$name.json" \
		--packages "$packages" -- -count=1 -timeout 60m -vet=off -ldflags="-s -w" "$@"
}
besides=()
ended() { besides+=(-runner "gotestsum of $1 ended with an error"); }

# queue NAME PACKAGE... splits packages into what one go test takes, in the order in which it is best begun: those that
# work in machines, in two rows, one after the other in each, so that two machines at most start beside each other; what
# else takes long, each by itself, and first those that mostly wait: the machines do not; the rest by the dozen. A line for
# each is in $work/queue.NAME, and the names of their runs are added to $runs.
hypervisors="tare/internal/lab/driver/virtualbox tare/internal/lab/driver/vagrant tare/internal/lab/driver/libvirt
	tare/internal/lab/driver/vmware tare/internal/lab/driver/serial"
emulators="tare/internal/lab/driver/qemu tare/internal/run/durability"
long="tare/internal/cli tare/internal/measure/workload/sql tare/internal/measure/workload/web
	tare/internal/lab/driver/container tare/internal/run/capture tare/internal/lab/deploy tare/internal/measure/dbserver
	tare/internal/sys/iperf3 tare/bench tare/internal tare/internal/lab/driver/ssh tare/scripts/release"
queue() {
	local name=$1 package n=0 row in_row rest=()
	shift
	: >"$work/queue.$name"
	add() {
		n=$((n + 1))
		echo "$name-$n $*" >>"$work/queue.$name"
		runs+=("$work/$name-$n")
	}
	among() { [[ " $* " == *" $package "* ]]; }
	for row in "$hypervisors" "$emulators"; do
		in_row=""
		for package in $row; do
			! among "$@" || in_row+="$package "
		done
		[ -z "$in_row" ] || add "$in_row"
	done
	for package in "$@"; do
		among $hypervisors $emulators $long || rest+=("$package")
	done
	for package in $long; do
		! among "$@" || add "$package"
	done
	set -- ${rest[@]+"${rest[@]}"}
	while [ $# -gt 0 ]; do
		add "${@:1:12}"
		shift $(($# < 12 ? $# : 12))
	done
}

# lane QUEUE... tests what is left in each queue, until nothing is. A row of machines waits for the same row of another
# queue, so that there are two at most.
lane() {
	local name queue line failed=0
	local TIMEFORMAT='== it took %1R s, and processors for %1U s in programs and %1S s in the kernel'
	for name in "$@"; do
		queue=$work/queue.$name
		while line=$(flock "$queue.lock" sh -c 'head -n 1 "$0" && sed -i 1d "$0"' "$queue") && [ -n "$line" ]; do
			time one "$name" "${line%% *}" "${line#* }" || failed=1
			phase "${line%% *} has ended"
		done
	done
	return $failed
}

# one tests one line of a queue, and the queue named race under the race detector.
one() (
	flags=(-p 1)
	if [ "$1" = race ]; then
		export CGO_ENABLED=1
		flags+=(-race -short)
	fi
	for row in hypervisors emulators; do
		if [[ " ${!row//[[:space:]]/ } " == *" ${3%% *} "* ]]; then
			exec 9>"$work/row.$row"
			flock 9
		fi
	done
	run "$2" "$3" "${flags[@]}" 9>&- # no server that a test starts keeps it
)

# lanes QUEUE... runs three of them at a time: there are two cores, and what works in machines waits for half of its
# time. Four were not faster, and met more tests that a busy machine disturbs. It prints what the others say when all have
# ended. A job of its own process group keeps its signals, which a shell without job control would have it ignore.
lanes() {
	local p
	set -m
	for p in 1 2; do
		lane "$@" >"$work/said.$p" 2>&1 &
		beside+=($!)
	done
	set +m
	lane "$@" || ended "a lane"
	for p in "${beside[@]}"; do
		wait "$p" || ended "a lane"
	done
	beside=()
	cat "$work"/said.*
}

runs=()
if [ $# -gt 0 ]; then
	phase "tests of $*"
	runs=("$work/given")
	run given "$*" -p 1 || ended "the given packages"
else
	# What the race detector looks at is judged last, as what is left out there ran before. It begins where no test is
	# left to begin, while the longest are still at work.
	phase "tests, and the race detector"
	queue tests $($GO list ./...)
	queues=(tests)
	if [ "$($GO env GOOS)" = linux ] && command -v gcc >/dev/null; then
		queue race $(goroutines)
		queues+=(race)
	fi
	lanes "${queues[@]}"
fi

if [ ${#reading[@]} -gt 0 ]; then
	phase "lint, every platform compiles, known faults of what is used"
	# Tests wait no more. With no priority the rest would take very long on a machine that others keep busy.
	renice -n 0 -g "${reading[0]}" >/dev/null 2>&1 || true
	wait "${reading[0]}" || besides+=(-failed "lint, a platform that does not compile, or a known fault of what is used")
	reading=()
	cat "$work/read_only"
fi

standing >"$work/after"
new=$(comm -13 "$work/before" "$work/after")
if [ -n "$new" ]; then
	besides+=(-failed "the tests left in the user's own folders: ${new//$'\n'/, }")
fi
phase "what failed, was skipped or was flaky"
"$work/tested" -allowed scripts/tested/allowed -artifacts "${TARE_ARTIFACTS:-}" "${besides[@]}" "${runs[@]/%/.json}"
