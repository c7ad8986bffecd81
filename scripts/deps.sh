#!/usr/bin/env bash
# Install what make needs beyond Go and Node.js: scripts/deps.sh [test|demo|bench]
# As root it installs; as anybody else it prints the one command that does. Silent when everything is here, and without
# apt, whose package names these are.
#
# scripts/deps.sh virtiofsd prints the path of a Rust virtiofsd for the tests. Debian has it from release 13 on; before
# that it is fetched from there, from the mirror that this machine uses, into a folder of the user's cache, with the
# libraries that it needs. Nothing is installed for it.
#
# scripts/deps.sh mysql prints a directory with an unpacked MySQL server and its libraries, downloaded in the same way from Debian
# unstable: releases have only MariaDB.
#
# scripts/deps.sh wine prints a directory with an unpacked Wine and its libraries, of Debian 13: what Go needs of Windows is not in
# the one of Debian 12.
#
# scripts/deps.sh virtualbox prints the root directory of a system with VirtualBox, in the same way from Debian unstable, which
# alone has it.
#
# scripts/deps.sh vboxsf prints a folder with the modules that a guest needs for VirtualBox's shared folders, built for the kernel
# that tare fetched.
#
# scripts/deps.sh qemu-samples prints the folder of the disk images of QEMU's own tests, fetched with its source package.
#
# scripts/deps.sh github-api prints the path of GitHub's published OpenAPI description, fetched by npm.
#
# scripts/deps.sh sql-logs prints the folder of the logs that the tests of pgBadger and Percona Toolkit read, fetched with
# their source packages.
#
# scripts/deps.sh blkid-samples prints the folder of the disk images of blkid's own tests, fetched with its source package.
#
# scripts/deps.sh kube prints the path of a Kubernetes control plane in one program, built of tools/kube with the Go modules that
# it names. That takes some minutes, once.
#
# scripts/deps.sh reframe prints the folder of a Python environment with ReFrame.
#
# scripts/deps.sh oha prints the path of oha, which a row of bench compares with. No release of Debian has it. cargo builds it, in
# some minutes, once.
set -euo pipefail

# Where what is fetched once is kept. Tests in another home name it.
cache=${TARE_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tare}

# apt_elsewhere DIR ARGUMENT...: an apt that knows the packages of one part of Debian only, and has its state, its lists and its
# settings in a folder of its own. Proxies and keys are the machine's.
apt_elsewhere() {
	local dir=$1
	shift
	apt-get -q -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
		-o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
		-o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none \
		-o Acquire::Retries=3 -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Update::Post-Invoke-Success= "$@"
}

# release is the name of the machine's own.
release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# elsewhere DIR SUITE COMPONENT [deb-src] makes such an apt, with the lists of that part of Debian, from the mirror that the machine's
# own release comes from.
elsewhere() {
	local dir=$1 mirror keys=
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v release="$(release)" '$2 == release { print $1; exit }')
	if [ -z "$mirror" ]; then
		echo "deps: the machine's apt knows no source of its own release, so there is nowhere to fetch $2 $3 from" >&2
		return 1
	fi
	mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
	: >"$dir/status"
	[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] || keys='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
	echo "${4:-deb} $keys $mirror $2 $3" >"$dir/sources.list"
	if ! apt_elsewhere "$dir" -o APT::Update::Error-Mode=any update >"$dir/log" 2>&1; then
		cat "$dir/log" >&2
		echo "deps: $mirror has no Debian $2 $3 that can be read" >&2
		return 1
	fi
}

# unpack_elsewhere DIR PACKAGE... unpacks packages of such an apt and all packages that they depend on into DIR/root.
unpack_elsewhere() {
	local dir=$1 packages file
	shift
	# No package is installed there, so apt lists all of them.
	packages=$(apt_elsewhere "$dir" -s --no-install-recommends install "$@" 2>"$dir/log" | awk '$1 == "Inst" { print $2 }') || true
	if [ -z "$packages" ]; then
		cat "$dir/log" >&2
		echo "deps: there is no $* in that part of Debian" >&2
		return 1
	fi
	# shellcheck disable=SC2086
	if ! (cd "$dir/cache" && apt_elsewhere "$dir" download $packages) >"$dir/log" 2>&1; then
		cat "$dir/log" >&2
		return 1
	fi
	mkdir "$dir/root"
	for file in "$dir"/cache/*.deb; do
		dpkg-deb --extract "$file" "$dir/root"
	done
}

# tree NAME GIVEN SUITE COMPONENTS PACKAGE... prints the directory of unpacked packages with all that they need: GIVEN, if it is not
# empty, or $cache/NAME, unpacked from that release of Debian.
tree() {
	local name=$1 given=$2 suite=$3 components=$4 dir=$cache/$1 work
	shift 4
	if [ -n "$given" ]; then
		echo "$given"
		return
	fi
	if ! [ -d "$dir" ]; then
		if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
			echo "deps: no $name here; give the root of a system with it by TARE_$(tr a-z A-Z <<<"$name")_ROOT=DIR" >&2
			return 1
		fi
		echo "deps: downloading $1 from Debian $suite" >&2
		mkdir -p "$cache"
		work=$(mktemp -d "$cache/$name.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		elsewhere "$work" "$suite" "$components" || return 1
		unpack_elsewhere "$work" "$@" || return 1
		chmod 755 "$work/root"
		mv "$work/root" "$dir"
	fi
	echo "$dir"
}

# vboxsf_modules prints a folder with the modules for VirtualBox's shared folders that the kernel's own source has, for the cloud
# kernel that `tare guest fetch` fetched: Debian builds them for its generic kernel only, which an interpreted processor does not
# unpack in minutes.
vboxsf_modules() {
	local found release dir work
	if [ -n "${TARE_VBOXSF_MODULES:-}" ]; then
		echo "$TARE_VBOXSF_MODULES"
		return
	fi
	found=$(find "$cache/guest/amd64/cloud/" -path '*/modules/*' -name modules.dep 2>/dev/null | sort -V | tail -1)
	release=$(basename "$(dirname "${found:-/}")")
	if [ "$release" = / ]; then
		echo "deps: no guest kernel here to build vboxsf for; run: tare guest fetch" >&2
		return 1
	fi
	dir=$cache/vboxsf/$release
	if ! [ -d "$dir" ]; then
		echo "deps: building vboxguest and vboxsf for kernel $release" >&2
		mkdir -p "$cache/vboxsf"
		work=$(mktemp -d "$cache/vboxsf/new.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		if ! vboxsf_build "$work" "$release" >"$work/log" 2>&1; then
			tail -20 "$work/log" >&2
			return 1
		fi
		mv "$work/out" "$dir"
	fi
	echo "$dir"
}

# vboxsf_build WORK RELEASE builds them into WORK/out with that kernel's headers, from the source of its package.
vboxsf_build() {
	local work=$1 release=$2 headers version file
	headers=linux-headers-$release
	version=$(sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p' <<<"$release")
	(cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$headers" "linux-source-$version" \
		$(apt-cache depends --no-recommends "$headers" | awk '$1 == "Depends:" && $2 ~ /^linux-(headers|kbuild)/ { print $2 }')) || return 1
	mkdir -p "$work/root" "$work/out"
	for file in "$work"/linux-headers-*.deb "$work"/linux-kbuild-*.deb; do
		dpkg-deb --extract "$file" "$work/root" || return 1
	done
	dpkg-deb --fsys-tarfile "$work"/linux-source-*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.*' >"$work/source.tar.xz" || return 1
	tar -xJf "$work/source.tar.xz" -C "$work" --strip-components=1 --wildcards '*/drivers/virt/vboxguest/*' '*/fs/vboxsf/*' || return 1
	# The packages name each other by where they would be installed.
	grep -rlE '/usr/(src|lib)/linux-' "$work/root/usr/src/$headers" --include=Makefile --include='*.mk' |
		xargs -r sed -i -E "s#/usr/(src|lib)/linux-#$work/root/usr/\\1/linux-#g"
	find "$work/root/usr" -type l | while read -r file; do
		case $(readlink "$file") in
		/usr/*) ln -sfn "$work/root$(readlink "$file")" "$file" ;;
		esac
	done
	echo 'obj-m += drivers/virt/vboxguest/ fs/vboxsf/' >"$work/Kbuild"
	make -C "$work/root/usr/src/$headers" M="$work" CONFIG_VBOXGUEST=m CONFIG_VBOXSF_FS=m modules || return 1
	strip --strip-debug "$work"/drivers/virt/vboxguest/vboxguest.ko "$work"/fs/vboxsf/vboxsf.ko
	mv "$work"/drivers/virt/vboxguest/vboxguest.ko "$work"/fs/vboxsf/vboxsf.ko "$work/out"
}

# nonfree_iozone installs it where apt does not know it: it is in Debian's non-free component, which few machines have switched on.
# It is installed as it is there; the machine's sources stay as they are.
nonfree_iozone() {
	local work
	work=$(mktemp -d)
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	echo "deps: fetching iozone3 of Debian's non-free component"
	elsewhere "$work" "$(release)" non-free || return 1
	chmod 755 "$work"
	(cd "$work" && apt_elsewhere "$work" download iozone3) || return 1
	"${install[@]}" "$work"/iozone3_*.deb
}

# rust_virtiofsd prints the path of one that runs.
rust_virtiofsd() {
	local found dir loader
	for found in "${TARE_VIRTIOFSD:-}" /usr/libexec/virtiofsd /usr/lib/virtiofsd; do
		if [ -n "$found" ] && "$found" --help 2>/dev/null | grep -q -e --shared-dir; then
			echo "$found"
			return
		fi
	done
	dir=$cache/virtiofsd
	if [ -x "$dir/virtiofsd" ] && "$dir/virtiofsd" --version >/dev/null 2>&1; then
		echo "$dir/virtiofsd"
		return
	fi
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "deps: no Rust virtiofsd here; name one with TARE_VIRTIOFSD=PATH" >&2
		return 1
	fi
	echo "deps: fetching the virtiofsd of Debian 13" >&2
	mkdir -p "$cache"
	local work
	work=$(mktemp -d "$cache/virtiofsd.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	elsewhere "$work" trixie main || return 1
	unpack_elsewhere "$work" virtiofsd || return 1
	loader=$(cd "$work/root" && find usr/lib* -name 'ld-linux-*.so.*' | head -1)
	# It is run by the loader and with the libraries of its own release: this machine's C library may be older.
	cat >"$work/virtiofsd" <<-WRAPPER
		#!/bin/sh
		exec "$dir/root/$loader" --library-path "$(cd "$work/root" && find usr/lib -name '*.so*' -printf '%h\n' | sort -u | sed "s|^|$dir/root/|" | paste -sd:)" "$dir/root/usr/libexec/virtiofsd" "\$@"
	WRAPPER
	chmod +x "$work/virtiofsd"
	rm -rf "$work/state" "$work/cache" "$work/status" "$work/sources.list" "$work/log" "$dir"
	mv "$work" "$dir"
	if ! "$dir/virtiofsd" --version >&2; then
		echo "deps: the virtiofsd of Debian 13 does not run here" >&2
		return 1
	fi
	echo "$dir/virtiofsd"
}

# kube prints the path of a control plane. It is kept by what it is built of, and not built in the user's cache of Go's, where
# what is needed once would stay as gigabytes.
kube() {
	local source dir key work
	if [ -n "${TARE_KUBE:-}" ]; then
		echo "$TARE_KUBE"
		return
	fi
	source=$(dirname "$0")/../tools/kube
	key=$(cat "$source/go.mod" "$source/go.sum" "$source/main.go" | sha256sum | cut -c1-16)
	dir=$cache/kube/$key
	if ! [ -x "$dir/kube" ]; then
		echo "deps: building a control plane of Kubernetes; this takes some minutes" >&2
		mkdir -p "$cache/kube"
		work=$(mktemp -d "$cache/kube/new.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		mkdir "$work/out" "$work/cache"
		if ! (cd "$source" && GOCACHE=$work/cache CGO_ENABLED=0 ${GO:-go} build -trimpath -buildvcs=false -ldflags='-s -w' \
			-o "$work/out/kube" .) >&2; then
			echo "deps: no control plane of Kubernetes could be built" >&2
			return 1
		fi
		mv "$work/out" "$dir"
	fi
	echo "$dir/kube"
}

# reframe prints the folder of a Python environment with it.
reframe() {
	local version=4.10.4 dir work
	if [ -n "${TARE_REFRAME:-}" ]; then
		echo "$TARE_REFRAME"
		return
	fi
	dir=$cache/reframe-$version
	if ! "$dir/bin/reframe" --version >/dev/null 2>&1; then
		if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
			echo "deps: no Python with venv here for ReFrame; on Debian that is the package python3-venv" >&2
			return 1
		fi
		echo "deps: installing ReFrame $version" >&2
		mkdir -p "$cache"
		rm -rf "$dir"
		# Scripts of such an environment name its folder, so it is made where it stays.
		if ! python3 -m venv "$dir" >&2 || ! "$dir/bin/pip" install --quiet --disable-pip-version-check \
			"reframe-hpc==$version" >&2; then
			rm -rf "$dir"
			return 1
		fi
	fi
	echo "$dir"
}

# oha prints the path of one that runs.
oha() {
	local version=1.16.0 cargo dir work
	if [ -n "${TARE_OHA:-}" ]; then
		echo "$TARE_OHA"
		return
	fi
	dir=$cache/oha-$version
	if ! "$dir/bin/oha" --version >/dev/null 2>&1; then
		# rustup puts cargo where not every shell looks.
		if ! cargo=$(PATH=$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin command -v cargo); then
			echo "deps: no cargo here to build oha; name one with TARE_OHA=PATH" >&2
			return 1
		fi
		echo "deps: building oha $version; this takes some minutes" >&2
		mkdir -p "$cache"
		work=$(mktemp -d "$dir.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		if ! (cd "$work" && PATH=$(dirname "$cargo"):$PATH CARGO_TARGET_DIR=$work/target "$cargo" install --quiet --locked \
			--version "$version" --root "$work/out" oha) >"$work/log" 2>&1; then
			tail -20 "$work/log" >&2
			echo "deps: oha $version could not be built with $("$cargo" --version)" >&2
			return 1
		fi
		rm -rf "$dir"
		mv "$work/out" "$dir"
	fi
	echo "$dir/bin/oha"
}

# samples NAME GIVEN UNPACK PACKAGE... prints the folder of sample files that other programs keep for their own tests, from
# their source packages: GIVEN, if it is not empty, or $cache/NAME. UNPACK WORK puts them from there into WORK/out.
samples() {
	local dir=$cache/$1 name=$1 given=$2 unpack=$3 work
	shift 3
	if [ -n "$given" ]; then
		echo "$given"
		return
	fi
	if ! [ -d "$dir" ]; then
		if ! command -v apt-get >/dev/null; then
			echo "deps: no $name here; name their folder with TARE_$(tr a-z- A-Z_ <<<"$name")=DIR" >&2
			return 1
		fi
		echo "deps: fetching the source packages of $* for their samples" >&2
		mkdir -p "$cache"
		work=$(mktemp -d "$dir.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		elsewhere "$work" "$(release)" main deb-src || return 1
		if ! (cd "$work" && apt_elsewhere "$work" source --download-only --tar-only "$@") >"$work/log" 2>&1; then
			cat "$work/log" >&2
			return 1
		fi
		mkdir "$work/out"
		"$unpack" "$work" || return 1
		mv "$work/out" "$dir"
	fi
	echo "$dir"
}

# Disk images.
qemu_samples() {
	tar -xf "$1"/qemu_*.orig.tar.* -C "$1/out" --wildcards --strip-components=4 '*/tests/qemu-iotests/sample_images/*'
}

# Logs of database servers.
sql_logs() {
	mkdir "$1/out/pgbadger" "$1/out/percona" &&
		tar -xf "$1"/pgbadger_*.orig.tar.* -C "$1/out/pgbadger" --wildcards --strip-components=3 '*/t/fixtures/*' &&
		tar -xf "$1"/percona-toolkit_*.orig.tar.* -C "$1/out/percona" --wildcards --strip-components=4 \
			'*/t/lib/samples/slowlogs/*' '*/t/lib/samples/genlogs/*'
}

# Disk images of file systems and containers of many kinds.
blkid_samples() {
	tar -xf "$1"/util-linux_*.orig.tar.* -C "$1/out" --wildcards --strip-components=4 '*/tests/ts/blkid/images-*'
}

# github_api prints the path of the description, of one release of the package that GitHub's own client is made of.
github_api() {
	local file=$cache/github-api/api.github.com-$1.json work
	if [ -n "${TARE_GITHUB_API:-}" ]; then
		echo "$TARE_GITHUB_API"
		return
	fi
	if ! [ -e "$file" ]; then
		if ! command -v npm >/dev/null; then
			echo "deps: no npm here to fetch GitHub's description with; name the file with TARE_GITHUB_API=FILE" >&2
			return 1
		fi
		mkdir -p "$cache/github-api"
		work=$(mktemp -d "$cache/github-api/new.XXXXXX")
		# shellcheck disable=SC2064
		trap "rm -rf '$work'" EXIT
		if ! (cd "$work" && npm pack --silent "@octokit/openapi@$1") >"$work/log" 2>&1; then
			cat "$work/log" >&2
			return 1
		fi
		tar -xzf "$work"/octokit-openapi-*.tgz -C "$work" package/generated/api.github.com.json
		mv "$work/package/generated/api.github.com.json" "$file"
	fi
	echo "$file"
}

case ${1:-} in
github-api)
	github_api 23.0.2
	exit
	;;
virtiofsd)
	rust_virtiofsd
	exit
	;;
mysql)
	tree mysql "${TARE_MYSQL_ROOT:-}" sid main mysql-server-core
	exit
	;;
wine)
	tree wine "${TARE_WINE_ROOT:-}" trixie main wine64
	exit
	;;
virtualbox)
	# Nothing is configured: what its programs need is the files. The kernel's driver is only wanted as source, which is not built.
	tree virtualbox "${TARE_VIRTUALBOX_ROOT:-}" sid "main contrib" virtualbox virtualbox-source python3-minimal base-files
	exit
	;;
vboxsf)
	vboxsf_modules
	exit
	;;
qemu-samples)
	samples qemu-samples "${TARE_QEMU_SAMPLES:-}" qemu_samples qemu
	exit
	;;
kube)
	kube
	exit
	;;
reframe)
	reframe
	exit
	;;
oha)
	oha
	exit
	;;
blkid-samples)
	samples blkid-samples "${TARE_BLKID_SAMPLES:-}" blkid_samples util-linux
	exit
	;;
sql-logs)
	samples sql-logs "${TARE_SQL_LOGS:-}" sql_logs pgbadger percona-toolkit
	exit
	;;
esac

case ${1:-test} in
# ipxe-qemu is only recommended by QEMU, which does not start with a network card when the card's ROM is missing.
test) packages=(qemu-system-x86 qemu-system-arm opensbi qemu-utils ipxe-qemu docker.io podman openssh-server openssh-client
	e2fsprogs iproute2 busybox-static strace linux-perf fio sysbench mbw hyperfine jq curl gcc libc6-dev iperf3 wrk nginx-light apache2-bin apache2-utils php-fpm
	postgresql postgresql-contrib mariadb-server sqlite3 percona-toolkit mmdebstrap
	nfs-ganesha nfs-ganesha-vfs samba smbclient rpcbind sshfs rsync groff-base exfatprogs
	libvirt-daemon libvirt-clients dnsmasq-base open-vm-tools vagrant vagrant-libvirt vagrant-sshfs make chromium fonts-dejavu-core bzip2 xz-utils xfsprogs btrfs-progs dosfstools ntfs-3g attr
	xorriso isolinux syslinux-common systemd-boot-efi mtools ovmf slurm-wlm slurmdbd munge python3-venv ansible-core parallel
	cryptsetup-bin f2fs-tools nilfs-tools jfsutils) ;;
demo) packages=(qemu-system-x86 ipxe-qemu e2fsprogs) ;;
bench) packages=(fio sysbench mbw iperf3 hyperfine gcc libc6-dev qemu-system-x86 ipxe-qemu qemu-utils e2fsprogs docker.io iproute2 bzip2 wrk apache2-utils nginx-light mariadb-server postgresql percona-toolkit) ;;
*)
	echo "usage: scripts/deps.sh [test|demo|bench|virtiofsd|mysql|wine|virtualbox|vboxsf|qemu-samples|github-api|sql-logs|blkid-samples|kube|reframe|oha]" >&2
	exit 2
	;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	exit 0
fi

# The Rust virtiofsd is a package from Debian 13 on; see rust_virtiofsd for what comes before.
if [ "${1:-test}" = test ] && apt-cache show virtiofsd >/dev/null 2>&1; then
	packages+=(virtiofsd)
fi

# From Debian 13 on QEMU for riscv64 is a package of its own.
if [ "${1:-test}" = test ]; then
	if apt-cache show qemu-system-riscv >/dev/null 2>&1; then
		packages+=(qemu-system-riscv)
	else
		packages+=(qemu-system-misc)
	fi
fi

# A virtual machine of the machine's own kind is what demo boots.
if [ "${1:-test}" = demo ] && [ "$(dpkg --print-architecture)" = arm64 ]; then
	packages=(qemu-system-arm ipxe-qemu e2fsprogs)
fi

# From Debian 13 on the client is a package of its own, which docker.io only recommends.
if [ "${1:-test}" = test ] && ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
	packages+=(docker-cli)
fi

missing=()
for p in "${packages[@]}"; do
	status=$(dpkg-query --show --showformat='${db:Status-Status}' "$p" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$p")
done
# iozone is compared with in tests and bench; without it, they say so.
unknown=
if [ "${1:-test}" != demo ] && ! command -v iozone >/dev/null; then
	unknown=iozone3
fi
if [ ${#missing[@]} -eq 0 ] && [ -z "$unknown" ]; then
	exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${missing[*]} $unknown; get them with" >&2
	echo "  sudo scripts/deps.sh ${1:-test}" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
# Recommended packages would bring a desktop's worth of emulator front ends. The lock is another apt's: wait for it.
install=(apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends)

# The lists of a fresh container are empty, and those of an old machine name versions that are gone: both show as a
# failing dry run or a failing download, and are cured in the same way.
update() {
	for try in 1 2 3; do
		# The lock of the lists is not covered by DPkg::Lock::Timeout.
		if apt-get -q -o Acquire::Retries=3 update; then
			return 0
		fi
		echo "deps: apt-get update failed, try $try of 3" >&2
		sleep $((try * 5))
	done
	return 1
}

if [ ${#missing[@]} -gt 0 ]; then
	echo "deps: installing ${missing[*]}"
	if ! apt-get -q -s install --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
		update
		"${install[@]}" "${missing[@]}"
	elif ! "${install[@]}" "${missing[@]}"; then
		update
		"${install[@]}" "${missing[@]}"
	fi
fi
if [ -n "$unknown" ]; then
	if apt-cache show iozone3 >/dev/null 2>&1; then
		"${install[@]}" iozone3
	else
		nonfree_iozone || echo "deps: going on without iozone" >&2
	fi
fi
