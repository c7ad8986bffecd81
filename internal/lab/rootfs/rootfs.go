// Package rootfs builds images of a Debian system for virtual machines to use as their root: an ext4 file system in a
// plain file, without partition table, boot loader or kernel.
//
// It is opinionated. The distribution's own bootstrap program builds the image (mmdebstrap, else debootstrap) from the
// machine's apt sources, so the user's mirrors, proxies and keys are used. The image's name in the cache is a hash of
// its options: the same suite, architecture, packages and size are built once. An image is never changed after it was
// built. A virtual machine writes to its own layer on top. An image that was changed is no longer used.
package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/microvm"
	"tare/internal/unit"
)

// The defaults of Options.
const (
	DefaultSuite = "bookworm"
	DefaultSize  = 2 << 30
)

// The bounds of Options.Size, in bytes.
const (
	MinSize = 256 << 20
	MaxSize = 1 << 40
)

// format is increased when images are built in another way, so that older ones are built again.
const format = 1

// Options say what to build. Only they decide the image's key.
type Options struct {
	Suite    string   // Debian's suite: "bookworm"; DefaultSuite if empty
	Arch     string   // GOARCH; this machine's if empty
	Packages []string // in addition to the smallest system that has apt; order and duplicates do not matter
	// Size of the file system in bytes, a multiple of 1 MiB; DefaultSize if 0. Its free space takes no disk space.
	Size int64
	// Cache is the guests' cache folder, microvm.DefaultCache if empty; not part of the key.
	Cache string
	// Refresh builds an existing image again, for newer packages; not part of the key.
	Refresh bool
	// Progress, if set, is called with a short description of each step; not part of the key.
	Progress func(string)

	more []source // beside the machine's; for tests
}

// Image is a root image.
type Image struct {
	Path     string   `json:"-"`        // path of the file: raw, an ext4 file system from its first byte
	Key      string   `json:"key"`      // hash of the options, hexadecimal
	Suite    string   `json:"suite"`    //
	Arch     string   `json:"arch"`     // GOARCH
	Packages []string `json:"packages"` // the requested packages, sorted
	Size     int64    `json:"size"`     // bytes
	UUID     string   `json:"uuid"`     // UUID of the file system: root=UUID=...
	// Versions are the installed versions of the requested packages.
	Versions map[string]string `json:"versions"`
	Tool     string            `json:"tool"` // the program that built it, with its version
	Built    time.Time         `json:"built"`
	SHA256   string            `json:"sha256"` // hash of the file, hexadecimal
}

// Label is the label of the file systems.
const Label = "tare-root"

// ErrNotBuilt is wrapped by the error of Lookup if there is no such image. Remedy says how to build it.
var ErrNotBuilt = errors.New("there is no such root image")

var (
	packageRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*$`) })
	suiteRE   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9.-]*$`) })
)

// OptionError is the error of an invalid value in Options.
type OptionError struct{ Message string }

func (e *OptionError) Error() string { return e.Message }

func badOption(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }

// resolve checks the options and fills in the defaults.
func (o Options) resolve() (Options, error) {
	if o.Suite == "" {
		o.Suite = DefaultSuite
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if !suiteRE().MatchString(o.Suite) {
		return o, badOption("%q is not the name of a suite such as bookworm", o.Suite)
	}
	if !slices.Contains(microvm.Arches(), o.Arch) {
		return o, badOption("the architecture must be one of %s, not %q", strings.Join(microvm.Arches(), ", "), o.Arch)
	}
	if o.Size < MinSize || o.Size > MaxSize || o.Size%(1<<20) != 0 {
		return o, badOption("the size must be a multiple of 1 MiB between %s and %s, not %s", unit.FormatSize(MinSize),
			unit.FormatSize(MaxSize), unit.FormatSize(o.Size))
	}
	var packages []string
	for _, p := range o.Packages {
		if p = strings.TrimSpace(p); !packageRE().MatchString(p) {
			return o, badOption("%q is not the name of a package", p)
		}
		packages = append(packages, p)
	}
	slices.Sort(packages)
	o.Packages = slices.Compact(packages)
	if o.Cache == "" {
		cache, err := microvm.DefaultCache()
		if err != nil {
			return o, err
		}
		o.Cache = cache
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// key is the hash of the options, which must be resolved.
func (o Options) key() string {
	h := sha256.Sum256(fmt.Appendf(nil, "tare rootfs %d\n%s\n%s\n%d\n%s\n", format, o.Suite, o.Arch, o.Size,
		strings.Join(o.Packages, "\n")))
	return hex.EncodeToString(h[:16])
}

// uuid makes a UUID (RFC 9562, version 8) from the key, so that the same options give the same UUID.
func uuid(key string) string {
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != 16 {
		panic("rootfs: " + key + " is not a key")
	}
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// Remedy is the command that builds the image of these options.
func Remedy(o Options) string {
	s := "run: tare guest build"
	if len(o.Packages) > 0 {
		s += " --packages " + strings.Join(o.Packages, ",")
	}
	if o.Suite != "" && o.Suite != DefaultSuite {
		s += " --suite " + o.Suite
	}
	if o.Arch != "" && o.Arch != runtime.GOARCH {
		s += " --arch " + o.Arch
	}
	if o.Size != 0 && o.Size != DefaultSize {
		s += " --size " + unit.FormatSize(o.Size)
	}
	return s
}

// Lookup returns the image that was built with these options. If there is none, or it was changed later, the error
// wraps ErrNotBuilt and says how to build it.
func Lookup(o Options) (Image, error) {
	o, err := o.resolve()
	if err != nil {
		return Image{}, fmt.Errorf("look up root image: %w", err)
	}
	img, err := openImage(filepath.Join(o.Cache, folder, o.key()), o.key())
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = ErrNotBuilt
		}
		return Image{}, fmt.Errorf("look up root image of %s with %s: %w; %s", o.Suite, o.what(), err, Remedy(o))
	}
	return img, nil
}

func (o Options) what() string {
	if len(o.Packages) == 0 {
		return "no further packages"
	}
	return strings.Join(o.Packages, ", ")
}

// List returns the images in the cache folder, sorted by suite and packages. An empty cache means microvm.DefaultCache.
func List(cache string) ([]Image, error) {
	if cache == "" {
		var err error
		if cache, err = microvm.DefaultCache(); err != nil {
			return nil, err
		}
	}
	dirs, err := filepath.Glob(filepath.Join(cache, folder, "*", manifestName))
	if err != nil {
		return nil, err
	}
	var all []Image
	for _, d := range dirs {
		if img, err := openImage(filepath.Dir(d), filepath.Base(filepath.Dir(d))); err == nil {
			all = append(all, img)
		}
	}
	name := func(i Image) string { return i.Suite + " " + i.Arch + " " + strings.Join(i.Packages, ",") }
	slices.SortStableFunc(all, func(a, b Image) int { return strings.Compare(name(a), name(b)) })
	return all, nil
}

// Build returns the image of these options, and builds it if it does not exist. Building takes one to a few minutes and
// a download of 50 to 500 MB, and needs root. If several processes want the same image, one builds it and the others
// wait. An interrupted build leaves nothing.
func Build(ctx context.Context, o Options) (Image, error) {
	o, err := o.resolve()
	if err != nil {
		return Image{}, fmt.Errorf("build root image: %w", err)
	}
	dir := filepath.Join(o.Cache, folder, o.key())
	if !o.Refresh {
		if img, err := openImage(dir, o.key()); err == nil {
			return img, nil
		}
	}
	img, err := build(ctx, o, dir)
	if err != nil {
		return Image{}, fmt.Errorf("build root image of %s with %s: %w", o.Suite, o.what(), err)
	}
	return img, nil
}

// Tree installs the system of these options into the directory dir, which must not exist, and returns the program that
// did so and the packages' versions. Options.Size and Options.Cache do not matter. If it fails, what is in dir is of no
// use; the caller removes it, with Discard.
func Tree(ctx context.Context, o Options, dir string) (tool string, installed map[string]string, err error) {
	if o, err = o.resolve(); err == nil {
		err = needed()
	}
	if err == nil {
		tool, err = bootstrap(ctx, o, dir)
	}
	if err == nil {
		installed, err = versions(ctx, dir, o.Packages)
	}
	if err == nil {
		err = tidy(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("install %s with %s: %w", o.Suite, o.what(), err)
	}
	return tool, installed, nil
}

// Write writes a directory with a system as an image of size bytes to the file path. The key, 32 hexadecimal digits,
// decides the file system's UUID.
func Write(ctx context.Context, dir, path, key string, size int64) error {
	return writeExt4(ctx, dir, path, Image{UUID: uuid(key), Size: size})
}

// Discard removes a directory that Tree was given, unless a file system is mounted in it.
func Discard(dir string) error { return discard(dir) }

// Lock waits until no other process holds the lock of that path. It ends with its process.
func Lock(ctx context.Context, path string, progress func(string)) (release func() error, err error) {
	return lock(ctx, path, progress)
}
