// Package microvm prepares what a micro-VM boots: a distribution's stock kernel with its modules, and an initramfs that
// tare writes itself.
//
// It is opinionated about the source of a kernel. It builds no kernel and downloads no image. The distribution's own
// package tool downloads the kernel package, with the user's mirrors and proxies, and checks its signature. The user's
// cache folder keeps only the kernel, its configuration and the few modules that a guest may need, with a hash of each.
// Root is not needed. The package is treated as untrusted input: it is read in this process, with bounds, and no path
// or link leads out of the folder.
package microvm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/suggest"
)

// The flavours of kernels. Cloud is the smaller one: it has virtio and few other drivers; it lacks 9p and e1000.
const (
	Cloud   = "cloud"
	Generic = "generic"
	Host    = "host" // the kernel installed on this machine
	Custom  = "file" // a kernel image that the user named
)

// Flavours are the flavours that Fetch can download.
func Flavours() []string { return []string{Cloud, Generic} }

// Arches are the architectures of guests, as GOARCH.
func Arches() []string { return []string{"amd64", "arm64", "riscv64"} }

// DefaultFlavour is the smallest one that there is for an architecture (GOARCH).
func DefaultFlavour(arch string) string {
	if arch == "riscv64" {
		return Generic
	}
	return Cloud
}

// Kernel is a bootable kernel.
type Kernel struct {
	Arch    string `json:"arch"`    // GOARCH
	Flavour string `json:"flavour"` // Cloud, Generic, Host or Custom
	Release string `json:"release"` // the output of uname -r; "" if it is not known
	Package string `json:"package"` // the package's name and version; "" if it came from no package
	// Image, Config and Modules are paths. Modules is the folder with modules.dep; it and Config may be "".
	Image   string `json:"image"`
	Config  string `json:"config,omitempty"`
	Modules string `json:"modules,omitempty"`
}

// ErrNoKernel is wrapped by the error of Find if there is no kernel. Remedy says how to get one.
var ErrNoKernel = errors.New("there is no kernel for a guest")

// DefaultCache returns the folder in which fetched kernels are kept: tare/guest in the user's cache folder.
func DefaultCache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder for guest kernels: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return filepath.Join(base, "tare", "guest"), nil
}

// Remedy is the command that downloads a kernel.
func Remedy(arch, flavour string) string {
	s := "run: tare guest fetch"
	if arch != "" && arch != hostArch() {
		s += " --arch " + arch
	}
	if flavour == "" {
		flavour = DefaultFlavour(arch)
	}
	if flavour != Cloud {
		s += " --flavour " + flavour
	}
	return s
}

// List returns the kernels in the cache folder, newest release first. An empty cache means DefaultCache. A kernel whose
// files do not match its manifest is left out.
func List(cache string) ([]Kernel, error) {
	cache, err := orDefault(cache)
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob(filepath.Join(cache, "*", "*", "*", manifestName))
	if err != nil {
		return nil, err
	}
	var kernels []Kernel
	for _, m := range dirs {
		if k, err := openManifest(filepath.Dir(m)); err == nil {
			kernels = append(kernels, k)
		}
	}
	slices.SortStableFunc(kernels, func(a, b Kernel) int {
		return cmp.Or(cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Flavour, b.Flavour),
			-compareReleases(a.Release, b.Release))
	})
	return kernels, nil
}

// Find returns the kernels for a guest of an architecture (GOARCH), best first. which is a flavour, the release of a
// cached kernel, the path of a kernel image, or "" for any; the order is then cloud, generic, host. An empty cache
// means DefaultCache. It returns at least one kernel, or an error that wraps ErrNoKernel.
func Find(cache, arch, which string) ([]Kernel, error) {
	if strings.ContainsRune(which, filepath.Separator) {
		return fromFile(arch, which)
	}
	all, err := List(cache)
	if err != nil {
		return nil, err
	}
	var found []Kernel
	names := append(Flavours(), Host)
	for _, k := range all {
		if k.Arch != arch {
			continue
		}
		names = append(names, k.Release)
		if which == "" || which == k.Flavour || which == k.Release {
			found = append(found, k)
		}
	}
	if which == "" || which == Host {
		found = append(found, onHost(arch)...)
	}
	if len(found) > 0 {
		return found, nil
	}
	if which == Host {
		return nil, fmt.Errorf("%w: this host has no %s kernel whose image and modules can be read", ErrNoKernel, arch)
	}
	if which != "" && !slices.Contains(Flavours(), which) {
		return nil,
			fmt.Errorf("%w: %s is neither a flavour (%s, %s), nor the release of a fetched kernel, nor a path%s",
				ErrNoKernel, which, Cloud, Generic, suggest.DidYouMean(which, names))
	}
	if which != "" {
		which = " of flavour " + which
	}
	return nil, fmt.Errorf("%w: none was fetched for %s%s, and this host has none that can be read", ErrNoKernel, arch,
		which)
}

func fromFile(arch, image string) ([]Kernel, error) {
	info, err := os.Stat(image)
	if err != nil {
		return nil, fmt.Errorf("open kernel: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open kernel: %s is not a file", image)
	}
	k := Kernel{Arch: arch, Flavour: Custom, Image: image}
	// The usual pairs are /boot/vmlinuz-R with /lib/modules/R, and /lib/modules/R/vmlinuz.
	if r, ok := strings.CutPrefix(filepath.Base(image), "vmlinuz-"); ok {
		k.Release = r
		for _, dir := range []string{filepath.Join(filepath.Dir(image), "..", "lib", "modules", r),
			filepath.Join("/lib/modules", r)} {
			if readable(filepath.Join(dir, modulesDep)) {
				k.Modules = filepath.Clean(dir)
				break
			}
		}
	} else if dir := filepath.Dir(image); readable(filepath.Join(dir, modulesDep)) {
		k.Modules, k.Release = dir, filepath.Base(dir)
	}
	return []Kernel{k}, nil
}

// ReadConfig returns the kernel's build configuration; nil if it is not known.
func (k Kernel) ReadConfig() ([]byte, error) {
	if k.Config == "" {
		return nil, nil
	}
	b, err := readBounded(k.Config, 4<<20)
	if err != nil {
		return nil, fmt.Errorf("read kernel configuration: %w", err)
	}
	return b, nil
}

// onHost returns the kernels installed on this machine that this user can read, with their modules.
func onHost(arch string) []Kernel {
	if arch != hostArch() {
		return nil
	}
	var found []Kernel
	dirs, _ := filepath.Glob("/lib/modules/*/" + modulesDep)
	for _, dep := range dirs {
		dir := filepath.Dir(dep)
		release := filepath.Base(dir)
		for _, image := range []string{filepath.Join(dir, "vmlinuz"), "/boot/vmlinuz-" + release} {
			if readable(image) {
				k := Kernel{Arch: arch, Flavour: Host, Release: release, Image: image, Modules: dir}
				if c := "/boot/config-" + release; readable(c) {
					k.Config = c
				}
				found = append(found, k)
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b Kernel) int { return -compareReleases(a.Release, b.Release) })
	return found
}

func readable(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func orDefault(cache string) (string, error) {
	if cache != "" {
		return cache, nil
	}
	return DefaultCache()
}

// compareReleases compares kernel releases so that 6.10 comes after 6.9: digits by value, the rest as text.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
