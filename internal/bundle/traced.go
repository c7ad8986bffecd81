package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tare/internal/record"
)

// TracedDir has what was found out by tracing a cell again after the run (`tare why --keep`): flame graphs, a file
// each. No figure of a report is made of them, and the digests of the run know nothing of them: the manifest has a list
// of its own. A file there that it does not list is no part of the bundle.
const TracedDir = "traced"

const (
	maxTraced  = 2 << 20 // bytes of a graph
	mostTraced = 100     // graphs of a bundle
)

// ErrGoesOn is returned by Keep for a bundle whose run has not ended.
var ErrGoesOn = errors.New("its run has not ended")

var tracedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^flame-[0-9a-f]{16}\.json$`) })

// validTraced tells whether a path out of a manifest is that of a graph.
func validTraced(p string) bool {
	dir, name := path.Split(p)
	return dir == TracedDir+"/" && tracedRE().MatchString(name)
}

// Keep adds a flame graph to the bundle of a run that has ended, in the place of an older one of the same cell. It
// returns its path below the bundle. If it is interrupted, the bundle is as it was before. One that another tare uses
// is refused with ErrLocked.
func Keep(dir string, f *record.Flame) (string, error) {
	p, err := keep(dir, f)
	if err != nil {
		return "", fmt.Errorf("keep a flame graph in bundle %s: %w", dir, explainAs(err, "free some space",
			"copy the bundle to another one"))
	}
	return p, nil
}

// Keeps says why Keep would refuse a bundle; nil if it would not.
func Keeps(dir string) error {
	root, err := openFolder(dir)
	if err != nil {
		return fmt.Errorf("open bundle %s: %w", dir, err)
	}
	defer root.Close()
	m, release, err := forKeeping(root)
	if err == nil {
		_, err = others(root, m, nil)
		release()
	}
	if err != nil {
		return fmt.Errorf("keep a flame graph in bundle %s: %w", dir, err)
	}
	return nil
}

// forKeeping takes the writer's lock of a bundle whose run has ended.
func forKeeping(root *os.Root) (m *Manifest, release func(), err error) {
	if _, err = readManifest(root); err != nil {
		return nil, nil, err
	}
	trials, err := openRegular(root, TrialsFile)
	if err != nil {
		return nil, nil, err
	}
	if err = lockFile(trials); err == nil {
		m, err = readManifest(root) // under the lock: another tare may have gone on with the run
	}
	if err == nil && m.State == Running {
		err = fmt.Errorf("%w: tare run --resume goes on with it", ErrGoesOn)
	}
	if err != nil {
		trials.Close()
		return nil, nil, err
	}
	return m, func() { trials.Close() }, nil
}

func keep(dir string, f *record.Flame) (string, error) {
	root, err := openFolder(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	m, release, err := forKeeping(root)
	if err != nil {
		return "", err
	}
	defer release()
	list, err := others(root, m, f)
	if err != nil {
		return "", err
	}
	if len(list) >= mostTraced {
		return "", fmt.Errorf("it has %d graphs already", len(list))
	}
	added, err := addFlame(root, f, writeSync)
	if err != nil {
		return "", err
	}
	m.Traced = sorted(append(list, added))
	w := &Writer{root: root, manifest: *m}
	if err := w.writeManifest(); err != nil {
		return "", err
	}
	dropUnlisted(root, m.Traced) // older ones, and what an interrupted Keep has left
	return added.Path, nil
}

// others are the graphs that a bundle keeps beside a new one, which may be nil: those of other cells. Of one that
// cannot be read nobody knows which cell it is of.
func others(root *os.Root, m *Manifest, f *record.Flame) (list []File, err error) {
	if len(m.Traced) > mostTraced {
		return nil, fmt.Errorf("%w: it lists %d graphs, more than %d", ErrDamaged, len(m.Traced), mostTraced)
	}
	for _, old := range m.Traced {
		g, err := readFlame(root, old)
		if err != nil {
			return nil, fmt.Errorf("%w: %w; put the file back as it was, or draw the graph with --flame FILE",
				ErrDamaged, err)
		}
		if f == nil || g.Workload != f.Workload || g.Target != f.Target || g.Baseline != f.Baseline {
			list = append(list, old)
		}
	}
	return list, nil
}

// addFlame writes a graph to a file that is named by its content.
func addFlame(root *os.Root, f *record.Flame, write func(*os.File, []byte) error) (File, error) {
	if err := f.Check(); err != nil {
		return File{}, err
	}
	data, err := json.Marshal(f)
	if err != nil {
		return File{}, err
	}
	data = append(data, '\n')
	if len(data) > maxTraced {
		return File{}, fmt.Errorf("the graph takes %d bytes, more than %d", len(data), maxTraced)
	}
	sum := sha256.Sum256(data)
	x := File{Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	x.Path = TracedDir + "/flame-" + x.SHA256[:16] + ".json"
	if err := root.Mkdir(TracedDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return File{}, err
	}
	file, err := root.OpenFile(x.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return File{}, err
	}
	if err := write(file, data); err != nil {
		root.Remove(x.Path)
		return File{}, err
	}
	return x, nil
}

// dropUnlisted removes graphs that no manifest lists.
func dropUnlisted(root *os.Root, list []File) {
	entries, err := fs.ReadDir(root.FS(), TracedDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := TracedDir + "/" + e.Name()
		if validTraced(name) && !slices.ContainsFunc(list, func(f File) bool { return f.Path == name }) {
			_ = root.Remove(name)
		}
	}
}

func sorted(list []File) []File {
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// readFlame reads a graph that a manifest lists.
func readFlame(root *os.Root, want File) (*record.Flame, error) {
	if !validTraced(want.Path) {
		return nil, fmt.Errorf("%.60q is not the file of a flame graph", want.Path)
	}
	data, err := readFile(root, want.Path, maxTraced)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want.SHA256 || int64(len(data)) != want.Size {
		return nil, fmt.Errorf("%s: its content has changed since it was kept", want.Path)
	}
	f := &record.Flame{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s: %w", want.Path, err)
	}
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", want.Path, err)
	}
	return f, nil
}

// Flames returns the flame graphs that were kept in the bundle. The error tells which are not as tare wrote them; the
// others are returned.
func (b *Bundle) Flames() ([]record.Flame, error) {
	if len(b.Manifest.Traced) == 0 {
		return nil, nil
	}
	root, err := openFolder(b.Dir)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", b.Dir, err)
	}
	defer root.Close()
	var all []record.Flame
	var errs []error
	for _, want := range b.Manifest.Traced[:min(len(b.Manifest.Traced), mostTraced)] {
		f, err := readFlame(root, want)
		if err != nil {
			errs = append(errs, fmt.Errorf("read bundle %s: %w: %w", b.Dir, ErrDamaged, err))
			continue
		}
		all = append(all, *f)
	}
	return all, errors.Join(errs...)
}

// traced checks the graphs that a manifest lists.
func (r *Report) traced(root *os.Root, m *Manifest) {
	if len(m.Traced) > mostTraced {
		r.add(ManifestFile, 0, "it lists %d flame graphs, more than %d", len(m.Traced), mostTraced)
		return
	}
	for i, want := range m.Traced {
		if _, err := readFlame(root, want); err != nil {
			r.add(TracedDir, 0, "%v", err)
		} else if data, err := readFile(root, want.Path, maxTraced); err == nil {
			r.decode(want.Path, 0, data, &record.Flame{})
		}
		if i > 0 && m.Traced[i-1].Path >= want.Path {
			r.add(ManifestFile, 0, "it does not list the flame graphs in the order of their names")
		}
	}
}

// traced copies the graphs, with their names replaced.
func (r *rewriting) traced(m *Manifest) error {
	var list []File
	for _, old := range m.Traced {
		f, err := readFlame(r.from, old)
		if err != nil {
			return err
		}
		f.Workload, f.Target, f.Baseline = r.editor.Text(f.Workload), r.editor.Text(f.Target), r.editor.Text(f.Baseline)
		for i := range f.Frames {
			name := r.editor.Text(f.Frames[i].Name)
			f.Frames[i].Name = strings.ToValidUTF8(name[:min(len(name), record.MostFlameName)], "")
		}
		added, err := addFlame(r.to, f, writeOnly)
		if err != nil {
			return err
		}
		if !slices.Contains(list, added) {
			list = append(list, added)
		}
	}
	m.Traced = sorted(list)
	return nil
}
