// Package supply makes the files that work with a web server or a database server, and commands, need in the
// environments, from the files on the controller's machine that their parameters name.
//
// It is opinionated. A log becomes a trace, with an account of the statements that are not replayed. Data becomes
// statements, or an archive with checksums, and so does a tree of files. All files are made before an environment is
// opened, once for all workloads with equal parameters, and are copies, so that later changes of the originals do not
// affect the run. A password is a file, too, because parameters are visible.
package supply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"tare/internal/lab/deploy"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

// Shop is the value of a parameter for the synthetic shop instead of a file.
const Shop = "shop"

// source is a parameter that a file is made from.
type source struct {
	param string
	with  []string // other parameters that the file depends on
	// check returns an error if the file cannot be made. It reads only the beginning of the original.
	check func(value string, p workload.Params) error
	// copies says that the file is about as large as the original, or larger.
	copies bool
	// make writes the file. The account is that of a log, else nil.
	make func(ctx context.Context, value string, p workload.Params, dst io.Writer) (*log.Account, error)
}

// sources are all such parameters of work with a server. Their names are the same in all kinds with such a server.
var sources = map[workload.Server][]source{
	workload.DatabaseServer: {
		{"log", []string{"server", "log-format", "prefix", "zone", "writes", "locks", "order", "shard", "items",
			"views"},
			checkLog, false, makeTrace},
		{"data", []string{"server", "items"}, checkData, true, makeData},
		{"password-file", nil, checkFile, false, makePassword},
		{"tls-ca", nil, checkFile, false, makeCopy},
	},
	workload.WebServer: {
		{"log", []string{"log-format", "fields", "zone", "writes", "shard"}, checkAccessLog, false, makeAccessTrace},
	},
}

// commandSources are those of a command of the user's.
var commandSources = []source{{"tree", nil, checkTree, true, makeTree}}

// serverOf is the server that serves a workload.
func serverOf(w *plan.Workload) workload.Server { return all.Named(w.Kind).Is.Server }

func sourcesOf(w *plan.Workload) []source {
	if all.Named(w.Kind).Is.Command {
		return commandSources
	}
	return sources[serverOf(w)]
}

// Maker makes files. It is not safe for concurrent use.
type Maker struct {
	dir  string
	made map[string]*madeFile
}

// madeFile is a finished file.
type madeFile struct {
	deploy.File
	file    *os.File
	account *log.Account
}

// New returns a Maker with its files in a directory, which it creates when needed.
func New(dir string) *Maker { return &Maker{dir: dir, made: map[string]*madeFile{}} }

// Close closes the files. The caller removes the directory.
func (m *Maker) Close() error {
	var errs []error
	for _, f := range m.made {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// each calls do for each file of a workload.
func each(w *plan.Workload, do func(s *source, value string) error) error {
	all := sourcesOf(w)
	for i := range all {
		s := &all[i]
		if value := w.Params[s.param]; value != "" {
			if err := do(s, value); err != nil {
				return fmt.Errorf("%s: %s: %w", w.Label, s.param, err)
			}
		}
	}
	return nil
}

// Check returns an error if a file that the plan needs cannot be made. It reads only the beginnings of the originals.
func Check(p *plan.Plan) error {
	for i := range p.Workloads {
		for _, w := range asDone(p, &p.Workloads[i]) {
			if err := each(w, func(s *source, value string) error { return s.check(value, w.Params) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// asDone is a workload as each of its targets does it, once if all do the same.
func asDone(p *plan.Plan, w *plan.Workload) []*plan.Workload {
	all := []*plan.Workload{w}
	for target := range w.Vary {
		all = append(all, w.For(target))
	}
	return all
}

// Prepare makes all files of a plan. It calls tell for each log with the account in one sentence.
func (m *Maker) Prepare(ctx context.Context, p *plan.Plan, tell func(string)) error {
	for i := range p.Workloads {
		before := len(m.made)
		for _, w := range asDone(p, &p.Workloads[i]) {
			if _, err := m.Of(ctx, w); err != nil {
				return err
			}
		}
		if a := m.account(&p.Workloads[i]); a != nil && len(m.made) > before {
			tell(fmt.Sprintf("%s: %s", p.Workloads[i].Params["log"], said(a, Item(&p.Workloads[i]))))
		}
	}
	return nil
}

// Of returns the files of a workload by parameter, as schedule.Files requires. It makes missing files.
func (m *Maker) Of(ctx context.Context, w *plan.Workload) (map[string]deploy.File, error) {
	files := map[string]deploy.File{}
	return files, each(w, func(s *source, value string) error {
		key := s.key(w)
		if m.made[key] == nil {
			f, err := m.make(ctx, s, value, w.Params)
			if err != nil {
				return err
			}
			m.made[key] = f
		}
		files[s.param] = m.made[key].File
		return nil
	})
}

// key identifies a file by all that it depends on.
func (s *source) key(w *plan.Workload) string {
	key := string(serverOf(w)) + " " + s.param + "=" + strconv.Quote(w.Params[s.param])
	for _, name := range s.with {
		key += " " + name + "=" + strconv.Quote(w.Params[name])
	}
	return key
}

func (m *Maker) make(ctx context.Context, s *source, value string, p workload.Params) (*madeFile, error) {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, err
	}
	if s.copies && value != Shop {
		if err := m.checkRoom(value); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(filepath.Join(m.dir, fmt.Sprintf("%03d", len(m.made))),
		os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	f := &madeFile{file: file}
	f.Content = file
	digest := sha256.New()
	f.account, err = s.make(ctx, value, p, &gauge{ctx, io.MultiWriter(file, digest), &f.Size})
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	digest.Sum(f.Digest[:0])
	return f, nil
}

// checkRoom returns an error if a file or directory does not fit into the Maker's. One that it cannot read is left to
// the copy to find.
func (m *Maker) checkRoom(name string) error {
	if at, err := filepath.EvalSymlinks(name); err == nil {
		name = at
	}
	size := int64(0)
	_ = filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if free := sysinfo.Free(m.dir); free >= 0 && free < size {
		return fmt.Errorf("a copy of %s takes %s, and the disk of %s has %s left: free some space, or let TMPDIR "+
			"name a directory on another disk", name, unit.Format(float64(size), "B"), m.dir,
			unit.Format(float64(free), "B"))
	}
	return nil
}

// gauge counts bytes and fails when its context is done.
type gauge struct {
	ctx  context.Context
	w    io.Writer
	size *int64
}

func (g *gauge) Write(b []byte) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := g.w.Write(b)
	*g.size += int64(n)
	return n, err
}

// Same returns an error if a trial of an earlier part of the run read other files than those that the Maker makes of
// the workloads now: a run goes on with the same work only.
func (m *Maker) Same(ctx context.Context, p *plan.Plan, trials []record.Trial) error {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		files, err := m.Of(ctx, w)
		if err != nil {
			return err
		}
		for param, read := range map[string]func(*record.Trial) string{
			"log":  func(t *record.Trial) string { return t.Checks["trace"] },
			"data": func(t *record.Trial) string { return t.State["data"] },
		} {
			f, ok := files[param]
			if !ok {
				continue
			}
			now := hex.EncodeToString(f.Digest[:])
			for j := range trials {
				if t := &trials[j]; t.Workload == w.Label && read(t) != "" && read(t) != now {
					return fmt.Errorf("%s: %s: %s has changed since the run began, so that it cannot go on: bring "+
						"back what was there, or begin a new run", w.Label, param, w.Params[param])
				}
			}
		}
	}
	return nil
}

// account returns the account of a workload's log, nil without a log or before it is read.
func (m *Maker) account(w *plan.Workload) *log.Account {
	all := sourcesOf(w)
	for i := range all {
		if f := m.made[all[i].key(w)]; f != nil && f.account != nil {
			return f.account
		}
	}
	return nil
}

// Doubts warns of statements in a workload's log that are not replayed.
func (m *Maker) Doubts(w *plan.Workload) []record.Warning {
	a := m.account(w)
	if a == nil || a.Statements.Replayed == a.Statements.Total {
		return nil
	}
	return []record.Warning{{Code: "replay-left-out", Text: "the log is not replayed completely: " + said(a, Item(w)),
		Remedy: fmt.Sprintf("`tare %s inspect` shows all reasons; the figures are valid for the other %s", serverOf(w),
			Item(w))}}
}

// Item is the unit of a workload's log, in the plural.
func Item(w *plan.Workload) string {
	if serverOf(w) == workload.WebServer {
		return "requests"
	}
	return "statements"
}

// said returns an account of items as a sentence.
func said(a *log.Account, items string) string {
	s := a.Statements
	text := fmt.Sprintf("%d of %d %s are replayed", s.Replayed, s.Total, items)
	for _, p := range []struct {
		part log.Part
		n    int64
	}{{log.Skipped, s.Skipped}, {log.Ambiguous, s.Ambiguous}, {log.Lost, s.Lost}} {
		if p.n == 0 {
			continue
		}
		text += fmt.Sprintf("; %d %s", p.n, p.part)
		for i := range a.Reasons {
			if r := &a.Reasons[i]; r.Part == p.part { // the first one has the most statements
				text += fmt.Sprintf(" (%s)", reason(r, p.n))
				break
			}
		}
	}
	return text
}

func reason(r *log.Reason, all int64) string {
	if r.Statements == all {
		return r.Reason
	}
	return fmt.Sprintf("%d of them: %s", r.Statements, r.Reason)
}
