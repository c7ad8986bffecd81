package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/internal/sys/proc"
)

// build makes the image in a temporary folder and renames it to its final place at the end.
func build(ctx context.Context, o Options, final string) (_ Image, err error) {
	parent := filepath.Dir(final)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return Image{}, err
	}
	if err := needed(); err != nil {
		return Image{}, err
	}
	release, err := lock(ctx, filepath.Join(parent, ".lock-"+o.key()), o.Progress)
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if !o.Refresh {
		if img, err := openImage(final, o.key()); err == nil { // another process built it while this one waited
			return img, nil
		}
	}
	tmp, err := os.MkdirTemp(parent, ".build-")
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, discard(tmp)) }()
	root := filepath.Join(tmp, "root")
	o.Progress("installing packages")
	tool, err := bootstrap(ctx, o, root)
	if err != nil {
		return Image{}, err
	}
	img := Image{Key: o.key(), Suite: o.Suite, Arch: o.Arch, Packages: o.Packages, Size: o.Size, UUID: uuid(o.key()),
		Tool: tool}
	if img.Versions, err = versions(ctx, root, o.Packages); err != nil {
		return Image{}, err
	}
	if err := tidy(root); err != nil {
		return Image{}, err
	}
	stage := filepath.Join(tmp, "stage")
	if err := os.Mkdir(stage, 0o700); err != nil {
		return Image{}, err
	}
	o.Progress("writing the file system")
	if err := writeExt4(ctx, root, filepath.Join(stage, imageName), img); err != nil {
		return Image{}, err
	}
	if err := seal(ctx, stage, img); err != nil {
		return Image{}, err
	}
	return img, publish(stage, final, &img, o)
}

// publish moves a finished image to its place. Without file locks, another process may have done so meanwhile; then its
// image is used.
func publish(stage, final string, img *Image, o Options) error {
	if !o.Refresh {
		if other, err := openImage(final, o.key()); err == nil {
			*img = other
			return nil
		}
	}
	// The existing image was changed, or newer packages are wanted. A virtual machine that has it open can still read
	// it.
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	err := os.Rename(stage, final)
	got, openErr := openImage(final, o.key())
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	*img = got
	return nil
}

// needed reports missing programs and rights before the build starts.
func needed() error {
	for _, program := range []string{"apt-get", "mke2fs", "unshare"} {
		if _, err := proc.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed on this machine; root images are built on Debian or a derivative, "+
				"with e2fsprogs and util-linux", program)
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("building a root image needs root, because its files belong to several users; run tare " +
			"guest build as root, or use an image that you have")
	}
	return nil
}

// isolated runs a program in its own mount namespace. Bootstrapping mounts /proc, /sys and parts of /dev inside the new
// system. A killed build must leave no such mount, because removing its folder would then reach the host's files.
func isolated(ctx context.Context, argv ...string) *proc.Cmd {
	cmd := proc.Command(ctx, append([]string{"unshare", "--mount", "--propagation", "private", "--"}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/root",
		"DEBIAN_FRONTEND=noninteractive"}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// maxTold bounds the number of a program's error lines that are repeated.
const maxTold = 3

// telling is an error of a program that isolated ran, with the program's name and its first error lines. The later
// lines only say that a program failed. If a package could not be installed, that is its name and what its script said.
func telling(err error, program string) error {
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok {
		return err
	}
	told := unpacked(x.Stderr)
	for l := range strings.Lines(x.Stderr) {
		if len(told) > 0 && strings.HasPrefix(l, "E: Sub-process ") { // it was dpkg, which has said more
			continue
		}
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "E: ") && !strings.HasSuffix(l, " failed") && !strings.HasSuffix(l, " failed to run") &&
			!slices.Contains(told, l) {
			told = append(told, l)
		}
	}
	said := x.Stderr
	if len(told) > 0 {
		said = strings.Join(told[:min(len(told), maxTold)], "; ")
	}
	return &proc.ExitError{Argv: []string{program}, Code: x.Code, Stderr: said, Err: x.Err}
}

// unpacked are dpkg's errors: of each package that failed, what dpkg says in two lines, and the line before, which is
// the last of the package's own script, if it said anything.
func unpacked(text string) (told []string) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !strings.HasPrefix(l, "dpkg: error processing ") || i+1 == len(lines) {
			continue
		}
		said := strings.TrimSpace(l) + " " + strings.TrimSpace(lines[i+1])
		if i > 0 && lines[i-1] != "" && !progress().MatchString(lines[i-1]) {
			said += " (" + strings.TrimSpace(lines[i-1]) + ")"
		}
		if !slices.Contains(told, said) {
			told = append(told, said)
		}
	}
	return told
}

// progress matches dpkg's message about a package that it begins with.
var progress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Setting up|Unpacking|Preparing to unpack|Selecting|Processing triggers|\(Reading) `)
})

// bootstrap installs the system into root with mmdebstrap or else debootstrap, and returns that program's name and
// version.
func bootstrap(ctx context.Context, o Options, root string) (string, error) {
	lines, err := sources(ctx, o.Suite)
	if err != nil {
		return "", err
	}
	lines = append(lines, o.more...)
	for _, b := range []struct {
		name string
		run  func(context.Context, Options, string, []source) error
	}{{"mmdebstrap", mmdebstrap}, {"debootstrap", debootstrap}} {
		if _, err := proc.LookPath(b.name); err != nil {
			continue
		}
		out, err := proc.Run(ctx, nil, b.name, "--version")
		if err != nil {
			return "", err
		}
		version := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), b.name))
		return b.name + " " + version, b.run(ctx, o, root, lines)
	}
	return "", errors.New("neither mmdebstrap nor debootstrap is installed; install one: apt-get install mmdebstrap")
}

func mmdebstrap(ctx context.Context, o Options, root string, lines []source) error {
	options, err := settings(ctx)
	if err != nil {
		return err
	}
	argv := []string{"mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--architectures=" + o.Arch,
		"--aptopt=APT::Install-Recommends \"false\";"}
	for _, line := range options {
		argv = append(argv, "--aptopt="+line)
	}
	if len(o.Packages) > 0 {
		argv = append(argv, "--include="+strings.Join(o.Packages, ","))
	}
	if needsNoCluster(o.Packages) {
		argv = append(argv,
			`--essential-hook=mkdir -p "$1/etc/postgresql-common" && echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"`)
	}
	argv = append(argv, o.Suite, root, "-")
	var list strings.Builder
	for _, s := range lines {
		fmt.Fprintln(&list, s.line())
	}
	_, err = proc.RunCmd(isolated(ctx, argv...), strings.NewReader(list.String()))
	return telling(err, "mmdebstrap")
}

// needsNoCluster tells whether installing a package would create a database cluster, 40 MB that nobody uses.
func needsNoCluster(packages []string) bool {
	for _, p := range packages {
		if strings.HasPrefix(p, "postgresql") {
			return true
		}
	}
	return false
}

// debootstrap takes one source and no apt configuration; only mmdebstrap includes updates.
func debootstrap(ctx context.Context, o Options, root string, lines []source) error {
	argv := []string{"debootstrap", "--variant=minbase", "--arch=" + o.Arch}
	if len(o.Packages) > 0 {
		argv = append(argv, "--include="+strings.Join(o.Packages, ","))
	}
	argv = append(argv, o.Suite, root, lines[0].uri)
	_, err := proc.RunCmd(isolated(ctx, argv...), nil)
	if err = telling(err, "debootstrap"); err != nil {
		// debootstrap's last message is "see the log", but the log is in the folder that will be removed.
		if log, e := os.ReadFile(filepath.Join(root, "debootstrap", "debootstrap.log")); e == nil {
			tail := log[max(0, len(log)-1000):]
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(proc.Printable(tail)))
		}
	}
	return err
}

// versions asks the package database of the new system.
func versions(ctx context.Context, root string, packages []string) (map[string]string, error) {
	found := map[string]string{}
	if len(packages) == 0 {
		return found, nil
	}
	argv := append([]string{"dpkg-query", "--admindir=" + filepath.Join(root, "var/lib/dpkg"), "--show",
		"--showformat=${Package} ${Version}\n"}, packages...)
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		return nil, fmt.Errorf("list the packages that were installed: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[name] = version
		}
	}
	for _, p := range packages {
		if found[p] == "" {
			return nil, fmt.Errorf("package %s was not installed", p)
		}
	}
	return found, nil
}

// tidy removes what came from this machine: its host name and name servers. It works inside the new root, so that no
// link leads out of it.
func tidy(root string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for name, text := range map[string]string{
		"etc/hostname": "tare\n", "etc/hosts": "127.0.0.1 localhost tare\n::1 localhost\n", "etc/resolv.conf": "",
		"etc/fstab": "LABEL=" + Label + " / ext4 defaults 0 0\n", "etc/machine-id": "",
	} {
		if err := r.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := r.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeExt4 writes everything below root to a new file system. The UUID and the hash seed come from the key, so that
// the same packages give the same layout.
func writeExt4(ctx context.Context, root, path string, img Image) error {
	argv := []string{"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", Label, "-U", img.UUID,
		"-E", "hash_seed=" + img.UUID + ",root_owner=0:0", "-d", root, path, strconv.FormatInt(img.Size>>10, 10) + "k"}
	if _, err := proc.Run(ctx, nil, argv...); err != nil {
		return fmt.Errorf("write the file system: %w; use a larger --size if the packages do not fit", err)
	}
	if err := os.Truncate(path, img.Size); err != nil { // the full size, even if mke2fs left the end unwritten
		return err
	}
	if _, err := proc.Run(ctx, nil, "e2fsck", "-f", "-n", path); err != nil {
		return fmt.Errorf("check the new file system: %w", err)
	}
	return nil
}

// discard removes a build's folder, unless a file system of the host is mounted in it.
func discard(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && strings.Contains(string(mounts), " "+dir+"/") {
		return fmt.Errorf("remove %s: a file system is mounted below it; unmount it, then remove the folder", dir)
	}
	return os.RemoveAll(dir)
}
