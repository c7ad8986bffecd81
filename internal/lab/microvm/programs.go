package microvm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	maxProgram   = 256 << 20 // largest program or library, bytes
	maxLibraries = 500       // libraries of all programs of one guest together
	maxNeeded    = 1 << 20   // largest part of a program that says what it links, bytes
)

// File is a file of this machine that is copied to the same path in a guest. A symbolic link is copied as the file that
// it points to.
type File struct {
	Path string // absolute
	Mode uint32 // permission bits
	Size int64  // bytes
}

// Programs returns programs of this machine, given by absolute path, and the libraries that they link: all files that a
// guest needs to run them. It searches libraries as the dynamic linker does. The files are sorted by path, each once.
//
// arch is the guest's architecture (GOARCH). It must be this machine's, and this machine must run Linux. A program that
// is a script is rejected, because the guest has no shell.
func Programs(arch string, paths ...string) ([]File, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if runtime.GOOS != "linux" || arch != runtime.GOARCH {
		return nil, fmt.Errorf("copy programs to the guest: this machine's programs, for %s on %s, do not run in "+
			"a guest for linux on %s",
			runtime.GOOS, runtime.GOARCH, arch)
	}
	c := &closure{root: "/", files: map[string]File{}}
	for _, p := range paths {
		if err := c.program(p); err != nil {
			return nil, fmt.Errorf("copy program %s to the guest: %w", p, err)
		}
	}
	return c.list(), nil
}

// CheckAgent rejects an agent that needs a dynamic linker. The guest has none, and the kernel would only report that
// there is no /init. A file that is no program is not rejected here; the kernel does that.
func CheckAgent(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if l, err := readLinks(f); err == nil && l.linker != "" {
		return fmt.Errorf("%s is linked dynamically, with %s, and cannot be a guest's first program; build it "+
			"statically, with CGO_ENABLED=0", path, l.linker)
	}
	return nil
}

// closure collects programs and libraries.
type closure struct {
	root   string // root of this machine's files; only tests use another than "/"
	linker string // the dynamic linker of all programs
	dirs   []libraryDir
	files  map[string]File
}

// libraryDir is a folder that the dynamic linker always searches.
type libraryDir struct {
	path string
	// listed is the configuration file that lists the folder; the guest needs it as well. It is empty for the linker's
	// default folders.
	listed string
}

// object is a program or library that is being resolved. It inherits DT_RPATH along the chain of loaders.
type object struct {
	path   string
	rpath  []string // nil if there is a runpath
	run    []string
	class  elf.Class
	target elf.Machine
	parent *object
}

func (c *closure) list() []File {
	all := make([]File, 0, len(c.files))
	for _, f := range c.files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// add adds a file and tells whether it is new.
func (c *closure) add(path string) (bool, error) {
	if _, have := c.files[path]; have {
		return false, nil
	}
	info, err := os.Stat(filepath.Join(c.root, path))
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > maxProgram {
		return false, fmt.Errorf("%s is larger than %d MiB", path, maxProgram>>20)
	}
	if len(c.files) >= maxLibraries {
		return false, fmt.Errorf("the programs and libraries have more than %d files", maxLibraries)
	}
	// Set-user-ID bits are dropped: everything in the guest runs as root.
	c.files[path] = File{Path: path, Mode: uint32(info.Mode().Perm()), Size: info.Size()}
	return true, nil
}

// program adds a program, its dynamic linker and all libraries that it links.
func (c *closure) program(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("its path must be absolute")
	}
	path = filepath.Clean(path)
	if fresh, err := c.add(path); err != nil || !fresh {
		return err
	}
	l, err := c.links(path)
	if err != nil {
		return err
	}
	if l.linker == "" {
		return nil // statically linked
	}
	if err := c.useLinker(l.linker); err != nil {
		return err
	}
	return c.libraries(&object{path: path, rpath: l.rpath, run: l.runpath, class: l.class, target: l.machine}, l.needed)
}

// useLinker adds the dynamic linker and finds the folders that it searches.
func (c *closure) useLinker(path string) error {
	if c.linker == path {
		return nil
	}
	if c.linker != "" {
		return fmt.Errorf("it needs the dynamic linker %s, and another program needs %s", path, c.linker)
	}
	if _, err := c.add(path); err != nil {
		return fmt.Errorf("dynamic linker: %w", err)
	}
	c.linker = path
	var err error
	c.dirs, err = libraryDirs(c.root, path)
	return err
}

// libraries adds the libraries that an object links, and theirs, breadth first like the linker.
func (c *closure) libraries(o *object, needed []string) error {
	type want struct {
		name string
		by   *object
	}
	var todo []want
	for _, n := range needed {
		todo = append(todo, want{n, o})
	}
	loaded := map[string]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		if loaded[w.name] || filepath.Base(c.linker) == w.name {
			continue
		}
		loaded[w.name] = true
		path, l, err := c.find(w.name, w.by)
		if err != nil {
			return fmt.Errorf("%s links %s: %w", w.by.path, w.name, err)
		}
		if _, err := c.add(path); err != nil {
			return err
		}
		if w.name == "libc.so.6" {
			if err := c.nameService(filepath.Dir(path)); err != nil {
				return err
			}
		}
		lib := &object{path: path, rpath: l.rpath, run: l.runpath, class: l.class, target: l.machine, parent: w.by}
		for _, n := range l.needed {
			todo = append(todo, want{n, lib})
		}
	}
	return nil
}

// nameService adds the libraries that the GNU C library before 2.34 loads at run time to look up users and addresses.
func (c *closure) nameService(dir string) error {
	for _, name := range []string{"libnss_files.so.2", "libnss_dns.so.2"} {
		if _, err := c.add(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// find searches a library in the linker's order (ld.so(8)): DT_RPATH of the object and of its loaders, unless the
// object has a DT_RUNPATH; DT_RUNPATH; the linker's folders. Files for other machines are skipped.
func (c *closure) find(name string, by *object) (path string, l dynamicLinks, err error) {
	var dirs []libraryDir
	if strings.ContainsRune(name, '/') {
		dirs, name = []libraryDir{{path: filepath.Dir(name)}}, filepath.Base(name)
	} else {
		if by.run == nil {
			for o := by; o != nil; o = o.parent {
				if o.run == nil {
					dirs = append(dirs, plainDirs(o.rpath)...)
				}
			}
		}
		dirs = append(append(dirs, plainDirs(by.run)...), c.dirs...)
	}
	for _, d := range dirs {
		if !filepath.IsAbs(d.path) {
			continue
		}
		path := filepath.Join(d.path, name)
		if _, err := os.Stat(filepath.Join(c.root, path)); err != nil {
			continue
		}
		l, err := c.links(path)
		if err != nil || l.class != by.class || l.machine != by.target {
			continue
		}
		if d.listed != "" {
			if _, err := c.add(d.listed); err != nil {
				return "", l, fmt.Errorf("%s, the dynamic linker's configuration for %s: %w", d.listed, d.path, err)
			}
		}
		return path, l, nil
	}
	return "", l, fmt.Errorf("it is in none of the dynamic linker's folders; install its package")
}

func plainDirs(paths []string) []libraryDir {
	var dirs []libraryDir
	for _, p := range paths {
		dirs = append(dirs, libraryDir{path: p})
	}
	return dirs
}

// dynamicLinks has the dynamic linker and the libraries of an ELF file.
type dynamicLinks struct {
	class   elf.Class
	machine elf.Machine
	linker  string // "" for a library or a static program
	needed  []string
	rpath   []string // nil if there is a runpath
	runpath []string // nil if there is none
}

func (c *closure) links(path string) (dynamicLinks, error) {
	f, err := os.Open(filepath.Join(c.root, path))
	if err != nil {
		return dynamicLinks{}, err
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err == nil && magic[0] == '#' && magic[1] == '!' {
		return dynamicLinks{}, errors.New("it is a script, and the guest has no shell")
	}
	l, err := readLinks(f)
	if err != nil {
		return l, fmt.Errorf("read %s: %w", path, err)
	}
	// The linker resolves $ORIGIN to the folder of the object itself (DL_DST_ORIGIN).
	origin := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(filepath.Join(c.root, path)); err == nil && c.root == "/" {
		origin = filepath.Dir(real)
	}
	for _, dirs := range [][]string{l.rpath, l.runpath} {
		for i, d := range dirs {
			d = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(d)
			if dirs[i] = filepath.Clean(d); strings.ContainsRune(d, '$') {
				dirs[i] = "" // $LIB and $PLATFORM; no distribution's program uses them
			}
		}
	}
	return l, nil
}

// readLinks reads an ELF file of unknown origin in bounded memory.
func readLinks(r io.ReaderAt) (l dynamicLinks, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return l, fmt.Errorf("it is not a program: %w", err)
	}
	l.class, l.machine = f.Class, f.Machine
	for _, p := range f.Progs {
		if p.Type == elf.PT_DYNAMIC && f.SectionByType(elf.SHT_DYNAMIC) == nil {
			return l, errors.New("it has no section headers, so its libraries are not known")
		}
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > 4096 {
			return l, errors.New("the name of its dynamic linker is too long")
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return l, fmt.Errorf("read the name of its dynamic linker: %w", err)
		}
		l.linker = strings.TrimRight(string(b), "\x00")
		if !filepath.IsAbs(l.linker) || strings.ContainsRune(l.linker, 0) {
			return l, fmt.Errorf("its dynamic linker %q is not an absolute path", l.linker)
		}
	}
	for _, s := range f.Sections {
		if (s.Type == elf.SHT_DYNAMIC || s.Type == elf.SHT_STRTAB) && s.FileSize > 64*maxNeeded {
			return l, errors.New("its dynamic section is too large")
		}
	}
	get := func(tag elf.DynTag) []string {
		values, e := f.DynString(tag)
		if e != nil && err == nil && f.SectionByType(elf.SHT_DYNAMIC) != nil {
			err = fmt.Errorf("read its libraries: %w", e)
		}
		return values
	}
	l.needed = get(elf.DT_NEEDED)
	paths := func(tag elf.DynTag) []string {
		var dirs []string
		for _, v := range get(tag) {
			dirs = append(dirs, strings.Split(v, ":")...)
		}
		return dirs
	}
	if l.runpath = paths(elf.DT_RUNPATH); l.runpath == nil {
		l.rpath = paths(elf.DT_RPATH)
	}
	for _, n := range l.needed {
		if n == "" || strings.ContainsRune(n, 0) {
			return l, fmt.Errorf("it links a library with the name %q", n)
		}
	}
	return l, err
}
