// Package collect brings the bundles of many hosts together in one folder, and reads it.
//
//	fleet.json     which hosts count, which do not and why; by which rules
//	hosts/*.tare   the bundles that count, packed
//	hosts/*.json   what each says, so that a report need not read all trials again
//
// It is opinionated about trust. A bundle is checked against itself before it counts, and by its digest whenever the
// folder is read. Nothing that is wrong with one bundle keeps another from being counted. What the .json files say
// follows from the bundles, and another build of tare makes them anew.
package collect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/filelock"
	"tare/internal/version"
)

// Options are the settings of collecting and reading.
type Options struct {
	// Kinds are the kinds of work that this build knows.
	Kinds func(name string) (*workload.Kind, bool)
	// Scratch is a private folder in which bundles are unpacked, one in each worker at a time.
	Scratch string
	Rules   fleet.Rules
	// Read, where set, is told of each bundle that was read. It is called by one at a time.
	Read func(c *fleet.Candidate)
}

// ErrNotFleet is returned for a folder that no fleet was collected in.
var ErrNotFleet = errors.New("not a fleet's folder")

// workers bounds how many bundles are read at once: each may take some hundreds of megabytes.
func workers() int { return min(runtime.GOMAXPROCS(0), 4) }

// Add checks bundles (folders, packed files, or folders of these) and adds those that count to the fleet in dir, which
// is made where it is not there. It returns the whole fleet as it is then. A bundle that was added before is not
// counted again. If ctx ends, the folder stays as it was.
func Add(ctx context.Context, dir string, bundles []string, o Options) (*fleet.Admitted, error) {
	a, err := add(ctx, dir, bundles, o)
	if err != nil {
		return nil, fmt.Errorf("collect in %s: %w", dir, err)
	}
	return a, nil
}

func add(ctx context.Context, dir string, bundles []string, o Options) (*fleet.Admitted, error) {
	if err := vacant(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, hostsDir), 0o755); err != nil {
		return nil, err
	}
	lock, err := filelock.Try(filepath.Join(dir, lockFile))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, errors.New("another tare collects in it")
	}
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	f, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = &folder{dir: dir, state: state{Schema: Schema}}, nil
	}
	if err != nil {
		return nil, err
	}
	f.Options = o
	f.adopt(o.Rules)
	defer f.sweep()
	old, err := f.candidates(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := f.stage(ctx, expand(bundles))
	if err != nil {
		return nil, err
	}
	return f.settle(merge(old, fresh))
}

// merge puts the new candidates behind the old ones. One that was refused before counts anew where it comes again, and
// one that is there already does not come twice. Those that the folder has and cannot read now stay among them: settle
// decides.
func merge(old, fresh []candidate) []candidate {
	given, there := map[string]bool{}, map[string]bool{}
	for i := range fresh {
		given[fresh[i].Bundle] = true
	}
	var all []candidate
	for _, c := range old {
		if c.Refused != nil && c.was.File == "" && given[c.Bundle] {
			continue
		}
		there[c.file.SHA256] = c.Host != nil || there[c.file.SHA256]
		all = append(all, c)
	}
	for _, c := range fresh {
		if c.Host == nil || !there[c.file.SHA256] {
			all = append(all, c)
		}
	}
	return all
}

// admit applies the rules.
func (f *folder) admit(all []candidate) *fleet.Admitted {
	list := make([]fleet.Candidate, len(all))
	for i := range all {
		list[i] = all[i].Candidate
		list[i].At = i
		if all[i].file.File != "" {
			list[i].File = filepath.Join(hostsDir, all[i].file.File)
		}
	}
	a := fleet.Admit(list, f.Rules)
	counted := map[string]bool{}
	for _, c := range a.Hosts {
		counted[c.Bundle] = true
	}
	// A bundle that has grown since takes the place of its former self.
	a.Refused = slices.DeleteFunc(a.Refused, func(r fleet.Refusal) bool {
		return counted[r.Bundle] && (r.Code == fleet.SameBundle || r.Code == fleet.SameHost)
	})
	return a
}

// Load reads the fleet in dir. Bundles that were changed since they were collected do not count any more.
func Load(ctx context.Context, dir string, o Options) (*fleet.Admitted, error) {
	f, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: it has no %s; make one with `tare fleet collect`", ErrNotFleet, stateFile)
	}
	if err == nil {
		f.Options = o
		f.adopt(o.Rules)
		var all []candidate
		if all, err = f.candidates(ctx); err == nil {
			return f.admit(all), nil
		}
	}
	return nil, fmt.Errorf("read fleet %s: %w", dir, err)
}

// vacant says why no fleet can be collected in a folder.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case stateFile:
			return nil
		case bundle.ManifestFile:
			return fmt.Errorf("%w: it is a bundle; name a folder for the fleet first, then the bundles", ErrNotFleet)
		}
	}
	for _, e := range entries {
		if name := e.Name(); !slices.Contains([]string{hostsDir, lockFile, partOf(stateFile), RunFile, RunDir}, name) &&
			!strings.HasPrefix(name, ".") {
			return fmt.Errorf("%w: %q is in it; choose a folder that is empty or not there yet", ErrNotFleet, name)
		}
	}
	return nil
}

// expand replaces folders that are no bundles by the bundles in them, and leaves out paths that are named twice.
func expand(paths []string) []string {
	var out []string
	seen := map[string]bool{}
	add := func(path string) {
		if clean := filepath.Clean(path); !seen[clean] {
			seen[clean] = true
			out = append(out, clean)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || isBundle(path) {
			add(path)
			continue
		}
		inside, err := os.ReadDir(path)
		found := false
		for _, e := range inside {
			name := filepath.Join(path, e.Name())
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if strings.HasSuffix(e.Name(), bundle.Ext) || e.IsDir() && isBundle(name) {
				found = true
				add(name)
			}
		}
		if err != nil || !found {
			add(path) // reading it reports its fault
		}
	}
	return out
}

func isBundle(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, bundle.ManifestFile))
	return err == nil
}

// candidate is a bundle with the packed file that it is kept in.
type candidate struct {
	fleet.Candidate
	file   entry
	staged string // where the file is that has no name of its own yet; "" where it has one
	failed error  // this machine could not read the bundle, which says nothing of the bundle
	was    entry  // the folder's entry of it, where it counted and cannot be read now
}

// stage reads the bundles and packs each into a file of the fleet's folder that has no name of its own yet.
func (f *folder) stage(ctx context.Context, paths []string) ([]candidate, error) {
	return f.each(ctx, len(paths), func(i int, scratch string) candidate { return f.take(i, paths[i], scratch) })
}

// each calls do for 0 to n-1, several at a time, each with the name of a folder of its own, which it may make and which
// is removed afterwards.
func (f *folder) each(ctx context.Context, n int, do func(i int, scratch string) candidate) ([]candidate, error) {
	out := make([]candidate, n)
	next := make(chan int)
	stop := make(chan struct{}) // closed by what fails first
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for w := range min(workers(), n) {
		wg.Go(func() {
			for i := range next {
				dir := filepath.Join(f.Scratch, fmt.Sprintf("unpacked-%d", w))
				out[i] = do(i, dir)
				err := cmp.Or(out[i].failed, os.RemoveAll(dir))
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
					close(stop)
				} else if err == nil && f.Read != nil && out[i].Bundle != "" {
					f.Read(&out[i].Candidate)
				}
				mu.Unlock()
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break feed
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return out, errors.Join(failed, context.Cause(ctx))
}

// refused is a candidate that cannot count.
func refused(path, code, text, remedy string) candidate {
	return candidate{Candidate: fleet.Candidate{Bundle: path,
		Refused: &fleet.Refusal{Bundle: path, Code: code, Text: text, Remedy: remedy}}}
}

// unread is a candidate that could not be read, in the words of text. Where this machine's disk is full, that is no
// fault of the bundle's.
func unread(path string, err error, text string) candidate {
	if bundle.DiskFull(err) {
		return candidate{failed: fmt.Errorf("%w: free some disk space and run the command again", err)}
	}
	return refused(path, codeOf(err), text, remedyOf(err))
}

// take reads one bundle that the user named.
func (f *folder) take(i int, path, scratch string) candidate {
	staged := filepath.Join(f.dir, hostsDir, fmt.Sprintf(".new-%d%s", i, bundle.Ext))
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		if err = bundle.Pack(path, staged); errors.Is(err, bundle.ErrLocked) {
			return refused(path, fleet.StillRuns, "its run goes on", "collect it again when it has ended")
		}
	} else if err == nil {
		err = copyFile(path, staged)
	}
	if err != nil {
		return unread(path, err, err.Error())
	}
	c := f.summarize(staged, scratch)
	if c.failed != nil {
		return c
	}
	c.Bundle, c.staged = path, staged
	if c.Refused != nil {
		c.Refused.Bundle = path
		os.Remove(staged)
	}
	return c
}

func codeOf(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return fleet.NotThere
	}
	if errors.Is(err, bundle.ErrDamaged) {
		return fleet.Damaged
	}
	return fleet.Unreadable
}

func remedyOf(err error) string {
	if errors.Is(err, bundle.ErrDamaged) {
		return "fetch it from its host again"
	}
	return ""
}

// summarize unpacks a packed bundle, checks it against itself and takes the fleet's data from it.
func (f *folder) summarize(packed, scratch string) candidate {
	no := func(err error) candidate {
		text := strings.ReplaceAll(err.Error(), scratch+string(filepath.Separator), "")
		text = strings.ReplaceAll(strings.ReplaceAll(text, scratch, "it"), packed, "it")
		text = strings.TrimPrefix(text, "unpack it: ")
		return unread(packed, err, text)
	}
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return candidate{failed: err}
	}
	if err := bundle.Extract(packed, scratch); err != nil {
		return no(err)
	}
	h, refusal, err := f.inspect(scratch)
	switch {
	case err != nil:
		return no(err)
	case refusal != nil:
		refusal.Bundle = packed
		return candidate{Candidate: fleet.Candidate{Bundle: packed, Refused: refusal}}
	}
	c := candidate{Candidate: fleet.Candidate{Bundle: packed, Host: h}}
	if c.file, err = digest(packed); err != nil {
		return no(err)
	}
	return c
}

// inspect checks the bundle in a folder against itself and takes the fleet's data from it.
func (o *Options) inspect(dir string) (*fleet.Host, *fleet.Refusal, error) {
	report, err := bundle.Verify(dir)
	if err != nil {
		return nil, nil, err
	}
	if !report.OK() {
		text := report.Problems[0].String()
		if n := len(report.Problems); n > 1 {
			text = fmt.Sprintf("%d problems, the first: %s", n, text)
		}
		return nil, &fleet.Refusal{Code: fleet.Damaged, Text: text, Remedy: remedyOf(bundle.ErrDamaged)}, nil
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	trials, err := b.Load()
	if err != nil {
		return nil, nil, err
	}
	if code, text := Suspect(b, trials); code != "" {
		return nil, &fleet.Refusal{Code: code, Text: text,
			Remedy: map[bool]string{true: "fetch it from its host again"}[code == fleet.Damaged]}, nil
	}
	m := &b.Manifest
	result := verdict.Evaluate(verdict.Input{Plan: b.Plan, Environments: b.Environments, Trials: trials,
		Kinds: o.Kinds, Run: verdict.Run{ID: m.RunID, Version: m.Version, Build: m.Build, Seconds: m.Seconds,
			Finished: m.State == bundle.Finished}})
	return fleet.Summarize(m, &rundiff.Side{Result: result, Plan: b.Plan, Trials: trials, Created: m.Created,
		Redacted: len(m.Redacted) > 0, Kinds: o.Kinds}), nil, nil
}

// Suspect says why a bundle that is whole must not be counted all the same, with the code of the refusal; "" where
// nothing is wrong with it.
func Suspect(b *bundle.Bundle, trials []record.Trial) (code, text string) {
	if text := forged(b); text != "" {
		return fleet.Damaged, text
	}
	if len(b.Manifest.Inject) > 0 || slices.ContainsFunc(trials, func(t record.Trial) bool { return t.Inject != 0 }) {
		return fleet.SelfTest, "its figures are made up by `tare selftest`"
	}
	return "", ""
}

// Files are the packed bundles that count in the fleet in dir.
func Files(dir string) ([]string, error) {
	f, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("read fleet %s: %w", dir, err)
	}
	var out []string
	for _, e := range f.state.Hosts {
		out = append(out, filepath.Join(dir, hostsDir, e.File))
	}
	return out, nil
}

// mostParts bounds the parts of a fleet, and the number that a mark can claim.
const mostParts = 1_000_000

// forged names the fact that a bundle's mark contradicts; "" where it has none or it fits.
func forged(b *bundle.Bundle) string {
	s := b.Manifest.Shard
	switch {
	case s == nil:
	case s.Of < 1 || s.Of > mostParts || s.Number < 1 || s.Number > s.Of:
		return fmt.Sprintf("its mark says part %d of %d, which no fleet has", s.Number, s.Of)
	case len(s.Host) > 253 || len(s.Machine) > 64 || len(s.Plan) > 64 || len(s.Facts) > 100:
		return "its mark is longer than tare writes one"
	// A plan with missing: skip is another on each host.
	case b.Plan.Missing != plan.Skip && s.Plan != plan.Identity(b.Plan):
		return "its mark names another plan than the one in it"
	}
	return ""
}

// copyFile copies a file, synced. It refuses one that is no regular file: a pipe would be waited for.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a folder nor a file", from)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(to)
	}
	return err
}

func digest(path string) (entry, error) {
	in, err := os.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer in.Close()
	h := sha256.New()
	n, err := io.Copy(h, in)
	return entry{SHA256: hex.EncodeToString(h.Sum(nil)), Size: n}, err
}

// settle decides which bundles count, gives their files names, and writes fleet.json. After an error the folder is as
// before.
func (f *folder) settle(all []candidate) (*fleet.Admitted, error) {
	a := f.admit(all)
	next := state{Schema: Schema, Version: f.state.Version, Plan: a.Plan, Build: a.Build, By: a.By,
		Expected: f.Rules.Expected, Parts: f.Rules.Parts, Refused: []fleet.Refusal{}}
	unread, anew := map[string]bool{}, map[string]bool{}
	for i := range all {
		unread[all[i].Bundle] = unread[all[i].Bundle] || all[i].was.File != ""
	}
	for i := range a.Hosts {
		if c := &all[a.Hosts[i].At]; c.staged != "" {
			anew[c.Bundle] = true
		}
	}
	// What counts anew under its name has taken its place.
	a.Refused = slices.DeleteFunc(a.Refused, func(r fleet.Refusal) bool { return unread[r.Bundle] && anew[r.Bundle] })
	for _, r := range a.Refused {
		// A name that was mistyped is no part of the fleet. What cannot be read now is looked at each time.
		if r.Code != fleet.NotThere && !unread[r.Bundle] {
			next.Refused = append(next.Refused, r)
		}
	}
	for i := range a.Hosts {
		c := &all[a.Hosts[i].At]
		if c.staged != "" {
			if err := f.keep(c); err != nil {
				return nil, err
			}
		}
		next.Hosts = append(next.Hosts, c.file)
	}
	// The disk may give it back, or another build read it: only what something else took the place of is removed.
	for i := range all {
		was := all[i].was
		if was.File == "" || anew[all[i].Bundle] {
			continue
		}
		if !slices.ContainsFunc(next.Hosts, func(e entry) bool { return e.File == was.File }) {
			next.Hosts = append(next.Hosts, was)
		}
	}
	slices.SortFunc(next.Hosts, func(x, y entry) int { return cmp.Compare(x.File, y.File) })
	src, err := json.MarshalIndent(&next, "", "  ")
	if err == nil {
		err = replace(filepath.Join(f.dir, stateFile), append(src, '\n'))
	}
	if err != nil {
		return nil, err
	}
	f.state = next
	return a, nil
}

// keep gives a staged file its name, and writes its summary beside it.
func (f *folder) keep(c *candidate) error {
	base := strings.ToLower(bundle.EvidenceName(c.Host.Name))
	base = base[:min(len(base), 60)] + "-" + c.file.SHA256[:12]
	c.file.File, c.file.Bundle = base+bundle.Ext, c.Bundle
	path := filepath.Join(f.dir, hostsDir, c.file.File)
	if err := os.Rename(c.staged, path); err != nil {
		return err
	}
	return f.note(c)
}

// note writes a bundle's summary beside it.
func (f *folder) note(c *candidate) error {
	src, err := json.Marshal(summary{Schema: Schema, Build: version.Build, SHA256: c.file.SHA256, Host: c.Host})
	if err != nil {
		return err
	}
	return replace(filepath.Join(f.dir, hostsDir, noteOf(c.file.File)), append(src, '\n'))
}
