package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"tare/internal/sys/proc"
)

// aptMeta lists, best first, the packages that depend on the current kernel of a flavour: Debian's, then Ubuntu's.
func aptMeta(arch, flavour string) []string {
	if flavour == Cloud {
		return []string{"linux-image-cloud-" + arch, "linux-image-virtual"}
	}
	return []string{"linux-image-" + arch, "linux-image-generic"}
}

// apt runs apt's programs, with the machine's own index or with a private one.
type apt struct {
	arch    string
	private string // folder of the private index; "" for the machine's own
	sources string // file with the sources of the private index; "" for the machine's own sources
}

// options are the options for every apt program. The private index uses the machine's sources and keys, but has its own
// lists and no installed packages, so that dpkg's list of architectures stays unchanged. Downloads go to folders that
// only this user can read, so apt's own download user cannot be used.
func (a apt) options() []string {
	o := []string{"-o", "APT::Sandbox::User=" + currentUser(), "-o", "APT::Get::List-Cleanup=false"}
	if a.private == "" {
		return o
	}
	if a.sources != "" {
		o = append(o, "-o", "Dir::Etc::SourceList="+a.sources, "-o", "Dir::Etc::SourceParts=/dev/null")
	}
	for _, kv := range []string{
		"APT::Architecture=" + a.arch,
		"APT::Architectures::=" + a.arch,
		"Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"Acquire::IndexTargets::deb::CNF::DefaultEnabled=false",
		"Dir::State=" + a.private,
		"Dir::State::lists=" + filepath.Join(a.private, "lists"),
		"Dir::State::status=" + filepath.Join(a.private, "status"),
		"Dir::Cache=" + a.private,
		"Dir::Cache::archives=" + filepath.Join(a.private, "archives"),
	} {
		o = append(o, "-o", kv)
	}
	return o
}

func (a apt) run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := proc.Command(ctx, append(append([]string{program}, a.options()...), args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return proc.RunCmd(cmd, nil)
}

// update makes the private index and downloads its lists from the machine's sources.
func (a apt) update(ctx context.Context) error {
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.private, filepath.FromSlash(d)), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(a.private, "status"), nil, 0o600); err != nil {
		return err
	}
	_, err := a.run(ctx, a.private, "apt-get", "update")
	return err
}

// aptDownload downloads the kernel's package and, on Ubuntu, the package with its modules. It first uses the machine's
// own index. If that has no such kernel, is out of date or is of another architecture, it makes a private one.
func aptDownload(ctx context.Context, arch, flavour, dir string) ([]string, string, error) {
	private := apt{arch: arch, private: filepath.Join(dir, "apt")}
	if arch == hostArch() {
		files, label, err := apt{arch: arch}.kernel(ctx, flavour, dir)
		if err == nil || ctx.Err() != nil {
			return files, label, err
		}
	}
	updated := private.update(ctx)
	files, label, err := private.kernel(ctx, flavour, dir)
	if err != nil && ctx.Err() == nil && arch == "riscv64" {
		// Debian has it from release 13 on.
		if e := private.useStable(ctx); e == nil {
			updated = private.update(ctx)
			files, label, err = private.kernel(ctx, flavour, dir)
		}
	}
	if err != nil {
		// An unreachable source fails the update. That matters only if no other source had the kernel.
		return nil, "", errors.Join(err, updated)
	}
	return files, label, nil
}

// debianKeys are the keys of all releases of Debian.
const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

// useStable has the private index know the stable release of Debian alone, from the mirror that this machine uses.
func (a *apt) useStable(ctx context.Context) error {
	out, err := apt{}.run(ctx, "", "apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(CODENAME)",
		"Created-By: Packages")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		// Not the updates of a release, whose mirror may have nothing else.
		if len(f) != 3 || f[1] != "Debian" || strings.ContainsAny(f[2], "-/") {
			continue
		}
		keys := ""
		if readable(debianKeys) {
			keys = "[signed-by=" + debianKeys + "] "
		}
		sources := filepath.Join(a.private, "sources.list")
		if err := os.WriteFile(sources, []byte("deb "+keys+f[0]+" stable main\n"), 0o600); err != nil {
			return err
		}
		a.sources = sources
		return nil
	}
	return errors.New("this machine's apt knows no source of Debian")
}

func (a apt) kernel(ctx context.Context, flavour, dir string) ([]string, string, error) {
	var tried []string
	for _, meta := range aptMeta(a.arch, flavour) {
		top, err := a.show(ctx, meta)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		real := dependsOn(top["depends"], "linux-image-")
		if len(real) == 0 {
			tried = append(tried, meta+" does not depend on a kernel")
			continue
		}
		image, err := a.show(ctx, real[0])
		if err != nil {
			return nil, "", err
		}
		packages := append([]string{real[0]}, dependsOn(image["depends"], "linux-modules-")...)
		if _, err := a.run(ctx, dir, "apt-get", append([]string{"--quiet=2", "download"}, packages...)...); err != nil {
			return nil, "", fmt.Errorf("download %s: %w", strings.Join(packages, " "), err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err == nil && len(files) != len(packages) {
			err = fmt.Errorf("download %s: apt wrote %d files", strings.Join(packages, " "), len(files))
		}
		return files, real[0] + "_" + image["version"], err
	}
	return nil, "", fmt.Errorf("find a kernel package: %s", strings.Join(tried, "; "))
}

var packageRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]+$`) })

// show returns the fields of a package's current version.
func (a apt) show(ctx context.Context, name string) (map[string]string, error) {
	if !packageRE().MatchString(name) {
		return nil, fmt.Errorf("%q is not a package name", name)
	}
	out, err := a.run(ctx, "", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return nil, fmt.Errorf("look up package %s: %w", name, err)
	}
	f := packageFields(out)
	if f["version"] == "" {
		return nil, fmt.Errorf("look up package %s: it is not in the index", name)
	}
	return f, nil
}
