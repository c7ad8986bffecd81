package log

import (
	"bytes"
	"encoding/json"
	"fmt"

	"tare/internal/sys/ledger"
	"tare/internal/sys/sql/lex"
)

// detect finds how the log is written, and sets the reader up for it.
func (r *Reader) detect() error {
	if r.o.Format != "" {
		if err := formatNamed(r.o.Format); err != nil {
			return err
		}
	}
	if r.o.Prefix != "" {
		if _, err := parsePrefix(r.o.Prefix); err != nil {
			return err
		}
	}
	size := max(0, r.o.Sample)
	if r.o.Sample == 0 {
		size = sampleSize
	}
	sample := r.in.atLeast(size)
	if r.in.err != nil && len(sample) == 0 && !isEnd(r.in.err) {
		return r.in.err
	}
	if what := ledger.Foreign(sample); what != "" && size > 0 {
		return fmt.Errorf("it is %s", what)
	}
	found := r.o.Format
	if kind := jsonKind(sample); kind != "" {
		if kind != wrappedJSON {
			if found == "" {
				found = kind
			}
		} else if found != PgJSON && found != Audit {
			r.unwrap()
			sample = r.in.atLeast(size)
		}
	}
	if found == "" && unknownObjects(sample) {
		return fmt.Errorf("the log's format is not recognised: it is JSON of a form that is not known: %s; what is "+
			"read is "+
			"PostgreSQL's jsonlog, the audit log of MySQL in JSON, and such lines and those of other logs in "+
			"objects of "+
			"CloudWatch, Cloud SQL and container engines", ledger.Unrecognised(sample))
	}
	defer func(c clock) { r.clock = c }(r.clock) // an attempt leaves no trace
	sample = wholeLines(sample, r.in.err != nil)
	if found == "" {
		found = r.guess(sample)
	}
	if found == "" {
		return fmt.Errorf("the log's format is not recognised: %s; name it, or give PostgreSQL's log_line_prefix, "+
			"whose messages must be in English (lc_messages)", ledger.Unrecognised(sample))
	}
	return r.use(found, sample)
}

// use sets the reader up for a format.
func (r *Reader) use(f Format, sample []byte) error {
	r.format, r.dialect = f, lex.MySQL
	switch f {
	case General:
		r.reader = &generalLog{}
	case Slow:
		r.reader = &slowLog{end: NoTime, prec: second}
	case Audit:
		r.reader = &auditJSON{}
	case AuditCSV:
		r.reader = &auditCSV{}
	case Plain, PlainLines:
		r.dialect = r.o.Dialect
		r.reader = &plainFile{o: lex.Options{Dialect: r.o.Dialect}, lines: f == PlainLines}
	default:
		r.dialect = lex.PostgreSQL
		switch f {
		case PgCSV:
			r.reader = &pgCSV{}
		case PgJSON:
			r.reader = &pgJSON{}
		default:
			p, err := r.linePrefix(f, sample)
			if err != nil {
				return err
			}
			r.prefix = p.text
			if r.reader = (&pgStderr{prefix: p}); f == PgSyslog {
				r.reader = &pgSyslog{prefix: p}
			}
		}
	}
	return nil
}

// linePrefix is the log_line_prefix that is given, or the one that fits.
func (r *Reader) linePrefix(f Format, sample []byte) (*prefix, error) {
	if r.o.Prefix != "" {
		return parsePrefix(r.o.Prefix)
	}
	if f == PgSyslog {
		sample = syslogTexts(r, sample)
	}
	p, err := inferPrefix(r, sample)
	switch {
	case err != nil || p != nil:
		return p, err
	case f == PgSyslog:
		return parsePrefix("")
	}
	return nil, fmt.Errorf("no prefix fits its lines: %s; give the log_line_prefix that SHOW tells, and see that "+
		"messages are in English (lc_messages)", ledger.Unrecognised(sample))
}

// syslogTexts are the lines of a syslog without syslog's own head.
func syslogTexts(r *Reader, sample []byte) (texts []byte) {
	var p pgSyslog
	for line := range bytes.Lines(sample) {
		if s, ok := p.parse(r, line); ok {
			texts = append(append(texts, s.text...), '\n')
		}
	}
	return texts
}

// unknownObjects tells whether the first lines are objects of JSON, which the search for a format by its words would
// take for a line's prefix. Known ones were told before.
func unknownObjects(sample []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimSpace(sample), []byte("\n"))
	line = bytes.TrimSpace(line)
	return len(line) > 1 && line[0] == '{' && json.Valid(line) && jsonKind(sample) == ""
}

const wrappedJSON Format = "wrapped"

// jsonKind returns the format of a log of JSON objects, "" for none.
func jsonKind(sample []byte) Format {
	b := bytes.TrimLeft(sample, " \t\r\n[,")
	if len(b) == 0 || b[0] != '{' {
		return ""
	}
	if arrayWithin(b) > 0 {
		return wrappedJSON
	}
	var s jsonScan
	n := s.scan(b)
	if n == 0 {
		return ""
	}
	kind := Format("")
	for f := fieldsOf(b[:n]); ; {
		name, value, ok := f.next()
		if !ok {
			break
		}
		switch string(name) {
		case "error_severity", "record":
			return PgJSON
		case "audit_record", "general_data", "connection_data":
			return Audit
		default:
			if textKeys[string(name)] && value[0] == '"' {
				kind = wrappedJSON
			}
		}
	}
	if kind == "" && bytes.Contains(b[:min(len(b), 4<<10)], []byte(`"connection_id"`)) {
		return Audit
	}
	if kind == "" {
		// The first entry may be without a text.
		if rest := b[n:]; len(rest) > 0 {
			return jsonKind(rest)
		}
	}
	return kind
}

// unwrap has the window read the log out of JSON.
func (r *Reader) unwrap() {
	rest := append([]byte(nil), r.in.bytes()...)
	u := &unwrapper{src: r.in.src, buf: rest, end: len(rest), err: r.in.err, max: r.o.MaxStatement}
	r.in = window{src: u, unwrap: u}
	r.wrapped = "json"
}

// wholeLines is a sample without the line that it ends in.
func wholeLines(sample []byte, end bool) []byte {
	if n := bytes.LastIndexByte(sample, '\n'); n >= 0 && !end {
		return sample[:n+1]
	}
	return sample
}

// guess finds the format of lines: the one that most of them are records of.
func (r *Reader) guess(sample []byte) Format {
	if r.o.Prefix != "" {
		if f := r.guessPg(sample); f != "" {
			return f
		}
		return PgStderr
	}
	var general, slow, headers, csv, audit, syslog int
	var s slowLog
	var c pgCSV
	var a auditCSV
	var sys pgSyslog
	for at := 0; at < len(sample); {
		b := sample[at:]
		n := bytes.IndexByte(b, '\n') + 1
		if n == 0 {
			n = len(b)
		}
		line := b[:n]
		if _, ok := parseGeneral(b); ok {
			general++
		}
		if _, ok := s.begins(b); ok {
			slow++
		}
		if banner(bytes.TrimRight(line, "\r\n")) {
			headers++
		}
		if _, ok := c.begins(b); ok && bytes.Count(b[:min(len(b), 2000)], []byte(",")) >= 11 {
			csv++
		}
		if a.begins(line) {
			audit++
		}
		if _, ok := sys.parse(r, line); ok {
			syslog++
		}
		at += n
	}
	best, most := Format(""), 0
	for _, x := range []struct {
		f Format
		n int
	}{{General, general}, {Slow, slow}, {PgCSV, csv}, {AuditCSV, audit}, {PgSyslog, syslog}} {
		if x.n > most {
			best, most = x.f, x.n
		}
	}
	r.notes = nil
	if best == "" || best == PgSyslog {
		if f := r.guessPg(sample); f != "" {
			return f
		}
	}
	switch {
	case best != "":
		return best
	case headers > 0:
		return General
	case len(bytes.TrimSpace(sample)) == 0:
		r.note("the log is empty")
		return Plain
	}
	return r.guessPlain(sample)
}

// guessPg tells PostgreSQL's lines and those of a syslog apart.
func (r *Reader) guessPg(sample []byte) Format {
	texts := syslogTexts(r, sample)
	r.notes = nil
	if len(texts) > len(sample)/4 {
		return PgSyslog
	}
	if p, err := inferPrefix(r, sample); p != nil || err != nil {
		return PgStderr
	}
	return ""
}

// guessPlain tells whether a sample begins with statements, and whether each has a line.
func (r *Reader) guessPlain(sample []byte) Format {
	o := lex.Options{Dialect: r.o.Dialect}
	span, _, whole := lex.Next(sample, o)
	if span.End <= span.Start {
		return ""
	}
	first := sample[span.Start:span.End]
	if !whole {
		first, _, _ = bytes.Cut(first, []byte("\n"))
	}
	if v := lex.Classify(first, o); v.Class == lex.Unknown && v.Reason != lex.Executes {
		return ""
	}
	if !whole && bytes.Count(bytes.TrimSpace(sample), []byte("\n")) > 0 {
		return PlainLines
	}
	return Plain
}
