package gallery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/bundle/redact"
	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/show/report"
	"tare/internal/unit"
)

// Bounds of one result, so that no stranger's bundle makes the build endless.
const (
	mostPairs = 20_000  // targets times workloads of a plan
	mostFiles = 100_000 // of a folder
)

// take makes the result of one bundle: its page and its packed bundle are on the site afterwards. A result that the
// site has already is taken as it is.
func (b *builder) take(ctx context.Context, j *job) (*result, error) {
	key, err := b.keyOf(j.path)
	if err != nil {
		return nil, err
	}
	if r := b.known(key); r != nil && b.current(r) && !(b.Names && r.Masked) {
		b.site.hold(r.files()...)
		kept := *r // one file may be named twice
		kept.Name = j.name
		return &kept, nil
	}
	late, cancel := context.WithTimeoutCause(ctx, b.Timeout,
		fmt.Errorf("it takes longer than %s; give it more time with --timeout", b.Timeout))
	defer cancel()
	t, err := within(late, func() (*loadedBundle, error) { return b.read(late, j) })
	if err != nil {
		return nil, err
	}
	r := t.result
	r.Keys, r.Name = []string{key}, j.name
	if j.old != nil { // a bundle of the site's own: it stays the result of the one that it was made of
		r.Keys, r.Masked = j.old.Keys, r.Masked || j.old.Masked
	}
	page, err := renderResult(t)
	if err != nil {
		return nil, err
	}
	if err := b.site.write(r.pagePath(), page); err != nil {
		return nil, err
	}
	if r.Bytes > 0 {
		if err := b.site.write(r.bundlePath(), t.packed); err != nil {
			return nil, err
		}
	}
	b.count()
	return r, nil
}

func (b *builder) count() {
	b.site.mu.Lock()
	b.summary.Made++
	b.site.mu.Unlock()
}

// known is the site's result of an input.
func (b *builder) known(key string) *result {
	for _, r := range b.old.Results {
		if slices.Contains(r.Keys, key) {
			return r
		}
	}
	return nil
}

// within runs a function that cannot be stopped from outside, and waits for it no longer than ctx. One that goes on all
// the same ends with the program, or earlier: its folder is gone. A stranger's bundle that makes it panic is one that
// cannot be shown.
func within[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("it cannot be judged: %v", p)
			}
			done <- o
		}()
		o.v, o.err = do()
	}()
	select {
	case o := <-done:
		if o.err != nil && ctx.Err() != nil {
			o.err = context.Cause(ctx)
		}
		return o.v, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// keyOf is a digest of a bundle's bytes as they lie there. It refuses a bundle that is too large before it reads it.
func (b *builder) keyOf(path string) (string, error) {
	info, err := os.Stat(path)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return "", p.Err // the caller names it
	}
	if err != nil {
		return "", err
	}
	h := sha256.New()
	left := b.MaxBytes
	switch {
	case info.Mode().IsRegular():
		if err := hashFile(h, path, &left); err != nil {
			return "", err
		}
		return hex.EncodeToString(h.Sum(nil)), nil
	case !info.IsDir():
		return "", fmt.Errorf("%w: neither a folder nor a file", bundle.ErrNotBundle)
	}
	if _, err := os.Lstat(filepath.Join(path, bundle.ManifestFile)); err != nil {
		return "", fmt.Errorf("%w: it has no %s", bundle.ErrNotBundle, bundle.ManifestFile)
	}
	count := 0
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if count++; count > mostFiles {
			return fmt.Errorf("%w: more than %d files", bundle.ErrTooLarge, mostFiles)
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%w: %.80q is not a regular file", bundle.ErrNotBundle, d.Name())
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q\n", filepath.ToSlash(rel))
		return hashFile(h, name, &left)
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// hashFile adds a file, its length first, and takes that from the bytes that are left.
func hashFile(h io.Writer, name string, left *int64) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%d\n", info.Size())
	n, err := io.Copy(h, io.LimitReader(f, *left+1))
	if *left -= n; *left < 0 {
		return fmt.Errorf("%w: more than the limit; --max-size takes more", bundle.ErrTooLarge)
	}
	return err
}

// loadedBundle is a bundle that was read.
type loadedBundle struct {
	result *result
	page   resultPage
	packed []byte
}

// read unpacks, verifies, redacts and judges a bundle. Nothing of it is on the site yet.
func (b *builder) read(ctx context.Context, j *job) (*loadedBundle, error) {
	tmp, done, err := b.makeScratch()
	if err != nil {
		return nil, err
	}
	defer done()
	dir := j.path
	if info, err := os.Stat(dir); err == nil && info.Mode().IsRegular() {
		dir = filepath.Join(tmp, "bundle")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		if err := bundle.ExtractWithin(ctx, j.path, dir, b.MaxBytes); err != nil {
			return nil, bare(err, j.path)
		}
	}
	original, err := bundle.Open(dir)
	if err != nil {
		return nil, bare(err, dir)
	}
	if n := len(original.Plan.Targets) * len(original.Plan.Workloads); n > mostPairs {
		return nil, fmt.Errorf("%w: its plan has %d pairs of a target and a workload, a gallery takes %d",
			bundle.ErrTooLarge, n, mostPairs)
	}
	id := idOf(&original.Manifest, b.contentOf(dir))
	if j.old != nil {
		id = j.old.ID
	}
	masked := false
	if !b.Names && (len(original.Manifest.Redacted) == 0 || len(b.Secrets.Words) > 0) {
		copied := filepath.Join(tmp, "redacted")
		if err := redact.Bundle(dir, copied, b.Secrets); err != nil { // it verifies
			return nil, bare(err, dir)
		}
		dir, masked = copied, true
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := &loadedBundle{}
	if !b.NoBundles {
		var packed bytes.Buffer
		if err := bundle.PackTo(&packed, dir); err != nil { // it verifies
			return nil, bare(err, dir)
		}
		t.packed = packed.Bytes()
	} else if err := verified(dir); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.judge(t, dir, id); err != nil {
		return nil, bare(err, dir)
	}
	t.result.Masked = masked
	return t, nil
}

// verified is the check that PackTo asks for, where nothing is packed.
func verified(dir string) error {
	r, err := bundle.Verify(dir)
	if err != nil {
		return bare(err, dir)
	}
	if !r.OK() {
		return fmt.Errorf("%w: %s", bundle.ErrDamaged, r.Problems[0])
	}
	return nil
}

// bare takes the folder that a bundle was read from out of an error: it lies elsewhere by the time that is read.
func bare(err error, dir string) error {
	text := err.Error()
	for _, op := range []string{"redact bundle ", "pack bundle ", "open bundle ", "verify bundle ", "unpack ",
		"read bundle ", "read trials of "} {
		text = strings.TrimPrefix(text, op+dir+": ")
	}
	if text == err.Error() {
		return err
	}
	return &bareError{text, err}
}

// bareError says an error in fewer words.
type bareError struct {
	text string
	err  error
}

func (e *bareError) Error() string { return e.text }
func (e *bareError) Unwrap() error { return e.err }

// contentOf is a digest of a bundle's files, however they were packed.
func (b *builder) contentOf(dir string) string {
	key, err := b.keyOf(dir)
	if err != nil { // it changes while it is read; packing it takes the lock and says so
		return digestOf(err.Error())
	}
	return key
}

// idOf names a result after its run and its content: whoever claims the run of another gets another name.
func idOf(m *bundle.Manifest, content string) string {
	name := strings.ReplaceAll(bundle.EvidenceName(m.RunID), "..", "-")
	return name[:min(len(name), 40)] + "-" + content[:16]
}

// judge computes the verdicts and the texts of the pages.
func (b *builder) judge(t *loadedBundle, dir, id string) error {
	x, err := bundle.Open(dir)
	if err != nil {
		return err
	}
	trials, err := x.Load()
	if err != nil {
		return err
	}
	m := &x.Manifest
	r := verdict.Evaluate(verdict.Input{
		Plan: x.Plan, Environments: x.Environments, Trials: trials, Kinds: b.Kinds,
		Run: verdict.Run{ID: m.RunID, Version: m.Version, Build: m.Build, Seconds: m.Seconds,
			Finished: m.State == bundle.Finished},
	})
	model := report.NewModel(r)
	model.Plan, model.Trials, model.Redacted = x.Plan, trials, len(m.Redacted) > 0
	if !b.NoBundles {
		model.Bundle = id + bundle.Ext
	}
	if b.Command != nil {
		model.Command = b.Command(x.Plan)
	}
	brief := report.NewBrief(model)
	t.result = newResult(x, r, brief)
	t.result.ID, t.result.Bytes = id, int64(len(t.packed))
	t.page = resultPage{ID: id, Brief: brief, Created: m.Created, Bytes: t.result.Bytes, Run: oneLine(m.RunID, 80),
		Redacted: model.Redacted, Finished: r.Run.Finished}
	return nil
}

// newResult has the data of a result for lists and rankings.
func newResult(x *bundle.Bundle, v *verdict.Result, brief *report.Brief) *result {
	m := &x.Manifest
	r := &result{Run: oneLine(m.RunID, 80), Created: m.Created.UTC().Truncate(time.Second),
		Title: oneLine(brief.Title, 120), Built: renderer(), Redacted: len(m.Redacted) > 0, Finished: v.Run.Finished}
	if brief.Question != "" {
		r.Title = oneLine(brief.Question, 120)
	}
	if brief.Headline != "" {
		r.Headline = oneLine(brief.Headline, 220)
		if n := len(brief.Answers) - 1; n > 0 {
			r.Headline += " And " + unit.Plural(n, "more answer") + "."
		}
	}
	for i := range x.Plan.Targets {
		r.Environments = facet(r.Environments, driverOf(&x.Plan.Targets[i]))
	}
	for i := range x.Plan.Workloads {
		r.Workloads = facet(r.Workloads, x.Plan.Workloads[i].Kind)
	}
	for i := range v.Targets {
		if t := &v.Targets[i]; !t.IsMount() {
			r.Processors = facet(r.Processors, t.Inside.CPU)
			r.Kernels = facet(r.Kernels, kernelName(&t.Inside))
		}
	}
	r.addCells(x, v, brief)
	return r
}

// counted is the index of a verdict in result.Verdicts.
func counted(c *report.BriefCell) int {
	switch {
	case c.Verdict == record.Different && c.Ratio != "" && c.Center > 1:
		return 0
	case c.Verdict == record.Different:
		return 1
	case c.Verdict == record.Equivalent:
		return 2
	}
	return 3
}

// digestOf is a short digest of a text.
func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// orText is a text, or "not known" for an empty one.
func orText(s string) string { return cmp.Or(s, "not known") }
