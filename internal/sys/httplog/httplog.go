// Package httplog reads the access logs of web servers: each request with its client, its time and its answer.
//
// It is opinionated. No byte of a log goes missing in silence: each is a part of a record that is handed out, or is
// counted with the reason why not. A line that is no record is lost, not guessed at; a client's message that is no
// request is a record, and is not replayed. Memory does not grow with the log. Records are handed out in the order of
// the log.
//
// The formats: the common and combined formats of Apache and nginx, with a virtual host before them and anything behind
// them; JSON, an object in each line, as nginx, Caddy and others write it; HAR 1.2, which browsers save.
package httplog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"tare/internal/suggest"
	"tare/internal/sys/ledger"
)

// NoTime is the time of a request of which the log does not tell one.
const NoTime = math.MinInt64

// Request is a record of a log. Slices are valid until the next call of Next.
type Request struct {
	// Session numbers the sessions of the log from 1: the requests of one client with one user agent, as long as it is
	// never silent for half an hour.
	Session uint64
	// Time is when the request began or was logged, in microseconds since 1970 UTC, and Precision how coarse it is.
	Time, Precision int64
	// Client is its address, or a text that identifies its connection; Host the virtual host. Both may be empty.
	Client, Host, User, Referer, Agent []byte
	Method, Target                     []byte
	// Bad is why it is no request that can be sent, "" if it is one.
	Bad string
	// Status is that of the response, 0 where the log does not tell. Bytes are those that were sent, -1 likewise.
	Status int
	Bytes  int64
	// Duration is in microseconds, -1 where the log does not tell.
	Duration int64
	// Headers are more headers of the request, each Name: value. HasBody tells whether Body is the request's.
	Headers [][]byte
	Body    []byte
	HasBody bool
	// Ambiguous is why the record may have been misread, empty if that is not so.
	Ambiguous string
	// Length is how many bytes the record has in the log.
	Length int64

	other bool // it is for another host than the first, and only that counts
}

// Format is how a log is written.
type Format string

// The formats.
const (
	Combined Format = "combined" // and the common one
	JSON     Format = "json"
	HAR      Format = "har"
)

// Formats lists them.
func Formats() []Format { return []Format{Combined, JSON, HAR} }

// Options are facts that a log does not tell of itself. The zero value finds out as much as it can.
type Options struct {
	Format Format         // empty: found by the first 64 KiB
	Zone   *time.Location // of times without one; nil is UTC
	// Fields names the fields of a JSON log, with the name of this package before each: "method=verb,target=req.path".
	Fields string
	// MaxRecord is the size in bytes above which a record is lost; 0 is 1 MiB, of HAR 64 MiB. It bounds the memory.
	MaxRecord int
	// Ended, if set, is called when a session has ended.
	Ended func(session uint64)
}

const (
	maxLine  = 1 << 20
	maxEntry = 64 << 20
	sample   = 64 << 10
)

// utf8Mark is the mark that programs for Windows put before a text in UTF-8.
const utf8Mark = "\ufeff"

// Account has the fate of every byte of a log and of every request in it.
type Account struct {
	Bytes    ledger.Parts `json:"bytes"`
	Requests ledger.Parts `json:"requests"`
	Reasons  []Reason     `json:"reasons"` // the largest of each part first
}

// Reason is why something was skipped, is ambiguous or lost.
type Reason struct {
	Part     ledger.Part `json:"part"`
	Reason   string      `json:"reason"`
	Requests int64       `json:"requests"`
	Bytes    int64       `json:"bytes"`
}

// The reasons of this package.
const (
	whyNoRecord  = "lines that are no record"
	whyBadJSON   = "JSON that cannot be read"
	whyTooLong   = "a record that is longer than the limit"
	whyCut       = "the log ends in the middle of it"
	whyBlank     = "blank lines"
	whyMessages  = "messages of the server"
	whyAround    = "what stands around the requests"
	whyIgnored   = "not asked for"
	whyLastLine  = "the log ends with it, without the end of a line"
	whyGarbage   = "what the client sent was no HTTP request"
	whyElsewhere = "it asks for another server, as of a proxy"
	whyTarget    = "the log does not have the target as it was sent"
	whyNoMethod  = "the log does not have the method"
	whyPiece     = "a piece of a line, which is read with its last one"
	whyMark      = "the mark of the order of bytes"
	whyFromCache = "it came from the browser's cache and was not sent"
	whyUnsent    = "it was not sent, or had no answer: blocked or aborted"
	whySocket    = "WebSocket"
	whyNoServer  = "it asks no server: data, blob or the like"
	whyOthers    = "it asks for another host"
)

// Reader hands out the requests of a log. It is not safe for concurrent use.
type Reader struct {
	o         Options
	format    Format
	open      []func() (io.ReadCloser, error)
	part      io.Closer // that is being read
	in        *bufio.Reader
	line      []byte
	account   ledger.Ledger
	event     *Request // the request that Next handed out last, if nobody has settled it
	reader    formatReader
	sessions  sessions
	notes     []string
	onlyFirst bool   // requests for other hosts than the first are told apart
	host      string // of the first request
	messages  int64  // lines of JSON that are no requests
	sample    string // the beginning of the first of them
}

// formatReader reads a format. It fills in one request, and returns false if the record was none; then that is
// accounted for.
type formatReader interface {
	next(r *Reader, q *Request) (bool, error)
}

// Open begins to read a log of several parts, in the order of their times. It reads the beginning of the first to find
// the format.
func Open(o Options, parts ...func() (io.ReadCloser, error)) (r *Reader, err error) {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	r = &Reader{o: o, open: parts}
	r.sessions.init(o.Ended)
	if err := r.next(); err != nil {
		if err == io.EOF {
			err = errors.New("the log is empty")
		}
		return nil, err
	}
	look := sample
	if o.Format != "" {
		look = 1 // a log that is followed may have no more
	}
	if mark, _ := r.in.Peek(len(utf8Mark)); string(mark) == utf8Mark {
		_, _ = r.in.Discard(len(mark))
		r.account.Add(ledger.Skipped, whyMark, 0, int64(len(mark)))
	}
	head, err := r.in.Peek(look)
	if len(head) == 0 && err != nil {
		if err == io.EOF {
			err = errors.New("the log is empty")
		}
		return nil, errors.Join(err, r.Close())
	}
	if what := ledger.Foreign(head); what != "" {
		return nil, errors.Join(fmt.Errorf("it is %s", what), r.Close())
	}
	if r.format = o.Format; r.format == "" {
		r.format = detect(head)
	}
	limit := maxLine
	switch r.format {
	case Combined:
		r.reader = &combined{}
	case JSON:
		x, err := newObjects(o.Fields, o.Zone)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.reader = x
	case HAR:
		r.reader, limit = &har{}, maxEntry
	case "":
		err = fmt.Errorf("its format is not recognised: it begins with %q; name one of %s, and for JSON the fields",
			head[:min(len(head), 60)], formatNames())
	default:
		err = fmt.Errorf("there is no format %q of access logs%s", r.format,
			suggest.MeantOrAll(string(r.format), strings.Split(formatNames(), ", "), "there are:"))
	}
	if r.format != JSON && o.Fields != "" && r.reader != nil {
		r.reader, err = nil, fmt.Errorf("fields are for a log in JSON, and this one is %s", r.format)
	}
	if r.reader == nil {
		return nil, errors.Join(err, r.Close())
	}
	if r.o.MaxRecord <= 0 {
		r.o.MaxRecord = limit
	}
	return r, nil
}

func formatNames() string {
	var all []string
	for _, f := range Formats() {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// detect finds the format by the beginning of a log: that of the first lines that are a record of one.
func detect(head []byte) Format {
	if begin := bytes.TrimLeft(head, " \t\r\n\ufeff"); isHAR(begin) {
		return HAR
	}
	var q Request
	c := combined{}
	lines := bytes.Split(head, []byte("\n"))
	for _, line := range lines[:min(len(lines), 100)] {
		line = bytes.TrimSpace(line)
		if c.parse(line, &q) {
			return Combined
		}
		if i := bytes.IndexByte(line, '{'); i >= 0 && line[len(line)-1] == '}' && json.Valid(line[i:]) {
			return JSON
		}
	}
	return ""
}

// Format tells how the log is written.
func (r *Reader) Format() Format { return r.format }

// Notes are messages for the user about the log as a whole.
func (r *Reader) Notes() []string { return r.notes }

func (r *Reader) note(text string) {
	for _, n := range r.notes {
		if n == text {
			return
		}
	}
	r.notes = append(r.notes, text)
}

// message counts a line that is no request but something that the server says.
func (r *Reader) message(line []byte) {
	if r.messages++; r.sample == "" {
		r.sample = strings.ToValidUTF8(string(line[:min(len(line), 200)]), "\ufffd")
	}
}

// Messages is how many lines are no requests but messages of the server, and how the first of them begins.
func (r *Reader) Messages() (n int64, first string) { return r.messages, r.sample }

// next opens the next part.
func (r *Reader) next() error {
	if err := r.Close(); err != nil {
		return err
	}
	if len(r.open) == 0 {
		return io.EOF
	}
	part, err := r.open[0]()
	r.open = r.open[1:]
	if err != nil {
		return err
	}
	r.part = part
	if r.in == nil {
		r.in = bufio.NewReaderSize(part, sample)
	} else {
		r.in.Reset(part)
	}
	return nil
}

// Close closes the part that is being read.
func (r *Reader) Close() error {
	if r.part == nil {
		return nil
	}
	part := r.part
	r.part = nil
	return part.Close()
}

// Next fills in the next request. At the end it returns io.EOF; any other error is one of reading the log, and ends it.
// A request that is not settled before the next call is skipped.
func (r *Reader) Next(q *Request) error {
	if r.event != nil {
		r.Settle(ledger.Skipped, whyIgnored)
	}
	for {
		*q = Request{Time: NoTime, Bytes: -1, Duration: -1, Headers: q.Headers[:0]}
		ok, err := r.reader.next(r, q)
		if err == io.EOF {
			if err = r.next(); err == nil {
				continue
			}
		}
		if err == io.EOF {
			r.sessions.end()
			return err
		}
		if err != nil {
			return fmt.Errorf("read the log after %d bytes: %w", r.account.Bytes.Total, err)
		}
		if ok {
			r.sessions.of(q)
			if r.onlyFirst && q.Bad == "" && len(q.Host) > 0 {
				if r.host == "" {
					r.host = string(q.Host)
				}
				q.other = r.host != string(q.Host)
			}
			r.event = q
			return nil
		}
	}
}

// Settle accounts for the request that Next handed out last. Only the first call counts.
func (r *Reader) Settle(part ledger.Part, reason string) {
	if r.event != nil {
		r.account.Add(part, reason, 1, r.event.Length)
		r.event = nil
	}
}

// Account is how things stand. A request that was handed out and not accounted for is not in it yet. After the end,
// Bytes.Total is the size of the log, uncompressed.
func (r *Reader) Account() Account {
	a := Account{Bytes: r.account.Bytes, Requests: r.account.Records, Reasons: []Reason{}}
	for _, x := range r.account.Reasons() {
		a.Reasons = append(a.Reasons, Reason{x.Part, x.Reason, x.Records, x.Bytes})
	}
	return a
}

// readLine returns the next line without its end, and its length with it. whole is false if it was too long and is
// lost. Without a line it returns an error.
func (r *Reader) readLine() (line []byte, n int64, whole, ended bool, err error) {
	r.line = r.line[:0]
	for {
		piece, err := r.in.ReadSlice('\n')
		n += int64(len(piece))
		if n <= int64(r.o.MaxRecord) {
			r.line = append(r.line, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || n == 0) {
			if n > 0 {
				r.account.Add(ledger.Lost, whyCut, 0, n)
			}
			return nil, n, false, false, err
		}
		if n > int64(r.o.MaxRecord) {
			r.account.Add(ledger.Lost, whyTooLong, 1, n)
			return nil, n, false, true, nil
		}
		ended = err == nil
		return bytes.TrimRight(r.line, "\r\n"), n, true, ended, nil
	}
}

// record reads lines until one is a record. parse accounts for the others.
func (r *Reader) record(q *Request, parse func([]byte) (part ledger.Part, why string)) (bool, error) {
	line, n, whole, ended, err := r.readLine()
	if err != nil || !whole {
		return false, err
	}
	if len(bytes.TrimSpace(line)) == 0 {
		r.account.Add(ledger.Skipped, whyBlank, 0, n)
		return false, nil
	}
	q.Length = n
	part, why := parse(line)
	switch {
	case part == ledger.Replayed && !ended:
		q.Ambiguous = whyLastLine
	case part != ledger.Replayed && !ended:
		r.account.Add(ledger.Lost, whyCut, 0, n)
		return false, nil
	case part != ledger.Replayed:
		r.account.Add(part, why, 0, n)
		return false, nil
	}
	return true, nil
}
