package bundle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"slices"

	"tare/internal/record"
	"tare/internal/unit"
)

// A line is the trial's JSON object with one member more at its end: "chain", the SHA-256 over the previous line's
// chain digest and the object without that member, byte for byte. The first line follows the digest of the run id.
const (
	chainKey = `,"chain":"`
	chainEnd = `"}`
	chainLen = len(chainKey) + 2*sha256.Size + len(chainEnd)
)

func genesis(runID string) string {
	sum := sha256.Sum256([]byte("tare trials 1\n" + runID))
	return hex.EncodeToString(sum[:])
}

func link(prev string, body []byte) string {
	h := sha256.New()
	io.WriteString(h, prev)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// encode makes the trial's line, newline included, and its chain digest. What JSON or the bound on a line cannot hold
// is taken out of a copy, with a warning on the trial in its place.
func encode(t *record.Trial, prev string) (line []byte, chain string, err error) {
	t = finite(t)
	body, err := json.Marshal(t)
	if err != nil {
		return nil, "", fmt.Errorf("encode trial %d: %w", t.Seq, err)
	}
	if len(body)+chainLen >= MaxLine && len(t.Samples) > 0 {
		c := *t
		c.Samples = nil
		c.Warnings = append(slices.Clone(t.Warnings), record.Warning{Code: "samples-dropped",
			Text: fmt.Sprintf("the samples of this trial made its record %d bytes long; they were not kept",
				len(body))})
		if body, err = json.Marshal(&c); err != nil {
			return nil, "", fmt.Errorf("encode trial %d: %w", t.Seq, err)
		}
	}
	if len(body)+chainLen >= MaxLine {
		return nil, "", fmt.Errorf("encode trial %d: %d bytes do not fit the %d of a line", t.Seq, len(body), MaxLine)
	}
	chain = link(prev, body)
	line = append(body[:len(body)-1], chainKey+chain+chainEnd+"\n"...)
	return line, chain, nil
}

// finite returns t, or a copy without the figures that are not finite numbers, which JSON cannot write.
func finite(t *record.Trial) *record.Trial {
	bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	c := *t
	var names []string
	for name, v := range t.Metrics {
		if bad(v) {
			names = append(names, name)
		}
	}
	c.Metrics = maps.Clone(t.Metrics)
	for _, name := range names {
		delete(c.Metrics, name)
	}
	c.Samples = maps.Clone(t.Samples)
	for name, s := range t.Samples {
		if slices.ContainsFunc(s, bad) {
			delete(c.Samples, name)
			names = append(names, name+" (samples)")
		}
	}
	if len(names) == 0 {
		return t
	}
	slices.Sort(names)
	c.Warnings = append(slices.Clone(t.Warnings),
		record.Warning{Code: "not-finite", Text: fmt.Sprintf("not a finite number, not kept: %v", names)})
	return &c
}

// decode reads a line without its newline and checks its chain digest, which it returns.
func decode(line []byte, prev string, t *record.Trial) (chain string, err error) {
	body, chain, ok := split(line)
	if !ok {
		return "", errors.New("not a trial with a chain digest")
	}
	if link(prev, body) != chain {
		return "", errors.New("the chain digest does not follow from this line and the one before it")
	}
	if err := json.Unmarshal(body, t); err != nil {
		return "", err
	}
	return chain, nil
}

// split undoes encode: the trial's JSON and the chain digest.
func split(line []byte) (body []byte, chain string, ok bool) {
	n := len(line) - chainLen
	if n < 1 || !bytes.HasSuffix(line, []byte(chainEnd)) || string(line[n:n+len(chainKey)]) != chainKey {
		return nil, "", false
	}
	chain = string(line[n+len(chainKey) : len(line)-len(chainEnd)])
	return append(bytes.Clone(line[:n]), '}'), chain, true
}

// scanner reads trials one by one and knows how far the file can be trusted.
type scanner struct {
	r     *bufio.Reader
	buf   []byte
	good  int64 // bytes of the file up to the end of the last good line
	lines int
	chain string
}

func newScanner(r io.Reader, runID string) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, 64<<10), chain: genesis(runID)}
}

// tornError is the end of the file after a crash: bytes that are no whole line, with nothing after them.
type tornError struct{ bytes int64 }

func (e *tornError) Error() string {
	return fmt.Sprintf("the last line was cut short by a crash; its %d bytes are not used", e.bytes)
}

// next returns the next trial; io.EOF at the end, a *tornError when the end is not a whole line, another error where a
// line in the middle is damaged. After an error there is no next.
func (s *scanner) next() (*record.Trial, error) {
	line, err := s.line()
	if err != nil {
		return nil, err
	}
	t := &record.Trial{}
	chain, err := decode(line, s.chain, t)
	if err != nil {
		n := int64(len(line)) + 1
		// A file system may have extended the file before it wrote the data. Such a line is last.
		if _, peek := s.r.Peek(1); peek == io.EOF && !looksWhole(line) {
			return nil, &tornError{n}
		}
		return nil, fmt.Errorf("%s line %d: %w", TrialsFile, s.lines+1, err)
	}
	s.good += int64(len(line)) + 1
	s.lines++
	s.chain = chain
	return t, nil
}

// looksWhole tells an edited line from one that a crash mangled: the latter has no proper end.
func looksWhole(line []byte) bool {
	_, _, ok := split(line)
	return ok && json.Valid(line)
}

// line returns the next whole line without its newline. It is valid until the next call.
func (s *scanner) line() ([]byte, error) {
	s.buf = s.buf[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		if len(s.buf)+len(part) > MaxLine {
			// Nothing tare wrote is so long. If nothing but this is left, it is what a crash left of a file that had
			// been extended.
			rest, newline, err := s.skipLine(part)
			if err != nil {
				return nil, err
			}
			if !newline {
				return nil, &tornError{int64(len(s.buf)) + rest}
			}
			return nil, fmt.Errorf("%s line %d: longer than %d bytes", TrialsFile, s.lines+1, MaxLine)
		}
		s.buf = append(s.buf, part...)
		switch {
		case err == nil:
			return s.buf[:len(s.buf)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(s.buf) > 0:
			return nil, &tornError{int64(len(s.buf))}
		case err == io.EOF:
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("%s line %d: %w", TrialsFile, s.lines+1, err)
		}
	}
}

// skipLine counts what is left of an overlong line, the given part included, and tells whether it ends in a newline.
func (s *scanner) skipLine(part []byte) (n int64, newline bool, err error) {
	n = int64(len(part))
	if len(part) > 0 && part[len(part)-1] == '\n' {
		return n, true, nil
	}
	for {
		part, err := s.r.ReadSlice('\n')
		n += int64(len(part))
		switch {
		case err == nil:
			return n, true, nil
		case err == io.EOF:
			return n, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return n, false, err
		}
	}
}

// Trials reads the trials in the order they ran, one at a time, whatever the size of the file. A last line cut short by
// a crash is not yielded, and is no error of a run that has not ended; Verify reports it. Anything else that is damaged
// ends the sequence with an error, and so do trials that are missing at the end of a run that has ended.
func (b *Bundle) Trials() iter.Seq2[*record.Trial, error] { return b.trials(math.MaxInt64) }

// trials is Trials, ended by an error after so many bytes of the file.
func (b *Bundle) trials(limit int64) iter.Seq2[*record.Trial, error] {
	return func(yield func(*record.Trial, error) bool) {
		root, err := os.OpenRoot(b.Dir)
		if err != nil {
			yield(nil, fmt.Errorf("read trials of %s: %w", b.Dir, err))
			return
		}
		defer root.Close()
		f, err := openRegular(root, TrialsFile)
		if err != nil {
			yield(nil, fmt.Errorf("read trials of %s: %w", b.Dir, err))
			return
		}
		defer f.Close()
		s := newScanner(f, b.Manifest.RunID)
		for {
			t, err := s.next()
			if torn, ok := errors.AsType[*tornError](err); ok || err == io.EOF {
				err := b.Manifest.complete(s)
				if err == nil && ok && b.Manifest.State != Running {
					err = fmt.Errorf("%w: %d bytes follow the last trial of %s", ErrDamaged, torn.bytes, TrialsFile)
				}
				if err != nil {
					yield(nil, fmt.Errorf("read trials of %s: %w; `tare verify` tells more", b.Dir, err))
				}
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("read trials of %s: %w; `tare verify` tells more", b.Dir, err))
				return
			}
			if s.good > limit {
				yield(nil, fmt.Errorf("read trials of %s: %s holds more than %s of trials, which is more than a "+
					"report can use; the first %d are used",
					b.Dir, TrialsFile, unit.Format(float64(limit), "B"), s.lines-1))
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// complete compares what a scanner has read to the end with what a run that has ended had.
func (m *Manifest) complete(s *scanner) error {
	switch {
	case m.State == Running:
		return nil
	case m.Trials != s.lines:
		return fmt.Errorf("%w: the run ended with %d trials, %s has %d", ErrDamaged, m.Trials, TrialsFile, s.lines)
	case m.Head != s.chain:
		return fmt.Errorf("%w: the run ended with other trials than %s has", ErrDamaged, TrialsFile)
	}
	return nil
}

// Load returns all trials that can be read, up to half a gibibyte of them: in memory they are some times larger. The
// error tells what is not as tare wrote it: trials that are damaged or missing, or, of a run that has ended, another
// plan or other facts than it ended with.
func (b *Bundle) Load() ([]record.Trial, error) { return b.load(maxLoad) }

func (b *Bundle) load(limit int64) ([]record.Trial, error) {
	var out []record.Trial
	problem := b.unchanged()
	for t, err := range b.trials(limit) {
		if err != nil {
			problem = errors.Join(problem, err)
			break
		}
		out = append(out, *t)
	}
	return out, problem
}

// unchanged compares what Open reads with the digests that the run ended with.
func (b *Bundle) unchanged() error {
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return fmt.Errorf("read bundle %s: %w", b.Dir, err)
	}
	defer root.Close()
	for _, want := range b.Manifest.Files {
		if want.Path != PlanFile && want.Path != EnvironmentsFile {
			continue
		}
		got, err := digest(root, want.Path)
		if err != nil {
			return fmt.Errorf("read bundle %s: %w", b.Dir, err)
		}
		if got != want {
			return fmt.Errorf("read bundle %s: %w: %s was changed after the run ended; `tare verify` tells more", b.Dir,
				ErrDamaged, want.Path)
		}
	}
	return nil
}
