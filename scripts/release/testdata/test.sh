# What a user of the packages does, in a clean Debian system: called by TestRelease, which made them.
cd /root
export DEBIAN_FRONTEND=noninteractive

echo "== three commands: from a package to a verdict on two git revisions"
mkdir project
(
	cd project
	git init -q -b main .
	git config user.name tester
	git config user.email tester@tare.invalid
	printf '#!/bin/sh\necho "#!/bin/sh" >prog\necho "sleep 0.01" >>prog\nchmod +x prog\n' >build.sh
	git add build.sh
	git commit -q -m old
	git tag old
	sed -i 's/0.01/0.3/' build.sh
	git commit -q -a -m new
)
command -v tare && exit 1
apt-get -qq install ./tare_*.deb
cd project
tare ab -q --git old HEAD --build 'sh build.sh' -o /root/verdict -- ./prog >/root/said
cat /root/said
grep -q 'HEAD .* DIFFERENT' /root/said
git status --porcelain | grep . && exit 1
git worktree list | grep -c . | grep -qx 1
cd /root
tare verify verdict | grep -q 'are correct'

echo "== the package"
dpkg --verify tare
dpkg-query --show --showformat '${Version} ${Maintainer}\n' tare | grep '^99.1.0 '
test "$(stat -c '%a %U %G' /usr/bin/tare)" = '755 root root'
zcat /usr/share/doc/tare/changelog.Debian.gz | grep -m 1 '^tare (99.1.0) stable; urgency=low$'
zcat /usr/share/doc/tare/changelog.Debian.gz | grep -c '^  \* '
bash -c '. /usr/share/bash-completion/completions/tare && complete -p tare'
tare version | grep '^tare 99.1.0 build [0-9a-f]\{16\} '

echo "== tare doctor"
tare doctor >doctor
grep '^ok *local' doctor
grep '^missing *docker' doctor

echo "== man"
man -w tare-run
MANWIDTH=80 man -P cat tare-run >page
grep '^ *tare run ' page
grep 'tare 99.1.0' page
man -P cat tare-guest-fetch | grep -q 'EXIT STATUS'

echo "== tare run"
tare run -q -e host -w null -w cpu.prime:max=2000 --blocks 8 -o out
tare verify out | grep 'tare 99.1.0 build'

echo "== the rpm"
mkdir rpm installed
(cd rpm && rpm2cpio ../tare-*.rpm | cpio -idm --quiet --no-absolute-filenames)
cmp rpm/usr/bin/tare /usr/bin/tare
test -s rpm/usr/share/man/man1/tare-run.1.gz
rpm -qp --changelog tare-*.rpm | head -2
rpm -qp --changelog tare-*.rpm | grep -q '99.1.0$'
rpm -i --nodeps --root /root/installed tare-*.rpm
rpm -V --nodeps --root /root/installed tare
chroot installed /usr/bin/tare version | grep '^tare 99.1.0 '

echo "== nothing stays"
apt-get -qq purge tare
test ! -e /usr/bin/tare
test ! -e /usr/share/doc/tare
find /usr -name '*tare*' | grep . && exit 1
echo "== all is well"
