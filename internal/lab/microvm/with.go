package microvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// extraModules is the folder, in that of a kernel's modules, for those that did not come with it.
const extraModules = "extra"

// With returns the kernel with the modules in a folder in addition, such as those that its distribution does not build
// for it. place is where the new folder of modules is made, of links; it must not exist.
func (k Kernel) With(modules, place string) (Kernel, error) {
	fail := func(err error) (Kernel, error) { return k, fmt.Errorf("add modules of %s: %w", modules, err) }
	if k.Modules == "" {
		return fail(errors.New("the kernel has no list of modules"))
	}
	index, err := ReadIndex(k.Modules)
	if err != nil {
		return fail(err)
	}
	files, err := filepath.Glob(filepath.Join(modules, "*.ko*"))
	if err != nil || len(files) == 0 {
		return fail(errors.New("there are none"))
	}
	own := map[string]string{}
	for _, f := range files {
		if name, ok := ModuleName(filepath.ToSlash(f)); ok {
			own[name] = path.Join(extraModules, filepath.Base(f))
		}
	}
	dep, err := readBounded(filepath.Join(k.Modules, modulesDep), maxIndex)
	if err != nil {
		return fail(err)
	}
	for _, f := range files {
		line, err := k.dependencies(f, own, index)
		if err != nil {
			return fail(err)
		}
		dep = append(dep, line...)
	}
	if err := link(k.Modules, modules, place); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(place, modulesDep), dep, 0o600); err != nil {
		return fail(err)
	}
	k.Modules = place
	return k, nil
}

// dependencies is the line of modules.dep for a file.
func (k Kernel) dependencies(file string, own map[string]string, index *Index) (string, error) {
	b, err := ReadModule(file)
	if err != nil {
		return "", err
	}
	info, err := modinfo(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	if magic := strings.Fields(strings.Join(info["vermagic"], " ")); k.Release != "" && len(magic) > 0 &&
		magic[0] != k.Release {
		return "", fmt.Errorf("%s was built for kernel %s, and this one is %s", filepath.Base(file), magic[0],
			k.Release)
	}
	line := path.Join(extraModules, filepath.Base(file)) + ":"
	for n := range strings.SplitSeq(strings.Join(info["depends"], ","), ",") {
		switch n = strings.ReplaceAll(strings.TrimSpace(n), "-", "_"); {
		case n == "":
		case own[n] != "":
			line += " " + own[n]
		case index.files[n] != "":
			line += " " + index.files[n]
		default:
			line += " " + n + ".ko" // resolving it reports the missing module
		}
	}
	return line + "\n", nil
}

// link makes a folder of links to the entries of a kernel's folder, without its list, and to the folder of more
// modules.
func link(kernel, modules, place string) error {
	entries, err := os.ReadDir(kernel)
	if err != nil {
		return err
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == modulesDep || e.Name() == extraModules {
			continue
		}
		if err := os.Symlink(filepath.Join(kernel, e.Name()), filepath.Join(place, e.Name())); err != nil {
			return err
		}
	}
	if _, err := os.Stat(modules); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(modules, filepath.Join(place, extraModules))
}
