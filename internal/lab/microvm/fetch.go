package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/sys/proc"
)

// packager is a distribution's package tool. It downloads the packages of a kernel into dir, verifies their signatures,
// and returns their files.
type packager struct {
	tool     string
	download func(ctx context.Context, arch, flavour, dir string) (files []string, label string, err error)
}

func packagers() []packager {
	return []packager{{"apt-get", aptDownload}, {"apk", apkDownload}}
}

// Fetch downloads a distribution's kernel for guests of an architecture (GOARCH) in a flavour, Cloud or Generic, with
// this machine's package tool. It keeps what a guest needs below cache, or below DefaultCache if cache is empty. If
// that version is already there, it is not downloaded again. A download takes seconds to a minute and has 20 to 80 MB.
// Root is not needed.
func Fetch(ctx context.Context, cache, arch, flavour string) (Kernel, error) {
	k, err := fetch(ctx, cache, arch, flavour)
	if err != nil {
		return Kernel{}, fmt.Errorf("fetch guest kernel for %s: %w", arch, err)
	}
	return k, nil
}

func fetch(ctx context.Context, cache, arch, flavour string) (Kernel, error) {
	if !slices.Contains(Arches(), arch) {
		return Kernel{}, fmt.Errorf("the architecture must be one of %s", strings.Join(Arches(), ", "))
	}
	if !slices.Contains(Flavours(), flavour) {
		return Kernel{}, fmt.Errorf("the flavour must be one of %s, not %q", strings.Join(Flavours(), ", "), flavour)
	}
	if flavour == Cloud && DefaultFlavour(arch) != Cloud {
		return Kernel{}, fmt.Errorf("there is no kernel of flavour %s; %s", Cloud, Remedy(arch, ""))
	}
	cache, err := orDefault(cache)
	if err != nil {
		return Kernel{}, err
	}
	parent := filepath.Join(cache, arch, flavour)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return Kernel{}, err
	}
	// This is in the same folder as the final place, so that the last step is a rename. An interrupted fetch leaves no
	// partial kernel.
	tmp, err := os.MkdirTemp(parent, ".fetch-")
	if err != nil {
		return Kernel{}, err
	}
	defer os.RemoveAll(tmp)
	var tools []string
	for _, p := range packagers() {
		tools = append(tools, p.tool)
		if _, err := proc.LookPath(p.tool); err != nil {
			continue
		}
		files, label, err := p.download(ctx, arch, flavour, tmp)
		if err != nil {
			return Kernel{}, err
		}
		return install(ctx, files, label, Kernel{Arch: arch, Flavour: flavour}, parent, tmp)
	}
	return Kernel{}, fmt.Errorf("none of %s is installed on this machine; use an existing kernel: -e "+
		"'vm=qemu?kernel=/lib/modules/RELEASE/vmlinuz'",
		strings.Join(tools, ", "))
}

// install unpacks the packages and moves the wanted files to their place below parent.
func install(ctx context.Context, packages []string, label string, k Kernel, parent, tmp string) (Kernel, error) {
	stage := filepath.Join(tmp, "stage")
	if err := os.Mkdir(stage, 0o700); err != nil {
		return Kernel{}, err
	}
	var names []string
	for _, p := range packages {
		more, err := unpackPackage(ctx, p, stage)
		if err != nil {
			return Kernel{}, fmt.Errorf("%s: %w", filepath.Base(p), err)
		}
		names = append(names, more...)
	}
	k.Package = label
	if err := describe(stage, names, &k); err != nil {
		return Kernel{}, err
	}
	if err := writeManifest(stage, k); err != nil {
		return Kernel{}, err
	}
	final := filepath.Join(parent, sanitize(label))
	if old, err := openManifest(final); err == nil {
		return old, nil
	}
	// The existing folder is damaged, because it does not open. Another process may be installing the same kernel now.
	if err := os.RemoveAll(final); err != nil {
		return Kernel{}, err
	}
	if err := os.Rename(stage, final); err != nil {
		if other, e := openManifest(final); e == nil {
			return other, nil
		}
		return Kernel{}, err
	}
	return openManifest(final)
}

func unpackPackage(ctx context.Context, file, dir string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	open := openDeb
	if strings.HasSuffix(file, ".apk") {
		open = openAPK
	}
	t, err := open(&cancelReader{ctx, f})
	if err != nil {
		return nil, err
	}
	return extract(t, dir, kept)
}

// kept returns the path in a kernel's folder for a package's file: the image, the configuration, modules and their
// lists. It is "" for other files.
func kept(name string) string {
	name = strings.TrimPrefix(name, "usr/")
	if rest, ok := strings.CutPrefix(name, "boot/"); ok && !strings.Contains(rest, "/") {
		for _, prefix := range []string{"vmlinuz", "vmlinux", "config"} {
			if rest == prefix || strings.HasPrefix(rest, prefix+"-") {
				return rest
			}
		}
		return ""
	}
	rest, ok := strings.CutPrefix(name, "lib/modules/")
	if !ok {
		return ""
	}
	if _, isModule := ModuleName(rest); isModule || path.Base(rest) == modulesBuiltin {
		return "modules/" + rest
	}
	return ""
}

// describe finds the unpacked files, removes the modules that no guest needs and writes the index of the others.
func describe(dir string, names []string, k *Kernel) error {
	var modules []string
	for _, n := range names {
		switch {
		case strings.HasPrefix(n, "vmlinu"): // vmlinux is riscv64's
			k.Image = n
		case strings.HasPrefix(n, "config"):
			k.Config = n
		default:
			release, file, _ := strings.Cut(strings.TrimPrefix(n, "modules/"), "/")
			if k.Release == "" {
				k.Release, k.Modules = release, path.Join("modules", release)
			}
			if k.Release != release {
				return fmt.Errorf("the packages contain modules of two kernels, %s and %s", k.Release, release)
			}
			modules = append(modules, file)
		}
	}
	if k.Image == "" || k.Modules == "" {
		return errors.New("the packages contain no kernel with modules")
	}
	root := filepath.Join(dir, filepath.FromSlash(k.Modules))
	x, err := depmod(root, modules)
	if err != nil {
		return err
	}
	for _, f := range x.unwanted {
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(f))); err != nil {
			return err
		}
	}
	for name, text := range map[string][]byte{modulesDep: x.dep, modulesSoftdep: x.softdep, modulesAlias: x.alias} {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func sanitize(label string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+~-", r) {
			return r
		}
		return '_'
	}, strings.TrimLeft(label, "."))
}

// cancelReader stops reading when its context ends.
type cancelReader struct {
	ctx context.Context
	f   *os.File
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.f.Read(p)
}
