package httplog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/suggest"
	"tare/internal/sys/ledger"
)

// usual are the fields of a request under the names that servers give them: nginx's variables, Caddy's objects, and
// what users write.
var usual = map[string][]string{
	"time": {"ts", "time_iso8601", "msec", "time_local", "timestamp", "@timestamp", "time", "date"},
	"client": {"remote_addr", "request.client_ip", "request.remote_ip", "client_ip", "clientip", "remote_ip", "client",
		"http_x_forwarded_for", "remote"},
	"user":    {"remote_user", "user_id", "user"},
	"request": {"request", "request_line"},
	"method":  {"request_method", "request.method", "method", "verb"},
	"target":  {"request_uri", "request.uri", "uri", "url", "path", "target"},
	"query":   {"query_string", "args", "query"},
	"host":    {"http_host", "request.host", "host", "server_name", "vhost"},
	"status":  {"status", "response.status", "status_code", "response"},
	"bytes":   {"body_bytes_sent", "bytes_sent", "size", "bytes"},
	// In seconds. Others mean milliseconds or something else, and are named by the user.
	"duration": {"request_time", "duration"},
	"agent":    {"http_user_agent", "request.headers.User-Agent", "user_agent", "agent"},
	"referer":  {"http_referer", "http_referrer", "request.headers.Referer", "referer", "referrer"},
}

// objects reads an object in each line.
type objects struct {
	fields map[string][]string
	zone   *time.Location
	buf    []byte // of the request's line
}

// newObjects takes the names of fields that a user gives: "method=verb,target=req.path".
func newObjects(fields string, zone *time.Location) (*objects, error) {
	x := &objects{fields: map[string][]string{}, zone: zone}
	var names []string
	for name, all := range usual {
		x.fields[name] = all
		names = append(names, name)
	}
	slices.Sort(names)
	for pair := range strings.SplitSeq(fields, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, field, ok := strings.Cut(pair, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("fields: %q is not NAME=FIELD", pair)
		}
		if usual[name] == nil {
			return nil, fmt.Errorf("fields: there is no %q%s", name, suggest.MeantOrAll(name, names, "there are:"))
		}
		x.fields[name] = []string{field}
	}
	return x, nil
}

func (x *objects) next(r *Reader, q *Request) (bool, error) {
	return r.record(q, func(line []byte) (ledger.Part, string) {
		if line = bytes.TrimSpace(line); line[0] != '{' {
			return ledger.Lost, whyNoRecord
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		object := map[string]any{}
		if err := d.Decode(&object); err != nil {
			if bytes.Contains(line, []byte(`\x`)) {
				r.note(`nginx writes \x22 into JSON, which no program can read, unless log_format has escape=json`)
			}
			return ledger.Lost, whyBadJSON
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return ledger.Lost, whyBadJSON
		}
		return x.fill(object, q)
	})
}

// fill makes a request of an object.
func (x *objects) fill(object map[string]any, q *Request) (ledger.Part, string) {
	method, target := x.text(object, "method"), x.text(object, "target")
	line := x.text(object, "request")
	switch {
	case method != "" && target != "":
		if query := x.text(object, "query"); query != "" && !strings.Contains(target, "?") {
			target += "?" + query
		}
		x.buf = append(append(append(x.buf[:0], method...), ' '), target...)
		if !isMethod(x.buf[:len(method)]) {
			q.Bad = whyGarbage
			break
		}
		q.Method = x.buf[:len(method)]
		q.aim(x.buf[len(method)+1:])
	case line != "":
		x.buf = append(x.buf[:0], line...)
		q.line(x.buf)
	case x.text(object, "status") != "" && x.text(object, "client") != "":
		q.Bad = whyGarbage // nginx logs an empty request then
	default:
		return ledger.Skipped, whyMessages
	}
	q.Client, q.Host = addressOf(x.text(object, "client")), []byte(x.text(object, "host"))
	q.User, q.Agent = named([]byte(x.text(object, "user"))), named([]byte(x.text(object, "agent")))
	q.Referer = named([]byte(x.text(object, "referer")))
	if n, ok := number([]byte(x.text(object, "status"))); ok && n < 1000 {
		q.Status = int(n)
	}
	if n, ok := number([]byte(x.text(object, "bytes"))); ok {
		q.Bytes = n
	}
	if s, err := strconv.ParseFloat(x.text(object, "duration"), 64); err == nil && s >= 0 && s < 1e9 {
		q.Duration = int64(s * second)
	}
	q.Time, q.Precision = instant(x.text(object, "time"), x.zone)
	return ledger.Replayed, ""
}

// addressOf is an address without its port, where it has one.
func addressOf(text string) []byte {
	if a, err := netip.ParseAddrPort(text); err == nil {
		text = a.Addr().String()
	}
	return named([]byte(text))
}

// text is a field's value; "" if there is none.
func (x *objects) text(object map[string]any, name string) string {
	for _, path := range x.fields[name] {
		switch v := find(object, path).(type) {
		case string:
			return v
		case json.Number:
			return v.String()
		}
	}
	return ""
}

// find follows a path, whose steps may be one name with dots in it. The first element stands for a list.
func find(v any, path string) any {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	object, ok := v.(map[string]any)
	if path == "" || !ok {
		if path != "" {
			return nil
		}
		return v
	}
	if v, ok := object[path]; ok {
		return find(v, "")
	}
	step, rest, ok := strings.Cut(path, ".")
	if v, there := object[step]; ok && there {
		return find(v, rest)
	}
	return nil
}

// The forms of times, with how exact they are.
var layouts = []struct {
	layout    string
	precision int64
}{{time.RFC3339Nano, second}, {stamp, second}, {"2006-01-02T15:04:05.999999999Z0700", second},
	{"2006-01-02 15:04:05.999999999", second}, {"2006/01/02 15:04:05.999999999", second}}

// instant reads a time: a text in one of the usual forms, or seconds, milliseconds, microseconds or nanoseconds since
// 1970.
func instant(text string, zone *time.Location) (at, precision int64) {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		unit := 1e6 // microseconds in what it counts
		for ; f >= 1e11 && unit > 1e-3; f /= 1e3 {
			unit /= 1e3
		}
		if !(f > 0 && f < 1e11) || math.IsInf(f, 0) {
			return NoTime, 0
		}
		_, digits, _ := strings.Cut(text, ".")
		return int64(math.Round(f * 1e6)), max(1, int64(unit*math.Pow(10, -float64(min(len(digits), 9)))))
	}
	for _, l := range layouts {
		if t, err := time.ParseInLocation(l.layout, text, zone); err == nil && t.Year() >= 1970 && t.Year() < 2300 {
			return t.UnixMicro(), max(1, l.precision/int64(math.Pow(10, float64(fraction(text)))))
		}
	}
	return NoTime, 0
}

// fraction counts the digits of the seconds' fraction.
func fraction(text string) (n int) {
	i := strings.LastIndexByte(text, '.')
	for i >= 0 && i+1+n < len(text) && n < 6 && text[i+1+n] >= '0' && text[i+1+n] <= '9' {
		n++
	}
	return n
}
