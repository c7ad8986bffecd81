package qemu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/measure/guestabi"
)

// Values of the setting root other than a path.
const (
	rootNone   = "none"
	rootDebian = "debian"
	rootStack  = "\x00stack" // what stack= stands for; nobody can give it
)

// rootID is the root image's name in QEMU; rootSerial identifies it in the guest.
const (
	rootID     = "root"
	rootSerial = "tare-root"
)

// rootImage is a disk with a distribution's files, in which workloads run. It is only read.
type rootImage struct {
	want     string   // the setting: "", rootDebian or a path
	packages []string // of rootDebian
	stack    string   // of rootStack

	path   string // of the image; find sets it
	format string // "raw" or "qcow2"
}

func rootSettings() []env.Setting {
	return []env.Setting{
		{Name: "root", Default: rootNone, Doc: "Root image for workloads, never written to: debian (of tare guest " +
			"build), the path of a raw or qcow2 image with ext4, or none: only the agent.", Check: checkRoot},
		{Name: "packages", Default: "",
			Doc:   "Debian packages of root=debian, with commas: postgresql,gcc.",
			Check: checkPackages},
		stack.EnvSetting(),
	}
}

func checkRoot(v string) error {
	if v == rootNone || v == rootDebian || filepath.IsAbs(v) || strings.ContainsRune(v, filepath.Separator) {
		return nil
	}
	return fmt.Errorf("%q is not none, debian or the path of an image; a path needs a slash: ./%s", v, v)
}

// packageRE is a Debian package's name (Debian Policy 5.6.1), with a length limit.
var packageRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,99}$`) })

func checkPackages(v string) error {
	_, err := parsePackages(v)
	return err
}

// parsePackages returns a list of packages, sorted and without duplicates.
func parsePackages(v string) ([]string, error) {
	if v == "" {
		return nil, nil
	}
	list := strings.Split(v, ",")
	for _, p := range list {
		if !packageRE().MatchString(p) {
			return nil, fmt.Errorf("%q is not the name of a Debian package", p)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// parseRoot reads the settings. Each has passed its own check.
func parseRoot(root, packages, site string) (rootImage, error) {
	r := rootImage{stack: site}
	if root != rootNone {
		r.want = root
	}
	if site != "" {
		if r.want != "" {
			return r, errors.New("stack= and root= both say what the root is; leave one of them out")
		}
		r.want = rootStack
	}
	r.packages, _ = parsePackages(packages)
	if len(r.packages) > 0 && r.want != rootDebian {
		return r, errors.New("packages= works only with root=debian; leave it out for other root images")
	}
	return r, nil
}

// rootModules are the modules that a guest with a root image needs in addition to those of a disk.
func (c *config) rootModules() []string {
	if c.root.want == "" {
		return nil
	}
	return []string{"overlay"}
}

// rootArguments returns QEMU's options for the root image, which is opened read-only.
func (c *config) rootArguments(bus string) []string {
	if c.root.path == "" {
		return nil
	}
	b, err := json.Marshal(map[string]any{
		"node-name": rootID, "driver": c.root.format, "read-only": true,
		"file": map[string]any{"driver": "file", "filename": c.root.path, "read-only": true},
	})
	if err != nil {
		panic(err) // strings and booleans can always be marshalled
	}
	return []string{"-blockdev", string(b), "-device",
		fmt.Sprintf("virtio-blk-%s,id=%s,drive=%s,serial=%s", bus, rootID, rootID, rootSerial)}
}

// rootKernelArguments tell the agent about the root image.
func (c *config) rootKernelArguments() []string {
	if c.root.want == "" {
		return nil
	}
	args := []string{guestabi.RootArg + "=" + rootSerial}
	if wish, err := stack.Parse(c.root.stack); err == nil {
		args = append(args, wish.RunVariable()) // the kernel passes it on to the agent
	}
	return args
}

// findRoot finds the image for the settings and describes it in the facts.
func (b *boot) findRoot(ctx context.Context) error {
	r := &b.config.root
	if r.want == "" {
		return nil
	}
	b.op, b.remedy = "find root image", "use a file with root=PATH, or build an image with tare guest build"
	sum := ""
	switch r.want {
	case rootDebian:
		var err error
		if sum, err = b.lookupRoot(); err != nil {
			return err
		}
	case rootStack:
		b.op, b.remedy = "find stack", ""
		st, _, _, err := stack.Of(&b.Spec, "")
		if err != nil {
			return err
		}
		if r.path, err = st.Image(ctx); err != nil {
			return err
		}
		maps.Copy(b.facts, st.Facts())
	default:
		path, err := filepath.Abs(r.want)
		if err != nil {
			return err
		}
		r.path = path
	}
	info, err := os.Stat(r.path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", r.path)
	}
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.format, err = imageFormat(f); err != nil {
		return fmt.Errorf("read root image %s: %w", r.path, err)
	}
	if sum == "" && r.want != rootStack { // a stack has its own key
		if sum, err = digest(ctx, f); err != nil {
			return fmt.Errorf("read root image %s: %w", r.path, err)
		}
	}
	b.facts["root.image"], b.facts["root.format"] = r.path, r.format
	if sum != "" {
		b.facts["root.sha256"] = sum
	}
	b.facts["root.bytes"] = fmt.Sprint(info.Size())
	return nil
}

// imageFormat distinguishes qcow2 from raw. QEMU must not guess: a guest that can write to a raw image could disguise
// it as another format. Formats of other hypervisors are rejected, because as raw images they would make no sense.
func imageFormat(f io.ReaderAt) (string, error) {
	head := make([]byte, 64)
	if n, err := f.ReadAt(head, 0); err != nil {
		return "", fmt.Errorf("its first %d bytes: %w (there are %d)", len(head), err, n)
	}
	if bytes.HasPrefix(head, []byte("QFI\xfb")) {
		return "qcow2", nil
	}
	for magic, name := range map[string]string{"KDMV": "VMDK", "# Disk DescriptorFile": "VMDK", "<<< ": "VDI",
		"vhdxfile": "VHDX", "conectix": "VHD"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "", fmt.Errorf("it is a %s image; convert it to raw or qcow2 with qemu-img convert", name)
		}
	}
	return "raw", nil
}

// digest is the SHA-256 of a file.
func digest(ctx context.Context, f io.Reader) (string, error) {
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, err := io.CopyN(h, f, 64<<20)
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
