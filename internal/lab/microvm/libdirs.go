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
	maxConf    = 256 << 10 // bytes of a list of folders
	maxInclude = 8         // lists that include each other
	maxDirs    = 200       // folders in all lists
)

// builtinDirs are the folders that a dynamic linker of a distribution searches by itself: those of its own multiarch
// name where it has one (Debian), then the usual ones.
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

// libraryDirs returns where a dynamic linker searches: what its list names first, then its own folders. The linkers of
// Debian and Fedora do not know each other's folders, but the guest has only what this one found here.
func libraryDirs(root, linker string) ([]libraryDir, error) {
	if arch, ok := strings.CutPrefix(filepath.Base(linker), "ld-musl-"); ok {
		return muslDirs(root, strings.TrimSuffix(arch, ".so.1"))
	}
	// What the linker reads is not this text but the cache that ldconfig made of it. In the guest the cache does what
	// it does here, except that libraries of other programs are not there, for which the linker goes on searching.
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
	// Its own come first here: a library that is in both would need the cache for nothing. Which of two copies is taken
	// may differ from this machine, where the cache wins; distributions install a library once.
	return append(plainDirs(own), dirs...), nil
}

// muslDirs reads /etc/ld-musl-ARCH.path, which replaces the linker's own folders; see ldso/dynlink.c of musl.
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
			return nil, fmt.Errorf("read %s: it names more than %d folders", list, maxDirs)
		}
		dirs = append(dirs, libraryDir{d, list})
	}
	return dirs, nil
}

// confReader reads ld.so.conf: a folder a line, "include PATTERN", and comments after "#".
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
			continue // ldconfig passes over a bad pattern, too
		}
		for _, n := range names {
			rel, err := filepath.Rel(c.root, n)
			if err != nil {
				continue
			}
			if len(c.dirs) > maxDirs {
				return fmt.Errorf("%s: the lists name more than %d folders", file, maxDirs)
			}
			if err := c.read("/"+rel, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseConf reads the text of a list into folders and patterns of further lists, both in order; see ldconfig(8).
func parseConf(text string) (dirs, includes []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "include"); ok && rest != strings.TrimLeft(rest, " \t") {
			includes = append(includes, strings.Fields(rest)...)
			continue
		}
		// "hwcap" lines and what is no absolute path are passed over.
		if filepath.IsAbs(line) {
			dirs = append(dirs, filepath.Clean(line))
		}
	}
	return dirs, includes
}
