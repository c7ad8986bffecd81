package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/version"
)

// Writer appends to a bundle. There is one writer of a bundle at a time, on pain of ErrLocked. It is safe for
// concurrent use.
type Writer struct {
	mu       sync.Mutex
	root     *os.Root
	dir      string
	manifest Manifest
	trials   *os.File
	size     int64 // of trials.ndjson, up to the last whole line
	seq      int
	chain    string
	broken   error // the file could not be brought back to a whole line
	closed   bool
	passing  bool // a copy that is read next, and need not survive a crash
}

// Create makes the folder and begins a bundle in it. The folder may exist when it is empty. It returns ErrResumable
// when an unfinished run is in it, ErrNotEmpty for anything else.
func Create(dir, runID string, p *plan.Plan) (*Writer, error) {
	w, err := create(dir, runID, p)
	if err != nil {
		return nil, fmt.Errorf("create bundle %s: %w", dir, explainBegin(err))
	}
	return w, nil
}

// mostNames bounds how many runs may begin in one folder within a second.
const mostNames = 1000

// CreateNew begins a bundle in a folder that is not there yet: the one named or, where another run was first, the next
// of name-2, name-3 and so on. It returns the folder's name.
func CreateNew(name, runID string, p *plan.Plan) (*Writer, string, error) {
	for n := 1; n <= mostNames; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		// Making the folder decides who has the name: of two runs only one can.
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("create bundle %s: %w", dir, explainBegin(err))
		}
		w, err := Create(dir, runID, p)
		if err != nil {
			return nil, "", errors.Join(err, os.Remove(dir))
		}
		return w, dir, nil
	}
	return nil, "", fmt.Errorf("create bundle %s: it and the %d names after it are taken: name a folder with -o", name,
		mostNames-1)
}

func create(dir, runID string, p *plan.Plan) (*Writer, error) {
	if runID == "" {
		return nil, errors.New("a run needs an id")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{root: root, dir: dir, chain: genesis(runID), manifest: Manifest{
		Schema: Schema, Version: version.Version, Build: version.Build, RunID: runID,
		Created: time.Now().UTC().Truncate(time.Second), State: Running}}
	if err := w.begin(p); err != nil {
		w.release()
		return nil, err
	}
	return w, nil
}

// begin writes the files in such an order that a folder with a manifest is a readable bundle.
func (w *Writer) begin(p *plan.Plan) error {
	if err := vacant(w.root); err != nil {
		return err
	}
	if err := w.lock(os.O_CREATE); err != nil {
		return err
	}
	if err := w.Plan(p); err != nil {
		return err
	}
	if err := w.Environments(nil); err != nil {
		return err
	}
	if err := w.root.Mkdir(EvidenceDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return w.writeManifest()
}

// Inject writes down that targets do hidden extra work, before the first trial.
func (w *Writer) Inject(shares map[string]float64) error {
	w.manifest.Inject = shares
	if err := w.writeManifest(); err != nil {
		return fmt.Errorf("write bundle %s: %w", w.dir, explain(err))
	}
	return nil
}

// Mark writes down which part of a fleet's measurement the run is, before the first trial.
func (w *Writer) Mark(s *Shard) error {
	w.manifest.Shard = s
	if err := w.writeManifest(); err != nil {
		return fmt.Errorf("write bundle %s: %w", w.dir, explain(err))
	}
	return nil
}

// Vacant says why no bundle can begin in a folder, with ErrNotEmpty or ErrResumable. One that is not there is made by
// Create.
func Vacant(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil // what is wrong with it, Create says
	}
	defer root.Close()
	if err := vacant(root); errors.Is(err, ErrNotEmpty) || errors.Is(err, ErrResumable) {
		return fmt.Errorf("create bundle %s: %w", dir, err)
	}
	return nil
}

// vacant tells whether a bundle can begin here: in an empty folder, or in what is left of a beginning that was killed.
func vacant(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != ManifestFile {
			continue
		}
		m, err := readManifest(root)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotEmpty, err)
		}
		if m.State == Finished {
			return fmt.Errorf("%w: it holds finished run %s; choose another folder", ErrNotEmpty, m.RunID)
		}
		return fmt.Errorf("%w (%s); continue it with --resume, or choose another folder", ErrResumable, m.RunID)
	}
	for _, e := range entries {
		switch e.Name() {
		case PlanFile, EnvironmentsFile, tmpName(PlanFile), tmpName(EnvironmentsFile), tmpName(ManifestFile):
		case TrialsFile:
			if info, err := e.Info(); err != nil || info.Size() > 0 {
				return fmt.Errorf("%w: trials but no %s are in it; choose another folder", ErrNotEmpty, ManifestFile)
			}
		case EvidenceDir:
			if inside, err := fs.ReadDir(root.FS(), EvidenceDir); err != nil || len(inside) > 0 {
				return fmt.Errorf("%w: %s is in it; choose another folder", ErrNotEmpty, e.Name())
			}
		default:
			return fmt.Errorf("%w: %q is in it; choose another folder", ErrNotEmpty, e.Name())
		}
	}
	return nil
}

// Resume opens an unfinished bundle to go on with it. A last line cut short by a crash is cut off, and its bytes are
// kept as evidence. The returned Bundle is what there is so far. It returns ErrFinished for a finished run and
// ErrLocked when another tare writes it.
func Resume(dir string) (*Writer, *Bundle, error) { return goOn(dir, false) }

// Extend is Resume for a run that finished because its budget was spent, and got another. Until it ends anew the bundle
// is that of an unfinished run.
func Extend(dir string) (*Writer, *Bundle, error) { return goOn(dir, true) }

func goOn(dir string, finished bool) (*Writer, *Bundle, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("resume bundle %s: %w", dir, err)
	}
	w := &Writer{root: root, dir: dir}
	b, err := w.resume(finished)
	if err != nil {
		w.release()
		return nil, nil, fmt.Errorf("resume bundle %s: %w", dir, explain(err))
	}
	return w, b, nil
}

func (w *Writer) resume(finished bool) (*Bundle, error) {
	if _, err := readManifest(w.root); err != nil {
		return nil, err
	}
	if err := w.lock(0); err != nil {
		return nil, err
	}
	// Read again under the lock: another tare may have finished the run meanwhile.
	b, err := open(w.root)
	if err != nil {
		return nil, err
	}
	b.Dir = w.dir
	if b.Manifest.State == Finished && !finished {
		return nil, fmt.Errorf("%w: nothing is left to resume", ErrFinished)
	}
	w.manifest = b.Manifest
	s := newScanner(w.trials, w.manifest.RunID)
	for {
		t, err := s.next()
		if err == io.EOF {
			if err := w.manifest.complete(s); err != nil {
				return nil, fmt.Errorf("%w; a damaged run cannot be resumed", err)
			}
			break
		}
		if torn, ok := errors.AsType[*tornError](err); ok {
			if err := w.manifest.complete(s); err != nil {
				return nil, fmt.Errorf("%w; a damaged run cannot be resumed", err)
			}
			if err := w.cutTorn(s.good, torn.bytes); err != nil {
				return nil, err
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w; a damaged run cannot be resumed", err)
		}
		w.seq = t.Seq
	}
	w.size, w.chain = s.good, s.chain
	w.manifest.State, w.manifest.Files, w.manifest.Trials, w.manifest.Head = Running, nil, 0, ""
	if err := w.writeManifest(); err != nil {
		return nil, err
	}
	b.Manifest = w.manifest
	return b, nil
}

// cutTorn keeps the bytes after the last good line as evidence and cuts them off.
func (w *Writer) cutTorn(good, n int64) error {
	tail, err := io.ReadAll(io.LimitReader(io.NewSectionReader(w.trials, good, n), maxEvidence))
	if err != nil {
		return err
	}
	if _, err := w.evidence("torn-line", tail); err != nil {
		return err
	}
	if err := w.trials.Truncate(good); err != nil {
		return err
	}
	return w.trials.Sync()
}

// lock opens the trials and takes the bundle's only lock, which the system gives back when the process ends in whatever
// way.
func (w *Writer) lock(create int) error {
	if info, err := w.root.Lstat(TrialsFile); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", TrialsFile)
	}
	f, err := w.root.OpenFile(TrialsFile, os.O_RDWR|create, 0o644)
	if err != nil {
		return err
	}
	w.trials = f
	return lockFile(f)
}

// Plan writes the plan, whole or not at all: at the beginning, and again when calibration has frozen the work.
func (w *Writer) Plan(p *plan.Plan) error {
	src := plan.Marshal(p)
	// What cannot be read back would make every trial that follows worthless.
	if _, err := plan.Unmarshal(PlanFile, src); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return w.replace(PlanFile, src)
}

// Environments writes what is known of the environments, in all sessions so far, whole or not at all.
func (w *Writer) Environments(list []record.Environment) error {
	if list == nil {
		list = []record.Environment{}
	}
	src, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("write environments: %w", err)
	}
	return w.replace(EnvironmentsFile, append(src, '\n'))
}

// Append writes a trial and returns when it is on disk. It gives the trial its Seq. After an error nothing of the trial
// is in the bundle, and Append may be tried again, with the same trial or another.
func (w *Writer) Append(t *record.Trial) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.append(t); err != nil {
		return fmt.Errorf("append to bundle %s: %w", w.dir, explain(err))
	}
	return nil
}

func (w *Writer) append(t *record.Trial) error {
	if w.closed {
		return os.ErrClosed
	}
	if w.broken != nil {
		return w.broken
	}
	before := t.Seq
	t.Seq = w.seq + 1
	line, chain, err := encode(t, w.chain)
	if err != nil {
		t.Seq = before
		return err
	}
	_, err = w.trials.WriteAt(line, w.size)
	if err == nil {
		err = w.trials.Sync()
	}
	if err != nil {
		t.Seq = before
		if cut := w.trials.Truncate(w.size); cut != nil {
			w.broken = fmt.Errorf("an earlier trial could not be written (%w) nor taken back (%v); resume repairs it",
				err, cut)
		}
		return err
	}
	w.seq, w.chain = t.Seq, chain
	w.size += int64(len(line))
	return nil
}

// Evidence keeps data in a file of its own and returns its path below the bundle. A name that is taken gets a number.
// Names are as EvidenceName makes them; of more than 64 MiB the end is kept.
func (w *Writer) Evidence(name string, data []byte) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.evidence(name, data)
	if err != nil {
		return "", fmt.Errorf("keep evidence in bundle %s: %w", w.dir, explain(err))
	}
	return p, nil
}

func (w *Writer) evidence(name string, data []byte) (string, error) {
	if !evidenceRE().MatchString(name) || len(name) > 100 {
		return "", fmt.Errorf("%q is not a valid name for a file of evidence", name)
	}
	if err := w.root.Mkdir(EvidenceDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	data = data[max(0, len(data)-maxEvidence):]
	ext := path.Ext(name)
	for n := 1; n < 100_000; n++ {
		p := EvidenceDir + "/" + name
		if n > 1 {
			p = fmt.Sprintf("%s/%s-%d%s", EvidenceDir, strings.TrimSuffix(name, ext), n, ext)
		}
		f, err := w.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := writeSync(f, data); err != nil {
			w.root.Remove(p)
			return "", err
		}
		return p, nil
	}
	return "", fmt.Errorf("too many files of evidence are named %q", name)
}

// Finish writes the state and the seconds of wall time spent since Create or Resume, and the digest of every file, and
// closes the bundle. Without it, what was appended stays readable and the state stays running.
func (w *Writer) Finish(state State, seconds float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.release()
	if err := w.finish(state, seconds); err != nil {
		return fmt.Errorf("finish bundle %s: %w", w.dir, explain(err))
	}
	return nil
}

func (w *Writer) finish(state State, seconds float64) error {
	if w.closed {
		return os.ErrClosed
	}
	if w.broken != nil {
		return w.broken
	}
	files, err := digests(w.root)
	if err != nil {
		return err
	}
	w.manifest.State, w.manifest.Files, w.manifest.Trials, w.manifest.Head = state, files, w.seq, w.chain
	w.manifest.Seconds += seconds
	return w.writeManifest()
}

// Close gives the bundle up as it is. After Finish it does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
	return nil
}

func (w *Writer) release() {
	if w.closed {
		return
	}
	w.closed = true
	if w.trials != nil {
		w.trials.Close()
	}
	w.root.Close()
}

func (w *Writer) writeManifest() error {
	src, err := json.MarshalIndent(w.manifest, "", "  ")
	if err != nil {
		return err
	}
	return w.replace(ManifestFile, append(src, '\n'))
}
