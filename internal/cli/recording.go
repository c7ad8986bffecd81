package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/judge/history"
	"tare/internal/judge/rundiff"
	"tare/internal/run/collect"
	"tare/internal/unit"
)

// errRefused is an error of one bundle, which keeps no other from being recorded.
var errRefused = errors.New("not recorded")

// refusal is an error of one bundle in its own words.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == errRefused }
func (r refusal) Unwrap() error      { return r.error }

// record records one bundle. Errors that are errRefused concern that bundle only.
func (a *app) record(ctx context.Context, s *history.Store, arg string) (history.Change, *history.Entry, error) {
	e, err := a.entry(arg, s.Server())
	if err != nil {
		return "", nil, refusal{err}
	}
	change, err := s.Add(ctx, e)
	if errors.Is(err, history.ErrOther) {
		return "", nil, refusal{fmt.Errorf("record %s: %w", arg, err)}
	}
	return change, &e, err
}

// entry returns the record of a bundle for a history, with packed also the packed bundle. A damaged one is refused:
// half a run would pass for a run for ever after.
func (a *app) entry(arg string, packed bool) (history.Entry, error) {
	in, err := a.folder(arg)
	if err != nil {
		return history.Entry{}, err
	}
	defer in.done()
	b, err := a.read(in, arg)
	if err != nil {
		return history.Entry{}, err
	}
	if err := errors.Join(b.packed, b.damage); err != nil {
		return history.Entry{}, fmt.Errorf("record %s: %w", arg, err)
	}
	switch r, err := bundle.Verify(in.dir); {
	case err != nil:
		return history.Entry{}, err
	case !r.OK():
		return history.Entry{}, fmt.Errorf("record %s: %w: %s; `tare verify` tells more", arg, bundle.ErrDamaged,
			r.Problems[0])
	}
	if code, text := collect.Suspect(b.Bundle, b.trials); code != "" {
		return history.Entry{}, fmt.Errorf("record %s: %s", arg, text)
	}
	where, err := filepath.Abs(arg)
	if err != nil {
		where = arg
	}
	m := &b.Manifest
	e := history.Entry{Result: b.result, Created: m.Created, Bundle: where, Host: history.HostFacts(b.result, b.Plan),
		Work: history.WorkTexts(b.Plan), Trials: len(b.trials)}
	if m.State != bundle.Running && len(m.Redacted) == 0 {
		e.Head = m.Head
	}
	side := b.side()
	h := fleet.Summarize(m, side)
	e.Fleet = history.Fleet{Plan: h.Plan, Host: h.Name, Machine: h.Machine, Part: h.Number, Of: h.Of, Facts: h.Facts,
		Figures: figuresOf(h, side)}
	if packed {
		e.Packed, err = a.packedBytes(arg, in.dir)
	}
	return e, err
}

// figuresOf are the figures of a run, each of work in one target.
func figuresOf(h *fleet.Host, side *rundiff.Side) (out []history.Figure) {
	better := map[fleet.Key]string{}
	for i := range h.Measures {
		better[h.Measures[i].Key] = h.Measures[i].Better
	}
	for _, v := range rundiff.FiguresOf(side) {
		out = append(out, history.Figure{Target: v.Target, Workload: v.Workload, Metric: v.Metric, Kind: v.Kind,
			Unit: v.Unit, Better: better[fleet.Key{Workload: v.Workload, Metric: v.Metric, Target: v.Target}],
			Primary: v.Primary, Value: v.Center, Low: v.Low, High: v.High, Blocks: v.Blocks, Why: v.Doubt})
	}
	return out
}

// packedBytes is a bundle packed: the file that it is, or its folder made into one. Of one that is too long there is
// none.
func (a *app) packedBytes(arg, dir string) ([]byte, error) {
	var b bytes.Buffer
	to := &atMost{w: &b, left: history.MaxPacked}
	var err error
	if dir != arg {
		var f *os.File
		if f, err = os.Open(arg); err != nil {
			return nil, err
		}
		defer f.Close()
		_, err = io.Copy(to, f)
	} else if err = bundle.PackTo(to, dir); errors.Is(err, bundle.ErrLocked) {
		return nil, fmt.Errorf("record %s: its run goes on; record it when it has ended", arg)
	}
	if errors.Is(err, errTooLong) {
		fmt.Fprintf(a.err, "tare: %s has more than %d MiB: its figures are recorded, and it stays where it is\n",
			printableLine(arg), history.MaxPacked>>20)
		return nil, nil
	}
	return b.Bytes(), err
}

var errTooLong = errors.New("more than there is room for")

// atMost writes a number of bytes and no more.
type atMost struct {
	w    io.Writer
	left int
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.left -= len(p); a.left < 0 {
		return 0, errTooLong
	}
	return a.w.Write(p)
}

// recordPatience bounds the time for which results of a measurement wait for their server: an hour's work is not given
// up in a minute.
const recordPatience = 10 * time.Minute

// storeFlag is --store of the commands that measure or collect.
type storeFlag struct {
	address string
}

func (f *storeFlag) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.address, "store", "",
		"record the result in this history as well: postgres://USER@HOST/DATABASE, or a file (tare history --help)")
}

// check says before anything is measured what would keep the result from being recorded. A server that cannot be
// reached now may be there at the end.
func (f *storeFlag) check(ctx context.Context, a *app) error {
	if f.address == "" {
		return nil
	}
	if err := history.CheckPublic(f.address); err != nil {
		return usageError{fmt.Errorf("--store: %w", err)}
	}
	s, err := history.Open(ctx, f.address)
	if err == nil {
		err = s.Writable(ctx)
		err = errors.Join(err, s.Close())
	}
	if err != nil && ctx.Err() == nil && history.Passing(err) {
		fmt.Fprintf(a.err, "tare: %s; it is tried again at the end\n", printableLine(err.Error()))
		return nil
	}
	return err
}

// record records bundles in the history that --store names, and says so. What was measured stays where it is whatever
// comes of it.
func (f *storeFlag) record(ctx context.Context, a *app, quiet bool, bundles ...string) error {
	if f.address == "" || len(bundles) == 0 {
		return nil
	}
	count := map[history.Change]int{}
	err := func() (err error) {
		s, err := history.OpenWith(ctx, f.address, history.Options{Patience: recordPatience,
			Waiting: a.waitsForStore})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		var refused []error
		for _, path := range bundles {
			change, _, err := a.record(ctx, s, path)
			switch {
			case errors.Is(err, errRefused):
				refused = append(refused, err)
			case err != nil:
				return err
			default:
				count[change]++
			}
		}
		return errors.Join(refused...)
	}()
	if err != nil {
		again := "tare history add --store " + quoteArg(f.address)
		for _, path := range bundles[:min(len(bundles), 3)] {
			again += " " + quoteArg(path)
		}
		if len(bundles) > 3 {
			again += " ..."
		}
		return fmt.Errorf("%w; what was measured is whole, and can be recorded later: %s", err, again)
	}
	if !quiet {
		text := unit.Plural(count[history.Added]+count[history.Replaced], "run")
		if n := count[history.Unchanged] + count[history.Outdated]; n > 0 {
			text += fmt.Sprintf(", %d recorded before", n)
		}
		fmt.Fprintf(a.err, "recorded   %s\n", text)
	}
	return nil
}

// recordFleet records the bundles that count in a fleet's folder.
func (f *storeFlag) recordFleet(ctx context.Context, a *app, quiet bool, dir string) error {
	if f.address == "" {
		return nil
	}
	bundles, err := collect.Files(dir)
	if err != nil {
		return err
	}
	return f.record(ctx, a, quiet, bundles...)
}

// waitsForStore tells the user the reason why a server is waited for.
func (a *app) waitsForStore(reason string) {
	fmt.Fprintf(a.err, "waiting    for the server of the history: %s\n", printableLine(reason))
}
