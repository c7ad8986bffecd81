package collect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/version"
)

// Schema is the version of the folder's form.
const Schema = 1

// Names within the folder.
const (
	stateFile = "fleet.json"
	hostsDir  = "hosts"
	lockFile  = ".lock"
)

// Names that `tare fleet run` has in the same folder.
const (
	RunFile = "run.json"
	RunDir  = "run"
)

// What reading may cost in memory, whatever the files hold.
const (
	maxState   = 64 << 20
	maxSummary = 64 << 20
	maxHosts   = 100_000
)

// ErrNewer is returned for a folder that a newer tare made.
var ErrNewer = errors.New("written by a newer version of tare")

// state is fleet.json.
type state struct {
	Schema   int             `json:"schema"`
	Version  string          `json:"version"` // of the tare that collected last
	Plan     string          `json:"plan"`
	Build    string          `json:"build"` // of the hosts' tare
	By       fleet.By        `json:"by"`
	Expected []string        `json:"expected,omitempty"`
	Parts    int             `json:"parts,omitempty"`
	Hosts    []entry         `json:"hosts"`
	Refused  []fleet.Refusal `json:"refused"`
}

// entry is a packed bundle of the folder.
type entry struct {
	File   string `json:"file"`   // below hosts
	Bundle string `json:"bundle"` // as it was called when it was collected
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// summary has the data of a bundle, beside it.
type summary struct {
	Schema int         `json:"schema"`
	Build  string      `json:"build"`  // of the tare that made it
	SHA256 string      `json:"sha256"` // of the packed bundle
	Host   *fleet.Host `json:"host"`
}

// folder is an open fleet.
type folder struct {
	Options
	dir   string
	state state
}

// read reads fleet.json.
func read(dir string) (*folder, error) {
	src, err := readBounded(filepath.Join(dir, stateFile), maxState)
	if err != nil {
		return nil, err
	}
	s, err := parse(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile, err)
	}
	return &folder{dir: dir, state: *s}, nil
}

var entryRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,99}\` + bundle.Ext + `$`)
})

// parse reads the text of fleet.json.
func parse(src []byte) (*state, error) {
	var v struct {
		Schema  int    `json:"schema"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(src, &v); err != nil {
		return nil, err
	}
	if v.Schema > Schema {
		return nil, fmt.Errorf("%w: tare %q wrote schema %d, this tare reads up to %d", ErrNewer, v.Version, v.Schema,
			Schema)
	}
	s := &state{}
	if err := json.Unmarshal(src, s); err != nil {
		return nil, err
	}
	if s.Schema < 1 || len(s.Hosts) > maxHosts {
		return nil, fmt.Errorf("schema %d with %d hosts is none of tare's", s.Schema, len(s.Hosts))
	}
	seen := map[string]bool{}
	for _, e := range s.Hosts {
		if !entryRE().MatchString(e.File) || seen[e.File] {
			return nil, fmt.Errorf("it lists %.60q, which is not a file of a fleet", e.File)
		}
		seen[e.File] = true
	}
	if s.By != "" && s.By != fleet.ByMachine && s.By != fleet.ByName {
		return nil, fmt.Errorf("hosts cannot be told apart by %.20q", s.By)
	}
	return s, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b, err
}

// adopt fills in the rules that the caller leaves open from those by which the folder was made.
func (f *folder) adopt(r fleet.Rules) {
	f.state.Version = version.Version
	f.Rules = r
	f.Rules.Plan = cmp.Or(r.Plan, f.state.Plan)
	f.Rules.Build = cmp.Or(r.Build, f.state.Build)
	f.Rules.By = cmp.Or(r.By, f.state.By)
	f.Rules.Parts = cmp.Or(r.Parts, f.state.Parts)
	if len(r.Expected) == 0 {
		f.Rules.Expected = f.state.Expected
	}
	if f.Rules.Now.IsZero() {
		f.Rules.Now = time.Now()
	}
}

// candidates are the bundles of the folder, and those that were refused.
func (f *folder) candidates(ctx context.Context) ([]candidate, error) {
	told := f.Read
	f.Read = nil // they were told of when they were collected
	defer func() { f.Read = told }()
	out, err := f.each(ctx, len(f.state.Hosts), func(i int, scratch string) candidate {
		c := f.kept(f.state.Hosts[i], scratch)
		if c.Refused != nil {
			c.was = f.state.Hosts[i]
		}
		return c
	})
	for i := range f.state.Refused {
		r := f.state.Refused[i]
		out = append(out, candidate{Candidate: fleet.Candidate{Bundle: r.Bundle, Refused: &r}})
	}
	return out, err
}

// kept reads one bundle of the folder: its summary, where that is of this build and of this bundle.
func (f *folder) kept(e entry, scratch string) candidate {
	path := filepath.Join(f.dir, hostsDir, e.File)
	name := cmp.Or(e.Bundle, e.File)
	now, err := digest(path)
	if err != nil {
		return refused(name, fleet.Unreadable, err.Error(), "collect it again")
	}
	if now.SHA256 != e.SHA256 {
		return refused(name, fleet.Damaged, fmt.Sprintf("%s was changed after it was collected", e.File),
			"collect it again")
	}
	c := candidate{Candidate: fleet.Candidate{Bundle: name}, file: e}
	if src, err := readBounded(filepath.Join(f.dir, hostsDir, noteOf(e.File)), maxSummary); err == nil {
		if s, err := parseSummary(src); err == nil && s.Build == version.Build && s.SHA256 == e.SHA256 {
			c.Host = s.Host
			return c
		}
	}
	c = f.summarize(path, scratch)
	if c.failed != nil {
		return c
	}
	c.Bundle, c.file = name, e
	if c.Refused != nil {
		c.Refused.Bundle = name
		return c
	}
	// A folder that cannot be written can be read all the same.
	_ = f.note(&c)
	return c
}

// parseSummary reads a bundle's summary.
func parseSummary(src []byte) (*summary, error) {
	s := &summary{}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	if s.Schema != Schema || s.Host == nil {
		return nil, errors.New("not a summary of this version")
	}
	return s, nil
}

func noteOf(file string) string { return strings.TrimSuffix(file, bundle.Ext) + ".json" }

func partOf(name string) string { return "." + name + ".part" }

// sweep removes from the folder what does not belong to it: files of bundles that do not count, and of a tare that was
// killed.
func (f *folder) sweep() {
	keep := map[string]bool{}
	for _, e := range f.state.Hosts {
		keep[e.File], keep[noteOf(e.File)] = true, true
	}
	entries, err := os.ReadDir(filepath.Join(f.dir, hostsDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		ours := strings.HasSuffix(name, bundle.Ext) || strings.HasSuffix(name, ".json") ||
			strings.HasPrefix(name, ".")
		if !keep[name] && ours && !e.IsDir() {
			os.Remove(filepath.Join(f.dir, hostsDir, name))
		}
	}
}

// replace writes a file beside the old one and renames it over it.
func replace(path string, data []byte) error {
	part := filepath.Join(filepath.Dir(path), partOf(filepath.Base(path)))
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}
