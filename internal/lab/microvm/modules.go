package microvm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	modulesDep     = "modules.dep"
	modulesBuiltin = "modules.builtin"
	modulesSoftdep = "modules.softdep"
	modulesAlias   = "modules.alias"
	maxIndex       = 16 << 20 // largest modules.* file, bytes
	maxModule      = 64 << 20 // largest unpacked module, bytes
)

// Index is the content of a kernel's modules.dep, modules.builtin, modules.softdep and modules.alias. Names are module
// names, with underscores.
type Index struct {
	files   map[string]string   // name -> path below the folder, with slashes
	deps    map[string][]string // name -> names it needs
	builtin map[string]bool
	asks    map[string][]string // name -> names and aliases that it requests at run time, to work better or at all
	aliases map[string][]string // alias without wildcards -> names
}

func newIndex() *Index {
	return &Index{
		files: map[string]string{}, deps: map[string][]string{}, builtin: map[string]bool{},
		asks: map[string][]string{}, aliases: map[string][]string{},
	}
}

// MissingError is the error of a module that a kernel has neither built in nor as a file.
type MissingError struct {
	Module string
	For    string // the module that needs it; "" if it was requested itself
}

func (e *MissingError) Error() string {
	if e.For != "" {
		return fmt.Sprintf("kernel module %s is missing; module %s needs it", e.Module, e.For)
	}
	return fmt.Sprintf("the kernel has no module %s, neither built in nor as a file", e.Module)
}

// ModuleName returns the kernel's name for the module in a file: "drivers/virtio/virtio-pci.ko.xz" is "virtio_pci". ok
// tells whether the file is a module.
func ModuleName(file string) (name string, ok bool) {
	base := path.Base(file)
	for _, suffix := range []string{".xz", ".zst", ".gz"} {
		base = strings.TrimSuffix(base, suffix)
	}
	base, ok = strings.CutSuffix(base, ".ko")
	return strings.ReplaceAll(base, "-", "_"), ok && base != ""
}

// ReadIndex reads the index of a folder such as /lib/modules/RELEASE. If modules.builtin is missing, no module counts
// as built in.
func ReadIndex(dir string) (*Index, error) {
	dep, err := readBounded(filepath.Join(dir, modulesDep), maxIndex)
	if err != nil {
		return nil, fmt.Errorf("read kernel module index: %w", err)
	}
	builtin, err := readBounded(filepath.Join(dir, modulesBuiltin), maxIndex)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read list of built-in modules: %w", err)
	}
	x, err := ParseIndex(dep, builtin)
	if err != nil {
		return nil, err
	}
	// These two lists are needed only for modules that the kernel requests at run time.
	softdep, err := readBounded(filepath.Join(dir, modulesSoftdep), maxIndex)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read list of soft dependencies: %w", err)
	}
	alias, err := readBounded(filepath.Join(dir, modulesAlias), maxIndex)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read list of module aliases: %w", err)
	}
	x.learn(softdep, alias)
	return x, nil
}

// ParseIndex parses modules.dep ("kernel/a.ko: kernel/b.ko kernel/c.ko", one line per module) and modules.builtin (one
// path per line).
func ParseIndex(dep, builtin []byte) (*Index, error) {
	x := newIndex()
	lines := bufio.NewScanner(bytes.NewReader(dep))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		file, rest, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("%s line %d: no colon after the module's file", modulesDep, n)
		}
		name, isModule := ModuleName(file)
		if !isModule || !filepath.IsLocal(filepath.FromSlash(file)) {
			return nil, fmt.Errorf("%s line %d: %q is not the path of a module below the folder", modulesDep, n, file)
		}
		x.files[name] = file
		x.deps[name] = nil
		for _, d := range strings.Fields(rest) {
			need, isModule := ModuleName(d)
			if !isModule {
				return nil, fmt.Errorf("%s line %d: %q is not a module", modulesDep, n, d)
			}
			x.deps[name] = append(x.deps[name], need)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", modulesDep, err)
	}
	for f := range strings.FieldsSeq(string(builtin)) {
		if name, ok := ModuleName(f); ok {
			x.builtin[name] = true
		}
	}
	return x, nil
}

// Resolve returns the files to load for the wanted modules, with slashes and below the folder, each after the modules
// that it needs. Built-in modules need no file. The error is a *MissingError or reports a cycle.
func (x *Index) Resolve(wanted ...string) ([]string, error) {
	var order []string
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name, parent string) error
	visit = func(name, parent string) error {
		switch {
		case state[name] == done || x.builtin[name]:
			return nil
		case state[name] == visiting:
			return fmt.Errorf("kernel modules %s and %s need each other", name, parent)
		case x.files[name] == "":
			return &MissingError{Module: name, For: parent}
		}
		state[name] = visiting
		// modules.dep lists all dependencies, the deepest last; reversed, that is nearly the order of loading.
		for _, d := range slices.Backward(x.deps[name]) {
			if err := visit(d, name); err != nil {
				return err
			}
		}
		state[name] = done
		order = append(order, x.files[name])
		return nil
	}
	for _, w := range wanted {
		if err := visit(w, ""); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// ReadModule returns a module's bytes, decompressed here because the guest may be emulated and slow.
func ReadModule(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read kernel module: %w", err)
	}
	defer f.Close()
	r, err := unpacker(name, f)
	if err != nil {
		return nil, fmt.Errorf("unpack kernel module %s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err != nil {
		return nil, fmt.Errorf("unpack kernel module %s: %w", name, err)
	}
	if len(b) > maxModule {
		return nil, fmt.Errorf("unpack kernel module %s: it is larger than %d MiB", name, maxModule>>20)
	}
	return b, nil
}

// withoutSignature cuts off what the kernel's build (scripts/sign-file) appends to a module: a signature, what it is,
// and a line of text.
func withoutSignature(b []byte) []byte {
	const (
		ending = "~Module signature appended~\n"
		about  = 12 // bytes; the last four are the signature's length
	)
	rest, signed := bytes.CutSuffix(b, []byte(ending))
	if !signed || len(rest) < about {
		return b
	}
	length := binary.BigEndian.Uint32(rest[len(rest)-4:])
	if rest = rest[:len(rest)-about]; int64(length) > int64(len(rest)) {
		return b
	}
	return rest[:len(rest)-int(length)]
}
