package httplog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/suggest"
	"tare/internal/sys/ledger"
)

// usual are the fields of a request under the names that servers give them: nginx's variables, the objects of Caddy, of
// Google Cloud and of Azure, the fields of Traefik, Envoy and Cloudflare, and those of users' own formats.
var usual = map[string][]string{
	"time": {"ts", "time_iso8601", "msec", "time_local", "StartUTC", "start_time", "EdgeStartTimestamp",
		"timestamp",
		"@timestamp", "time", "date", "requestTime"},
	"client": {"remote_addr", "request.client_ip", "request.remote_ip", "request.remote_addr", "ClientHost",
		"ClientAddr", "ClientIP", "properties.clientIP", "properties.clientIp", "httpRequest.remoteIp",
		"downstream_remote_address", "client_ip", "clientip", "remote_ip", "client",
		"http_x_forwarded_for", "x_forwarded_for", "remote", "ip"},
	"user":    {"remote_user", "ClientUsername", "user_id", "user"},
	"request": {"request", "request_line"},
	"method": {"request_method", "request.method", "RequestMethod", "ClientRequestMethod",
		"httpRequest.requestMethod",
		"properties.httpMethod", "httpMethod", "method", "verb"},
	"target": {"request_uri", "request.uri", "RequestPath", "ClientRequestURI", "ClientRequestPath",
		"httpRequest.requestUrl", "properties.requestUri", "uri", "url", "path", "target"},
	"query": {"query_string", "args", "properties.requestQuery", "query"},
	"host": {"http_host", "request.host", "RequestHost", "ClientRequestHost", "authority", "properties.host",
		"domain", "host", "vhost",
		"server_name"},
	"status": {"status", "response.status", "DownstreamStatus", "EdgeResponseStatus", "httpRequest.status",
		"properties.httpStatus",
		"response_code", "status_code", "response"},
	"bytes": {"body_bytes_sent", "bytes_sent", "DownstreamContentSize", "EdgeResponseBytes",
		"httpRequest.responseSize",
		"properties.sentBytes",
		"size", "bytes"},
	"duration": {"request_time", "duration", "Duration", "httpRequest.latency", "duration_ms", "duration_us",
		"duration_ns",
		"properties.timeTaken", "request_time_ms", "elapsed_ms", "latency_ms"},
	"agent": {"http_user_agent", "request.headers.User-Agent", "request_User-Agent", "ClientRequestUserAgent",
		"httpRequest.userAgent", "properties.userAgent", "user_agent", "agent"},
	"referer": {"http_referer", "http_referrer", "request.headers.Referer", "request_Referer",
		"ClientRequestReferer",
		"httpRequest.referer", "referer", "referrer"},
}

// units are the units of durations that are not in seconds, in seconds. Where a name does not tell, Envoy's own fields
// do.
var units = map[string]float64{"Duration": 1e-9, "duration_ns": 1e-9, "duration_us": 1e-6, "duration_ms": 1e-3,
	"request_time_ms": 1e-3, "elapsed_ms": 1e-3, "latency_ms": 1e-3}

// objects reads an object in each line.
type objects struct {
	fields map[string][]string
	zone   *time.Location
	buf    []byte // of the request's line
	piece  []byte // of a line that an engine has divided
	whole  []byte // the line that an engine has put into an object
	inner  combined
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
		line = bytes.TrimSpace(line)
		i := bytes.IndexByte(line, '{') // compose, kubectl and syslog put something before it
		if i < 0 {
			return ledger.Lost, whyNoRecord
		}
		line = line[i:]
		object := map[string]any{}
		if !decode(line, &object) {
			if bytes.Contains(line, []byte(`\x`)) {
				r.note(`nginx writes \x22 into JSON, which no program can read, unless log_format has escape=json`)
			}
			return ledger.Lost, whyBadJSON
		}
		if inner, ok := engineLine(object); ok {
			return x.unwrap(r, inner, q)
		}
		part, why := x.fill(r, object, q)
		if part == ledger.Skipped && why == whyMessages {
			r.message(line)
		}
		return part, why
	})
}

func decode(line []byte, object *map[string]any) bool {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(object) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// engineLine is the line that Docker's json-file keeps in an object, with its end if it is whole.
func engineLine(object map[string]any) (string, bool) {
	text, ok := object["log"].(string)
	_, stream := object["stream"].(string)
	return text, ok && stream
}

// unwrap reads a line that was in an object. Docker divides lines of more than 16 KiB.
func (x *objects) unwrap(r *Reader, line string, q *Request) (ledger.Part, string) {
	if x.piece = append(x.piece, line...); len(x.piece) > r.o.MaxRecord {
		x.piece = x.piece[:0]
		return ledger.Lost, whyTooLong
	}
	if !strings.HasSuffix(line, "\n") {
		return ledger.Skipped, whyPiece
	}
	x.whole = append(x.whole[:0], bytes.TrimSpace(x.piece)...)
	x.piece = x.piece[:0]
	if x.inner.parse(x.whole, q) {
		return ledger.Replayed, ""
	}
	object := map[string]any{}
	if i := bytes.IndexByte(x.whole, '{'); i >= 0 && decode(x.whole[i:], &object) {
		part, why := x.fill(r, object, q)
		if part == ledger.Replayed || why != whyMessages {
			return part, why
		}
	}
	r.message(x.whole)
	return ledger.Skipped, whyMessages
}

// fill makes a request of an object.
func (x *objects) fill(r *Reader, object map[string]any, q *Request) (ledger.Part, string) {
	method := x.text(object, "method")
	target, from := x.field(object, "target")
	line := x.text(object, "request")
	status := x.text(object, "status")
	client := x.text(object, "client")
	host := x.text(object, "host")
	if host == "_" { // nginx's name for a server that has none
		host = ""
	}
	sent := false
	if line != "" {
		x.buf = append(x.buf[:0], line...)
		q.line(x.buf)
		sent = q.Bad != whyGarbage
	}
	switch {
	case sent: // the request as it came; $uri is nginx's rewritten form
	case method != "" && target != "":
		q.Bad = ""
		if from == "uri" && has(object, "request_method") {
			r.note("the targets are nginx's $uri, which is what rewriting made of them; log $request or " +
				"$request_uri for those that were asked for")
		}
		if u, err := url.Parse(target); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
			target, host = u.RequestURI(), u.Host
		}
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
	case target != "" && status != "":
		q.Bad = whyNoMethod
	case status != "" && client != "":
		q.Bad = whyGarbage // nginx logs an empty request then
	default:
		return ledger.Skipped, whyMessages
	}
	user := x.text(object, "user")
	agent := x.text(object, "agent")
	referer := x.text(object, "referer")
	size := x.text(object, "bytes")
	took, by := x.field(object, "duration")
	at := x.text(object, "time")
	q.Client, q.Host = addressOf(client), []byte(host)
	q.User, q.Agent, q.Referer = named([]byte(user)), named([]byte(agent)), named([]byte(referer))
	if n, ok := number([]byte(status)); ok && n < 1000 {
		q.Status = int(n)
	}
	if n, ok := number([]byte(size)); ok {
		q.Bytes = n
	}
	if s, ok := seconds(took, by, has(object, "response_flags") || has(object, "authority")); ok {
		q.Duration = int64(s * second)
	}
	q.Time, q.Precision = instant(at, x.zone)
	return ledger.Replayed, ""
}

func has(object map[string]any, name string) bool {
	_, ok := object[name]
	return ok
}

// seconds reads a duration of the field of a name: a number in its unit, or one with its unit, such as 1.5ms. The
// duration of Envoy's is in milliseconds.
func seconds(text, name string, envoy bool) (float64, bool) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		return d.Seconds(), err == nil && d >= 0
	}
	if unit := units[name]; unit > 0 {
		s *= unit
	} else if name == "duration" && envoy {
		s /= 1e3
	}
	return s, s >= 0 && s < 1e9
}

// addressOf is an address without its port, where it has one; of several, which proxies pass on, the first.
func addressOf(text string) []byte {
	text, _, _ = strings.Cut(text, ",")
	if a, err := netip.ParseAddrPort(text); err == nil {
		text = a.Addr().String()
	}
	return named([]byte(text))
}

// text is a field's value; "" if there is none.
func (x *objects) text(object map[string]any, name string) string {
	value, _ := x.field(object, name)
	return value
}

// field is a field's value, and the name under which it was found; "" if there is none. One that says none (-) is
// passed over where another name has one.
func (x *objects) field(object map[string]any, name string) (value, path string) {
	for _, at := range x.fields[name] {
		switch v := find(object, at).(type) {
		case string:
			if value == "" || value == "-" {
				value, path = v, at
			}
		case json.Number:
			if value == "" {
				value, path = v.String(), at
			}
		}
		if value != "" && value != "-" {
			break
		}
	}
	return value, path
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
		unit := 1e6 // microseconds in a unit of f
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
