package gallery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"tare/internal/bundle/redact"
	"tare/internal/lab/leftover"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/unit"
	"tare/internal/version"
)

// Options are the settings of a build.
type Options struct {
	Dir     string   // where the site is or shall be; made if it is not there
	Bundles []string // folders and packed bundles
	Title   string   // of the site; "" keeps the one it has
	// Only takes results off the site that Bundles does not name.
	Only bool
	// Names leaves names of hosts and users in the site. Without it, bundles that were not redacted yet are redacted.
	Names   bool
	Secrets redact.Secrets
	// NoBundles offers no packed bundles for download.
	NoBundles bool
	MaxBytes  int64         // of a bundle, packed and unpacked; 0 means DefaultMaxBytes
	Timeout   time.Duration // for one bundle; 0 means DefaultTimeout
	Scratch   string        // where bundles are unpacked; "" is the system's folder for temporary files
	RunID     string        // names the folder within Scratch
	Kinds     func(name string) (*workload.Kind, bool)
	// Command is the command line that repeats a plan, or "".
	Command func(*plan.Plan) string
}

// Bounds of one bundle. In memory trials are some five times as large as in a file.
const (
	DefaultMaxBytes = 64 << 20
	DefaultTimeout  = time.Minute
)

// mostWorkers bounds how many bundles are in memory at once.
const mostWorkers = 8

// Summary has the counts of a build.
type Summary struct {
	Results int       // on the site now
	Made    int       // pages of results made in this build
	Same    int       // bundles with the same content as another one
	Written []string  // files written, slash-separated below Dir, sorted
	Removed []string  // files removed
	Skipped []Skipped // in the order of Bundles
	Twice   []string  // run ids that several different results claim
}

// Skipped is a bundle that is not on the site, and why.
type Skipped struct {
	Bundle string
	Err    error
}

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotGallery is returned for a folder with something else in it.
	ErrNotGallery = errors.New("the folder is not empty and holds no gallery")
	// ErrNothing is returned where no result would be on the site.
	ErrNothing = errors.New("there is no result to show")
	// ErrNewer is returned for a gallery that a newer tare wrote.
	ErrNewer = errors.New("written by a newer version of tare")
)

// renderer is which build made a page: another one may say it in other words.
func renderer() string { return version.Version + " " + version.Build }

// builder is one build.
type builder struct {
	Options
	site    *site
	old     *state
	scratch string
	summary Summary
	results []*result
}

// Build brings the site up to date. A bundle that cannot be shown is in Summary.Skipped and stops nothing; an error
// means that the site could not be written, or that there is nothing to show. The files of the site are whole at any
// time; after a build that was stopped, the next one finishes the work.
func Build(ctx context.Context, o Options) (*Summary, error) {
	b := &builder{Options: o}
	if b.MaxBytes <= 0 {
		b.MaxBytes = DefaultMaxBytes
	}
	if b.Timeout <= 0 {
		b.Timeout = DefaultTimeout
	}
	if err := b.build(ctx); err != nil {
		return &b.summary, fmt.Errorf("build gallery %s: %w", o.Dir, err)
	}
	return &b.summary, nil
}

func (b *builder) build(ctx context.Context) (err error) {
	if b.site, b.old, err = openSite(b.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.site.close()) }()
	dir, release, err := leftover.New(b.Scratch, cmp.Or(b.RunID, "gallery"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	b.scratch = dir
	if err := b.gather(ctx); err != nil {
		return err
	}
	if len(b.results) == 0 {
		return b.nothing()
	}
	if err := b.site.pages(b.title(), b.results); err != nil {
		return err
	}
	b.summary.Results = len(b.results)
	return b.finish()
}

// nothing is the error of a site without results. A folder that was made for it goes.
func (b *builder) nothing() error {
	b.site.abandon()
	if n := len(b.summary.Skipped); n > 0 {
		return fmt.Errorf("%w: %s skipped", ErrNothing, unit.Plural(n, "bundle"))
	}
	return fmt.Errorf("%w: name bundles", ErrNothing)
}

func (b *builder) title() string { return cmp.Or(oneLine(b.Title, 120), b.old.Title, "Results") }

// finish removes files that nobody refers to and writes gallery.json.
func (b *builder) finish() error {
	if err := b.site.sweep(); err != nil {
		return err
	}
	s := &state{Schema: Schema, Title: b.title(), Results: b.results, Files: b.site.files}
	if err := b.site.save(s); err != nil {
		return err
	}
	b.summary.Written, b.summary.Removed = b.site.written, b.site.removed
	slices.Sort(b.summary.Written)
	slices.Sort(b.summary.Removed)
	return nil
}

// job is one bundle to take.
type job struct {
	path string
	name string  // a digest of the file's name
	old  *result // the site's result of it, if that is known before the bundle is read
	made *result
	err  error
}

// gather takes the named bundles, and the results that the site has beside them.
func (b *builder) gather(ctx context.Context) error {
	var jobs []*job
	for _, path := range b.Bundles {
		jobs = append(jobs, &job{path: path, name: digestOf(filepath.Base(filepath.Clean(path)))})
	}
	if err := b.takeAll(ctx, jobs); err != nil {
		return err
	}
	byID := map[string]*result{}
	again := map[[2]string]bool{} // run and file name of each bundle that was taken
	for _, j := range jobs {
		if j.err != nil {
			b.summary.Skipped = append(b.summary.Skipped, Skipped{j.path, j.err})
			continue
		}
		again[[2]string{j.made.Run, j.name}] = true
		if r := byID[j.made.ID]; r != nil {
			b.summary.Same++
			r.Keys = unite(r.Keys, j.made.Keys)
			continue
		}
		byID[j.made.ID] = j.made
	}
	if err := b.keep(ctx, byID, again); err != nil {
		return err
	}
	for _, r := range byID {
		b.results = append(b.results, r)
	}
	slices.SortFunc(b.results, func(x, y *result) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID))
	})
	runs := map[string]int{}
	for _, r := range b.results {
		r.Twice = false
		if runs[r.Run]++; runs[r.Run] == 2 {
			b.summary.Twice = append(b.summary.Twice, r.Run)
		}
	}
	for _, r := range b.results {
		r.Twice = runs[r.Run] > 1
	}
	return nil
}

// keep adds the site's results of other bundles. Where their pages must be made again, they are made of the packed
// bundles that the site has.
func (b *builder) keep(ctx context.Context, byID map[string]*result, again map[[2]string]bool) error {
	if b.Only {
		return nil
	}
	var jobs []*job
	for _, r := range b.old.Results {
		switch {
		case byID[r.ID] != nil:
		case again[[2]string{r.Run, r.Name}]: // the same file, with more in it
		case b.current(r):
			b.site.hold(r.files()...)
			byID[r.ID] = r
		case r.Bytes > 0 && b.site.intact(r.bundlePath()):
			jobs = append(jobs, &job{path: filepath.Join(b.Dir, filepath.FromSlash(r.bundlePath())), name: r.Name,
				old: r})
		case b.site.intact(r.pagePath()):
			b.site.hold(r.pagePath())
			r.Bytes = 0
			byID[r.ID] = r
		default:
			b.summary.Skipped = append(b.summary.Skipped, Skipped{"result " + r.ID,
				errors.New("its page is gone, and so is its bundle: name the bundle again")})
		}
	}
	if err := b.takeAll(ctx, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.err != nil {
			b.summary.Skipped = append(b.summary.Skipped, Skipped{j.path, j.err})
			continue
		}
		byID[j.made.ID] = j.made
	}
	return nil
}

// current tells whether the site's files of a result are those that this build would make of it.
func (b *builder) current(r *result) bool {
	if r.Built != renderer() || len(b.Secrets.Words) > 0 || !b.Names && !r.Redacted ||
		b.NoBundles != (r.Bytes == 0) {
		return false
	}
	return b.site.intact(r.files()...)
}

// takeAll takes bundles, several at a time. Its error is one that stops the build.
func (b *builder) takeAll(ctx context.Context, jobs []*job) error {
	next := make(chan *job)
	stopped, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), mostWorkers, len(jobs)) {
		wg.Go(func() {
			for j := range next {
				j.made, j.err = b.take(stopped, j)
				if _, ok := errors.AsType[*siteError](j.err); ok {
					stop(j.err) // a full disk concerns all
				}
			}
		})
	}
	for _, j := range jobs {
		if stopped.Err() != nil {
			break
		}
		next <- j
	}
	close(next)
	wg.Wait()
	if stopped.Err() != nil {
		return context.Cause(stopped)
	}
	return nil
}

// unite appends the new ones in more.
func unite(keys, more []string) []string {
	for _, k := range more {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// makeScratch makes a folder of a bundle's own, which done removes.
func (b *builder) makeScratch() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp(b.scratch, "b-")
	return dir, func() { os.RemoveAll(dir) }, err
}
