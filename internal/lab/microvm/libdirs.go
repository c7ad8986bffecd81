package microvm

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const (
	ldConf     = "/etc/ld.so.conf"
	ldCache    = "/etc/ld.so.cache"
	maxConf    = 256 << 10 // largest list of folders, bytes
	maxInclude = 8         // depth of lists that include each other
	maxDirs    = 200       // folders in all lists together
)

// builtinDirs are the folders that a distribution's dynamic linker searches by default: those of its multiarch name if
// it has one (Debian), then the usual ones.
func builtinDirs(linker string) []string {
	var dirs []string
	multiarch := map[string]string{
		"ld-linux-x86-64.so.2": "x86_64-linux-gnu", "ld-linux-aarch64.so.1": "aarch64-linux-gnu",
		"ld-linux-riscv64-lp64d.so.1": "riscv64-linux-gnu",
	}
	if name := multiarch[filepath.Base(linker)]; name != "" {
		dirs = append(dirs, "/lib/"+name, "/usr/lib/"+name)
	}
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
}

// libraryDirs returns the folders that a dynamic linker searches: its default folders and those of its configuration.
// The linkers of Debian and Fedora have different defaults, but the guest has only the linker of this machine.
func libraryDirs(root, linker string) ([]libraryDir, error) {
	if arch, ok := strings.CutPrefix(filepath.Base(linker), "ld-musl-"); ok {
		return muslDirs(root, strings.TrimSuffix(arch, ".so.1"))
	}
	// The linker reads ldconfig's cache, not this text. The cache also works in the guest: libraries of other programs
	// are missing there, and the linker then searches on.
	own := builtinDirs(linker)
	var dirs []libraryDir
	c := confReader{root: root}
	if err := c.read(ldConf, 0); err != nil {
		return nil, fmt.Errorf("read the dynamic linker's list of folders: %w", err)
	}
	for _, d := range c.dirs {
		if !slices.Contains(own, d) {
			dirs = append(dirs, libraryDir{d, ldCache})
		}
	}
	// The default folders come first here, so that a library in both does not need the cache. If there are two copies,
	// this machine's linker may use the other one, because the cache comes first there. Distributions install a library
	// only once.
	return append(plainDirs(own), dirs...), nil
}

// muslDirs reads /etc/ld-musl-ARCH.path, which replaces the default folders; see ldso/dynlink.c of musl.
func muslDirs(root, arch string) ([]libraryDir, error) {
	list := "/etc/ld-musl-" + arch + ".path"
	b, err := readBounded(filepath.Join(root, list), maxConf)
	if errors.Is(err, fs.ErrNotExist) {
		return plainDirs([]string{"/lib", "/usr/local/lib", "/usr/lib"}), nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []libraryDir
	for _, d := range strings.FieldsFunc(string(b), func(r rune) bool { return r == ':' || r == '\n' }) {
		if len(dirs) >= maxDirs {
			return nil, fmt.Errorf("read %s: it lists more than %d folders", list, maxDirs)
		}
		dirs = append(dirs, libraryDir{d, list})
	}
	return dirs, nil
}

// confReader reads ld.so.conf: one folder per line, "include PATTERN", and comments after "#".
type confReader struct {
	root string
	dirs []string
}

func (c *confReader) read(file string, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: lists include each other more than %d deep", file, maxInclude)
	}
	b, err := readBounded(filepath.Join(c.root, file), maxConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dirs, includes := parseConf(string(b))
	c.dirs = append(c.dirs, dirs...)
	for _, pattern := range includes {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(file), pattern)
		}
		names, err := filepath.Glob(filepath.Join(c.root, pattern))
		if err != nil {
			continue // ldconfig skips a bad pattern, too
		}
		for _, n := range names {
			rel, err := filepath.Rel(c.root, n)
			if err != nil {
				continue
			}
			if len(c.dirs) > maxDirs {
				return fmt.Errorf("%s: the lists have more than %d folders", file, maxDirs)
			}
			if err := c.read("/"+rel, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseConf parses a list into folders and patterns of further lists, both in order; see ldconfig(8).
func parseConf(text string) (dirs, includes []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "include"); ok && rest != strings.TrimLeft(rest, " \t") {
			includes = append(includes, strings.Fields(rest)...)
			continue
		}
		// "hwcap" lines and paths that are not absolute are skipped.
		if filepath.IsAbs(line) {
			dirs = append(dirs, filepath.Clean(line))
		}
	}
	return dirs, includes
}
