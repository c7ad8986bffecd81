// Package bundle keeps what a run saw: a folder that is appended to while the run goes on and read for ever after.
//
//	tare.json          what this is: versions, run id, state; when the run has ended, the digest of every file
//	plan.yaml          the resolved plan, seed and frozen work included
//	environments.json  what was known of each environment, each time it was opened
//	trials.ndjson      one trial a line, in the order they ran; only ever appended to
//	console/           evidence: consoles and output of what failed
//	traced/            flame graphs of trials that were traced after the run; no figure is made of them
//
// It is opinionated about trust. A trial is a whole line, on disk before the next trial starts; a line cut short by a
// crash is never guessed at. Each line carries a digest over itself and the line before it, so that an edit anywhere in
// a bundle that has not ended yet is seen as well. The digests show accidents and honest mistakes; they are not
// signatures, and whoever rewrites the whole folder can make them fit.
package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/version"
)

// Schema is the version of the folder's form.
const Schema = 1

// Names within a bundle.
const (
	ManifestFile     = "tare.json"
	PlanFile         = "plan.yaml"
	EnvironmentsFile = "environments.json"
	TrialsFile       = "trials.ndjson"
	EvidenceDir      = "console"
)

// What reading a bundle may cost in memory, whatever its files hold.
const (
	MaxLine         = 8 << 20 // bytes of one trial
	maxManifest     = 16 << 20
	maxEnvironments = 64 << 20
	maxEvidence     = 64 << 20
	maxLoad         = 1 << 29 // bytes of all trials that are kept at once; in memory they are some four times as many
)

// State is how far a run is.
type State string

// The states of a run. A bundle that says running and is not locked by anyone is one whose writer was killed.
const (
	Running     State = "running"
	Finished    State = "finished"
	Interrupted State = "interrupted" // ended early on request or by an error; can be resumed
)

// Manifest is tare.json.
type Manifest struct {
	Schema  int       `json:"schema"`
	Version string    `json:"version"` // of the tare that began the run
	Build   string    `json:"build"`
	RunID   string    `json:"run_id"`
	Created time.Time `json:"created"`
	State   State     `json:"state"`
	Seconds float64   `json:"seconds"`          // wall time spent so far, over all resumptions
	Trials  int       `json:"trials,omitempty"` // lines of trials.ndjson, when the run has ended
	Head    string    `json:"head,omitempty"`   // chain digest of the last of them
	Files   []File    `json:"files,omitempty"`  // every file but this one, when the run has ended
	Traced  []File    `json:"traced,omitempty"` // flame graphs that were kept after it, which Files has not
	// Redacted counts what was replaced before the bundle was shared, by what it was: "host names", "user names", ...
	// Empty for a bundle as it was measured; then the chain of trials is the one that the run wrote.
	Redacted map[string]int `json:"redacted,omitempty"`
	// Inject is the share of hidden extra work by target, in a bundle of the self-test. Neither plan nor a run knows of
	// it.
	Inject map[string]float64 `json:"inject,omitempty"`
	// Shard says which part the run is of what a fleet measures; nil for a run of its own.
	Shard *Shard `json:"shard,omitempty"`
}

// Shard is a host's part of a fleet's measurement: the whole plan, on this host. Number counts from 1 to Of.
type Shard struct {
	Plan    string `json:"plan"` // plan.Identity of what all hosts were asked for
	Number  int    `json:"number"`
	Of      int    `json:"of"`
	Host    string `json:"host"`    // as the fleet calls it
	Machine string `json:"machine"` // tells machines apart, whatever they are called; "" where nothing does
	// Facts are those that only the host itself can tell, by dotted name: "cpu.microcode".
	Facts map[string]string `json:"facts,omitempty"`
	// WaitedS is how long it waited for another fleet's run on the same machine, s.
	WaitedS float64 `json:"waited_seconds,omitempty"`
}

// File is the digest of one file of a bundle that has ended.
type File struct {
	Path   string `json:"path"` // slash-separated, below the bundle
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bundle is a bundle opened for reading.
type Bundle struct {
	Dir          string
	Manifest     Manifest
	Plan         *plan.Plan
	Environments []record.Environment
}

// Errors that callers tell apart with errors.Is.
var (
	ErrNotBundle = errors.New("not a tare bundle")
	ErrNewer     = errors.New("written by a newer version of tare")
	ErrLocked    = errors.New("in use by another tare")
	ErrFinished  = errors.New("the run is finished")
	ErrNotEmpty  = errors.New("the folder is not empty")
	// ErrResumable is returned by Create for a folder that holds an unfinished run.
	ErrResumable = errors.New("the folder holds an unfinished run")
)

// Open reads a bundle's manifest, plan and environments. Trials are read by Bundle.Trials. A bundle whose run goes on,
// or was killed, opens just as well.
func Open(dir string) (*Bundle, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open bundle %s: %w", dir, err)
	}
	defer root.Close()
	b, err := open(root)
	if err != nil {
		return nil, fmt.Errorf("open bundle %s: %w", dir, err)
	}
	b.Dir = dir
	return b, nil
}

// openFolder is os.OpenRoot without the operation and the path in the error, which the caller says.
func openFolder(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return root, err
}

func open(root *os.Root) (*Bundle, error) {
	b := &Bundle{}
	m, err := readManifest(root)
	if err != nil {
		return nil, err
	}
	b.Manifest = *m
	if err := b.parts(root); err != nil {
		return nil, b.Manifest.foreign(err)
	}
	return b, nil
}

// foreign adds to an error which tare wrote the bundle, if it was a later one.
func (m *Manifest) foreign(err error) error {
	if !m.Later() {
		return err
	}
	return fmt.Errorf("%w; tare %s wrote the bundle, and this is tare %s", err, m.Version, version.Version)
}

// Later tells whether a later release of tare wrote the bundle than this one.
func (m *Manifest) Later() bool {
	theirs, ours := strings.Split(m.Version, "."), strings.Split(version.Version, ".")
	for i := range min(len(theirs), len(ours)) {
		a, errA := strconv.Atoi(theirs[i])
		b, errB := strconv.Atoi(ours[i])
		if errA != nil || errB != nil || a != b {
			return errA == nil && errB == nil && a > b
		}
	}
	return false
}

// parts reads the plan and the environments.
func (b *Bundle) parts(root *os.Root) error {
	src, err := readFile(root, PlanFile, plan.MaxFile)
	if err != nil {
		return err
	}
	if b.Plan, err = plan.Unmarshal(PlanFile, src); err != nil {
		// Not wrapped: a mistake in a plan is the user's, and this one is no plan that a user wrote.
		return errors.New(err.Error())
	}
	if src, err = readFile(root, EnvironmentsFile, maxEnvironments); err != nil {
		return err
	}
	if err := json.Unmarshal(src, &b.Environments); err != nil {
		return fmt.Errorf("%s: %w", EnvironmentsFile, err)
	}
	return nil
}

func readManifest(root *os.Root) (*Manifest, error) {
	src, err := readFile(root, ManifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: it has no %s", ErrNotBundle, ManifestFile)
	}
	if err != nil {
		return nil, err
	}
	// The schema is read first and alone: a newer form may not decode at all.
	var v struct {
		Schema  int    `json:"schema"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(src, &v); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNotBundle, ManifestFile, err)
	}
	if v.Schema > Schema {
		return nil, fmt.Errorf("%w: tare %q wrote schema %d, this tare reads up to %d", ErrNewer, v.Version, v.Schema,
			Schema)
	}
	m := &Manifest{}
	if err := json.Unmarshal(src, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNotBundle, ManifestFile, err)
	}
	switch {
	case m.Schema < 1 || m.RunID == "":
		return nil, fmt.Errorf("%w: %s names no schema and run", ErrNotBundle, ManifestFile)
	case m.State != Running && m.State != Finished && m.State != Interrupted:
		return nil, fmt.Errorf("%s: state %q is none of running, finished, interrupted", ManifestFile, m.State)
	}
	return m, nil
}

// readFile reads a regular file of at most limit bytes. Anything else of that name, a pipe or a device, is refused
// before it is opened.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return b, nil
}

// missingError is the name of a file that a bundle must have and this one has not.
type missingError string

func (e missingError) Error() string        { return string(e) + " is missing" }
func (e missingError) Is(target error) bool { return target == fs.ErrNotExist }

func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingError(name)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	return root.Open(name)
}

var evidenceRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$`)
})

// EvidenceName makes a valid name of evidence out of any text: what is not a letter, digit, dot, dash or underscore
// becomes a dash.
func EvidenceName(text string) string {
	b := []byte(text)
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			b[i] = '-'
		}
	}
	if len(b) == 0 || b[0] == '.' || b[0] == '-' || b[0] == '_' {
		b = append([]byte("x"), b...)
	}
	return string(b[:min(len(b), 100)])
}

// validPath tells whether a path out of a manifest is one that a bundle has.
func validPath(p string) bool {
	switch p {
	case PlanFile, EnvironmentsFile, TrialsFile:
		return true
	}
	dir, name := path.Split(p)
	return dir == EvidenceDir+"/" && evidenceRE().MatchString(name)
}
