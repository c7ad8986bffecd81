package httplog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/ledger"
)

// parts makes parts of a log of texts.
func parts(texts ...string) (all []func() (io.ReadCloser, error)) {
	for _, t := range texts {
		all = append(all, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(t)), nil })
	}
	return all
}

// read reads a log and settles each request by the policy. It returns each as a line.
func read(t testing.TB, o Options, texts ...string) (all []string, a Account) {
	t.Helper()
	r, err := Open(o, parts(texts...)...)
	if err != nil {
		t.Fatal(err)
	}
	var q Request
	for {
		err := r.Next(&q)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		part, why := (Policy{Writes: true}).Decide(&q)
		r.Settle(part, why)
		at := "-"
		if q.Time != NoTime {
			at = time.UnixMicro(q.Time).UTC().Format("02T15:04:05.999999")
		}
		line := fmt.Sprintf("%d %s %s %s %s %s %d %d", q.Session, at, q.Client, q.Host, q.Method, q.Target, q.Status,
			q.Bytes)
		if part != ledger.Replayed {
			line = string(part) + ": " + why
		}
		all = append(all, line)
	}
	checkAccount(t, r.Account(), len(strings.Join(texts, "")), len(all))
	return all, r.Account()
}

// checkAccount checks that an account adds up.
func checkAccount(t testing.TB, a Account, size, handed int) {
	t.Helper()
	var records, bytes int64
	for _, r := range a.Reasons {
		records += r.Requests
		bytes += r.Bytes
	}
	for _, p := range []ledger.Parts{a.Requests, a.Bytes} {
		if p.Total != p.Replayed+p.Skipped+p.Ambiguous+p.Lost {
			t.Errorf("%+v does not add up", p)
		}
	}
	if a.Bytes.Total != int64(size) || a.Requests.Total < int64(handed) ||
		records != a.Requests.Total-a.Requests.Replayed || bytes != a.Bytes.Total-a.Bytes.Replayed {
		t.Errorf("%d bytes with %d requests: %+v", size, handed, a)
	}
}

const combinedLog = `192.0.2.1 - - [23/Nov/2026:10:00:00 +0100] "GET /a?b=1 HTTP/1.1" 200 12 "https://x/\"q" "Mozilla \x22x\x22"
2001:db8::1 - jane [23/Nov/2026:10:00:01 +0100] "POST /b HTTP/2.0" 302 -
192.0.2.1 - - [23/Nov/2026:10:00:02 +0100] "HEAD /c HTTP/1.0" 304 0 "-" "Mozilla \x22x\x22" "192.0.2.9" rt=0.010
site.example:443 192.0.2.1 - - [23/Nov/2026:10:00:02 +0100] "GET /d HTTP/1.1" 200 7 "-" "-"
site.example:8080 ::1 - John Doe [23/Nov/2026:10:00:03 +0100] "GET /e HTTP/1.1" 200 7 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "\x16\x03\x01\x02" 400 150 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "-" 408 - "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "" 400 0 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "GET /old" 200 1
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "GET http://other/ HTTP/1.1" 404 1 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "CONNECT other:443 HTTP/1.1" 405 1 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "GET /a b HTTP/1.1" 400 1 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "PROPFIND /x HTTP/1.1" 405 1 "-" "-"
192.0.2.2 - - [23/Nov/2026:10:00:03 +0100] "GET /chat HTTP/1.1" 101 1 "-" "-"

this is no record
192.0.2.2 - [x] [23/Nov/2026:10:40:00 +0100] "GET /%C3%A4\\ HTTP/1.1" 200 1 "-" "-"
192.0.2.2 - - [99/Nov/2026:10:00:03 +0100] "GET / HTTP/1.1" 200 1 "-" "-"
`

func TestCombined(t *testing.T) {
	got, a := read(t, Options{}, combinedLog)
	want := []string{
		"1 23T09:00:00 192.0.2.1  GET /a?b=1 200 12",
		"skipped: POST: the log does not have its body",
		"1 23T09:00:02 192.0.2.1  HEAD /c 304 0",
		"3 23T09:00:02 192.0.2.1 site.example GET /d 200 7",
		"4 23T09:00:03 ::1 site.example:8080 GET /e 200 7",
		"skipped: " + whyGarbage, "skipped: " + whyGarbage, "skipped: " + whyGarbage, "skipped: " + whyGarbage,
		"skipped: " + whyElsewhere, "skipped: " + whyElsewhere, "skipped: " + whyTarget,
		"skipped: other methods than GET, HEAD, POST, PUT, PATCH and DELETE",
		"skipped: it switched to another protocol, such as WebSocket",
		`6 23T09:40:00 192.0.2.2  GET /%C3%A4\ 200 1`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	last := combinedLog[strings.LastIndex(strings.TrimSuffix(combinedLog, "\n"), "\n")+1:] // on the 99th of November
	if a.Bytes.Lost != int64(len("this is no record\n"+last)) {
		t.Errorf("%+v", a)
	}
	var q Request
	c := combined{}
	line, _, _ := strings.Cut(combinedLog, "\n")
	if !c.parse([]byte(line), &q) || string(q.Referer) != `https://x/"q` || string(q.Agent) != `Mozilla "x"` {
		t.Errorf("referer %q, agent %q", q.Referer, q.Agent)
	}
}

// TestClients: who asked, and which host, whatever stands before.
func TestClients(t *testing.T) {
	const rest = ` [23/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612`
	for head, want := range map[string]string{
		`192.0.2.1 - -`:                                              "192.0.2.1",
		`192.0.2.1 - John Smith`:                                     "192.0.2.1 user John Smith",
		`192.0.2.1 - me`:                                             "192.0.2.1 user me",
		`2001:db8::1 - -`:                                            "2001:db8::1",
		`192.0.2.1:4711 - -`:                                         "192.0.2.1",
		`client.example - -`:                                         "client.example",
		`unix: - -`:                                                  "unix:",
		`shop.example 192.0.2.1 - -`:                                 "192.0.2.1 host shop.example",
		`shop.example:443 192.0.2.1 - -`:                             "192.0.2.1 host shop.example",
		`shop.example:8443 ::1 - -`:                                  "::1 host shop.example:8443",
		`shop:8080 192.0.2.1 - -`:                                    "192.0.2.1 host shop:8080",
		`localhost 192.0.2.1 - Ann Lee`:                              "192.0.2.1 host localhost user Ann Lee",
		`192.0.2.9 192.0.2.1 - -`:                                    "192.0.2.1 host 192.0.2.9",
		`shop.example client.example - -`:                            "client.example host shop.example",
		`shop.example:80 client.example - -`:                         "client.example host shop.example",
		`client.example - Ann Lee`:                                   "client.example user Ann Lee",
		`12 192.0.2.1 - -`:                                           "192.0.2.1",
		`0.031 200 192.0.2.1 - -`:                                    "192.0.2.1",
		`Nov 23 10:00:00 web1 nginx: 192.0.2.1 - -`:                  "192.0.2.1",
		`Nov 23 10:00:00 web1.example 192.0.2.1 - -`:                 "192.0.2.1",
		`Nov 23 10:00:00 web1 nginx: shop.example 192.0.2.1 - -`:     "192.0.2.1 host shop.example",
		`<190>Nov 23 10:00:00 web1 nginx[12]: 192.0.2.1 - -`:         "192.0.2.1",
		`2026-11-23T10:00:00.1+00:00 web1 nginx[12]: 192.0.2.1 - me`: "192.0.2.1 user me",
		`web-1  | 192.0.2.1 - -`:                                     "192.0.2.1",
		`web-1  | shop.example 192.0.2.1 - -`:                        "192.0.2.1 host shop.example",
		`[pod/web-7d/nginx] 192.0.2.1 - -`:                           "192.0.2.1",
		`2026-11-23T10:00:00.1Z stdout F 192.0.2.1 - -`:              "192.0.2.1",
		`203.0.113.7, 192.0.2.1 - -`:                                 "203.0.113.7",
		`203.0.113.7, 10.0.0.1, 192.0.2.1 - me`:                      "203.0.113.7 user me",
		`203.0.113.7,10.0.0.1 - -`:                                   "203.0.113.7",
	} {
		var q Request
		c := combined{}
		if !c.parse([]byte(head+rest), &q) {
			t.Errorf("%s: no record", head)
			continue
		}
		got := string(q.Client)
		if len(q.Host) > 0 {
			got += " host " + string(q.Host)
		}
		if len(q.User) > 0 {
			got += " user " + string(q.User)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", head, got, want)
		}
	}
	for _, more := range []string{``, ` 3413`, ` 3413 0.002`, ` - 17`} {
		var q Request
		c := combined{}
		if !c.parse([]byte(`192.0.2.1 - -`+rest+more+` "http://ref.example/" "Mozilla/5.0 (X11)" 7`), &q) ||
			string(q.Referer) != "http://ref.example/" || string(q.Agent) != "Mozilla/5.0 (X11)" || q.Bytes != 612 {
			t.Errorf("%s: referer %q, agent %q", more, q.Referer, q.Agent)
		}
	}
	var q Request
	if c := (combined{}); !c.parse([]byte(`192.0.2.1 - - [23/Nov/0001:10:00:00 +0000] "GET /a HTTP/1.1" 200 1`), &q) ||
		q.Time != NoTime {
		t.Errorf("a time of the year 1 is %d", q.Time)
	}
}

// The last line has no end: it may be a part of one.
func TestEnd(t *testing.T) {
	const line = `192.0.2.1 - - [23/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 12`
	got, a := read(t, Options{}, line+"\n"+line, line+"\n"+line[:40])
	if len(got) != 3 || got[1] != "ambiguous: "+whyLastLine || a.Bytes.Lost != 40 || a.Requests.Replayed != 2 {
		t.Errorf("%q %+v", got, a)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, fields, text, want string }{
		{"nginx", "", `{"time_iso8601":"2026-11-23T10:00:00+01:00","remote_addr":"192.0.2.1","request":"GET /a?b HTTP/1.1",` +
			`"status":"200","body_bytes_sent":"12","http_user_agent":"x\"y","request_time":"0.005"}`,
			"1 23T09:00:00 192.0.2.1  GET /a?b 200 12"},
		{"nginx's variables", "", `{"msec":"1795424400.250","remote_addr":"192.0.2.1","request_method":"GET",` +
			`"uri":"/a","args":"c=d","host":"site","status":404,"bytes_sent":5}`,
			"1 23T09:00:00.25 192.0.2.1 site GET /a?c=d 404 5"},
		{"nginx, garbage", "", `{"time_iso8601":"2026-11-23T10:00:00+01:00","remote_addr":"192.0.2.1","request":"",` +
			`"status":"400"}`, "skipped: " + whyGarbage},
		{"Caddy", "", `{"level":"info","ts":1795424400.1234567,"logger":"http.log.access","msg":"handled request",` +
			`"request":{"remote_ip":"192.0.2.1","remote_port":"5","proto":"HTTP/2.0","method":"GET","host":"site:8443",` +
			`"uri":"/a?b=c","headers":{"User-Agent":["curl/8"]}},"bytes_read":0,"duration":0.002,"size":33,"status":200}`,
			"1 23T09:00:00.123457 192.0.2.1 site:8443 GET /a?b=c 200 33"},
		{"Caddy before 2.5", "", `{"ts":1795424400.5,"request":{"method":"GET","uri":"/p","remote_addr":"192.0.2.1:41342",` +
			`"host":"site"},"duration":0.000014,"size":3,"status":200}`, "1 23T09:00:00.5 192.0.2.1 site GET /p 200 3"},
		{"nginx with both", "", `{"timestamp":"2026-11-23T10:00:00+01:00","domain":"site","server_name":"_","clientip":"192.0.2.7",` +
			`"request":"GET /product/12?c=d HTTP/1.1","uri":"/index.php","args":"c=d","status":200,"bytes":5,` +
			`"request_method":"GET"}`, "1 23T09:00:00 192.0.2.7 site GET /product/12?c=d 200 5"},
		{"no method", "", `{"@timestamp":"2026-11-23T10:00:00+01:00","clientip":"192.0.2.7","url":"/p","status":"200"}`,
			"skipped: " + whyNoMethod},
		{"Traefik", "", `{"ClientAddr":"192.0.2.1:55","ClientHost":"192.0.2.1","DownstreamContentSize":12,"DownstreamStatus":200,` +
			`"Duration":2500000,"RequestAddr":"site","RequestHost":"site","RequestMethod":"GET","RequestPath":"/a?b=c",` +
			`"RequestProtocol":"HTTP/1.1","StartUTC":"2026-11-23T09:00:00.5Z","request_User-Agent":"curl"}`,
			"1 23T09:00:00.5 192.0.2.1 site GET /a?b=c 200 12"},
		{"Google Cloud", "", `{"httpRequest":{"latency":"0.012s","remoteIp":"192.0.2.1","requestMethod":"GET","requestUrl":` +
			`"https://site/a?b","responseSize":"77","status":200,"userAgent":"x"},"timestamp":"2026-11-23T09:00:00.25Z"}`,
			"1 23T09:00:00.25 192.0.2.1 site GET /a?b 200 77"},
		{"Cloudflare", "", `{"ClientIP":"192.0.2.1","ClientRequestHost":"site","ClientRequestMethod":"GET","ClientRequestURI":` +
			`"/a?b","EdgeResponseBytes":9,"EdgeResponseStatus":200,"EdgeStartTimestamp":1795424400250000000}`,
			"1 23T09:00:00.25 192.0.2.1 site GET /a?b 200 9"},
		{"Azure", "", `{"time":"2026-11-23T09:00:00Z","properties":{"clientIP":"192.0.2.1","httpMethod":"GET",` +
			`"requestUri":"/a","requestQuery":"b","httpStatus":200,"sentBytes":5,"timeTaken":0.1,"host":"site"}}`,
			"1 23T09:00:00 192.0.2.1 site GET /a?b 200 5"},
		{"Envoy", "", `{"authority":"site","bytes_sent":9,"downstream_remote_address":"192.0.2.1:5","duration":7,"method":"GET",` +
			`"path":"/a","response_code":200,"response_flags":"-","start_time":"2026-11-23T09:00:00.250Z"}`,
			"1 23T09:00:00.25 192.0.2.1 site GET /a 200 9"},
		{"Docker, combined", "", `{"log":"192.0.2.1 - - [23/Nov/2026:09:00:00 +0000] \"GET /a HTTP/1.1\" 200 9\n","stream":"stdout",` +
			`"time":"2026-11-23T09:00:01Z"}`, "1 23T09:00:00 192.0.2.1  GET /a 200 9"},
		{"Docker, JSON", "", `{"log":"{\"ts\":1795424400,\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /a HTTP/1.1\",\"status\":200}\n",` +
			`"stream":"stdout","time":"2026-11-23T09:00:01Z"}`, "1 23T09:00:00 192.0.2.1  GET /a 200 -1"},
		{"compose", "", `web-1  | {"ts":1795424400,"remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":200}`,
			"1 23T09:00:00 192.0.2.1  GET /a 200 -1"},
		{"behind a proxy", "", `{"ts":1795424400,"http_x_forwarded_for":"203.0.113.7, 10.0.0.1","request":"GET /a HTTP/1.1",` +
			`"status":200}`, "1 23T09:00:00 203.0.113.7  GET /a 200 -1"},
		{"a user's", "method=http.verb,target=http.path,time=at,client=peer,status=http.code",
			`{"at":1795424400123,"peer":"192.0.2.1:99","http":{"verb":"GET","path":"/a","code":200}}`,
			"1 23T09:00:00.123 192.0.2.1  GET /a 200 -1"},
	} {
		got, _ := read(t, Options{Fields: c.fields}, c.text+"\n")
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	got, a := read(t, Options{}, `{"ts":1,"msg":"started"}`+"\n"+`{"request":"GET /\x22 HTTP/1.1"}`+"\n"+`nonsense`+"\n"+
		`{"a":1} {"b":2}`+"\n")
	if len(got) != 0 || a.Bytes.Skipped != 25 || a.Bytes.Lost != int64(33+9+16) {
		t.Errorf("%q %+v", got, a)
	}
	for _, fields := range []string{"method", "methods=a", "=a"} {
		if _, err := Open(Options{Fields: fields, Format: JSON}, parts("{}")...); err == nil {
			t.Errorf("fields=%s is taken", fields)
		}
	}
}

const harLog = `{
  "log": { "version": "1.2", "creator": {"name": "entries", "version": "[{"}, "pages": [{"id": "entries", "x": [{}]}],
    "entries": [
      {"startedDateTime": "2026-11-23T10:00:00.250+01:00", "time": 12.5, "connection": "7",
       "request": {"method": "GET", "url": "https://site/a?b=%7B", "headers": [{"name": "User-Agent", "value": "F"},
         {"name": ":path", "value": "/"}, {"name": "Cookie", "value": "secret"}, {"name": "Accept", "value": "*/*"}]},
       "response": {"status": 200, "bodySize": -1, "content": {"size": 9, "text": "}]}\"{"}}},
      {"startedDateTime": "2026-11-23T10:00:01Z", "request": {"method": "POST", "url": "http://site:81/b",
       "headers": [], "postData": {"mimeType": "application/x-www-form-urlencoded",
       "params": [{"name": "a b", "value": "&"}, {"name": "c", "value": ""}]}}, "response": {"status": 302}},
      {"request": {"method": "POST", "url": "http://site/up", "postData": {"mimeType": "multipart/form-data",
       "params": [{"name": "f", "fileName": "x"}]}}, "response": {}},
      {"request": {"method": "GET", "url": "data:text/plain,x"}},
      {"request": 1}
    ], "comment": {"entries": [{}]} }
}
`

func TestHAR(t *testing.T) {
	got, a := read(t, Options{}, harLog)
	want := []string{"1 23T09:00:00.25 connection 7 site GET /a?b=%7B 200 9", "2 23T10:00:01  site:81 POST /b 302 0",
		"skipped: POST: the log does not have its body", "skipped: " + whyNoServer}
	if !reflect.DeepEqual(got, want) || a.Requests.Lost != 1 || a.Requests.Total != 5 {
		t.Errorf("%q\n%+v", got, a)
	}
	r, err := Open(Options{}, parts(harLog)...)
	if err != nil {
		t.Fatal(err)
	}
	var q Request
	if err := r.Next(&q); err != nil || string(bytes.Join(q.Headers, nil)) != "Accept: */*" || string(q.Agent) != "F" ||
		q.Duration != 12500 {
		t.Errorf("%q %v", q.Headers, err)
	}
	if err := r.Next(&q); err != nil || string(q.Body) != "a+b=%26&c=" || !q.HasBody {
		t.Errorf("%q %v", q.Body, err)
	}
	// What is too long is lost, and the next is read; so is what the end cuts off.
	if got, a := read(t, Options{MaxRecord: 300}, harLog); len(got) != 3 || a.Requests.Lost != 2 {
		t.Errorf("%q\n%+v", got, a)
	}
	if got, a := read(t, Options{}, harLog[:900]); len(got) != 2 || a.Requests.Lost != 1 {
		t.Errorf("%q\n%+v", got, a)
	}
}

// TestHARNotSent: what a browser did not send is not replayed, and a body in base64 is what it stands for.
func TestHARNotSent(t *testing.T) {
	entry := func(more, method, url, post string, status int) string {
		return fmt.Sprintf(`{%s"request":{"method":"%s","url":"%s","headers":[]%s},"response":{"status":%d}}`, more, method, url,
			post, status)
	}
	text := `{"log":{"entries":[` + strings.Join([]string{
		entry("", "GET", "https://site/", "", 200),
		entry(`"_fromCache":"disk",`, "GET", "https://site/c", "", 200),
		entry(`"_fetchType":"Memory Cache",`, "GET", "https://site/c", "", 200),
		entry("", "GET", "https://site/blocked", "", 0),
		entry("", "GET", "wss://site/s", "", 101),
		entry("", "GET", "https://other/", "", 200),
		entry("", "POST", "https://site/up", `,"postData":{"mimeType":"x","encoding":"base64","text":"AAEC/w=="}`, 204),
		entry("", "POST", "https://site/up", `,"postData":{"mimeType":"x","encoding":"base64","text":"!"}`, 204),
	}, ",") + `]}}`
	for hosts, want := range map[string]string{
		"":           "/ cache cache unsent socket other \x00\x01\x02\xff nobody",
		"all":        "/ cache cache unsent socket / \x00\x01\x02\xff nobody",
		"other":      "other other other other socket / other other",
		"OTHER+site": "/ cache cache unsent socket / \x00\x01\x02\xff nobody",
	} {
		r, err := Open(Options{}, parts(text)...)
		if err != nil {
			t.Fatal(err)
		}
		p := Policy{Writes: true}.For(r, hosts)
		var got []string
		var q Request
		for r.Next(&q) == nil {
			part, why := p.Decide(&q)
			r.Settle(part, why)
			switch {
			case part == ledger.Replayed && len(q.Body) > 0:
				got = append(got, string(q.Body))
			case part == ledger.Replayed:
				got = append(got, string(q.Target))
			case strings.HasPrefix(why, whyOthers):
				got = append(got, "other")
			default:
				got = append(got, map[string]string{whyFromCache: "cache", whyUnsent: "unsent", whySocket: "socket",
					"POST: the log does not have its body": "nobody"}[why])
			}
		}
		if strings.Join(got, " ") != want && hosts != "other" {
			t.Errorf("hosts=%s: %q, want %q", hosts, got, want)
		}
		checkAccount(t, r.Account(), len(text), len(got))
	}
}

// TestMessages: a log of which more than a tenth cannot be read as requests is told of.
func TestMessages(t *testing.T) {
	request := `{"ts":1,"remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":200}` + "\n"
	for text, want := range map[string]bool{
		strings.Repeat(request, 20) + `{"msg":"started"}` + "\n": false,
		strings.Repeat(request, 5) + `{"msg":"started"}` + "\n":  true,
		`{"q":"GET","p":"/a","code":200}` + "\n":                 true,
		`{"log":"started\n","stream":"stderr"}` + "\n" + request: true,
	} {
		r, err := Open(Options{}, parts(text)...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(r, Policy{})
		if err != nil || s.TooManyMessages(r) != want || (len(s.Notes) > 0) != want {
			t.Errorf("%.60q: %v, %q, %v", text, s.TooManyMessages(r), s.Notes, err)
		}
	}
}

// TestPieces: Docker divides a long line over several objects.
func TestPieces(t *testing.T) {
	const text = `{"log":"192.0.2.1 - - [23/Nov/2026:09:00:00 +0000] \"GET /a","stream":"stdout"}` + "\n" +
		`{"log":"b HTTP/1.1\" 200 9\n","stream":"stdout"}` + "\n"
	if got, a := read(t, Options{}, text); len(got) != 1 || got[0] != "1 23T09:00:00 192.0.2.1  GET /ab 200 9" ||
		a.Bytes.Lost > 0 {
		t.Errorf("%q %+v", got, a)
	}
}

// TestBeginnings: a mark of the order of bytes is no part of the log, and what is no log is named.
func TestBeginnings(t *testing.T) {
	const line = `192.0.2.1 - - [23/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 12` + "\n"
	if got, a := read(t, Options{}, "\ufeff"+line); len(got) != 1 || a.Bytes.Skipped != 3 {
		t.Errorf("%q %+v", got, a)
	}
	for begin, want := range map[string]string{"\xff\xfe1\x009\x002\x00": "UTF-16", "PK\x03\x04": "zip",
		"1\x009\x002\x00.\x000\x00": "UTF-16"} {
		if _, err := Open(Options{}, parts(begin)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", begin, err)
		}
	}
}

// TestSessions: who is silent for half an hour begins another, and clients are forgotten when there are too many.
func TestSessions(t *testing.T) {
	line := func(client string, minute int, agent string) string {
		return fmt.Sprintf(`%s - - [23/Nov/2026:%02d:%02d:00 +0000] "GET / HTTP/1.1" 200 1 "-" "%s"`+"\n", client,
			10+minute/60, minute%60, agent)
	}
	ended := map[uint64]int{}
	got, _ := read(t, Options{Ended: func(n uint64) { ended[n]++ }},
		line("a", 0, "x")+line("a", 1, "y")+line("b", 1, "x")+line("a", 29, "x")+line("a", 58, "x")+
			line("a", 89, "x")+line("a", 89, "y"))
	var sessions []string
	for _, g := range got {
		sessions = append(sessions, g[:1])
	}
	if s := strings.Join(sessions, ""); s != "1231145" {
		t.Errorf("sessions %s", s)
	}
	if len(ended) != 5 || ended[1] != 1 || ended[5] != 1 {
		t.Errorf("ended %v", ended)
	}
	var b strings.Builder
	for i := range 3*maxSessions + 10 {
		b.WriteString(line(fmt.Sprintf("c%d", i), 0, "x"))
	}
	clear(ended)
	r, err := Open(Options{Ended: func(n uint64) { ended[n]++ }}, parts(b.String())...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(r, Policy{})
	if err != nil || s.Sessions.Total != int64(len(ended)) || s.Sessions.MostOpen > 2*maxSessions {
		t.Errorf("%+v, %d ended, %v", s.Sessions, len(ended), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for text, want := range map[string]string{"": "empty", "hello\n": "combined, json, har", "\x00\x01": "format"} {
		if _, err := Open(Options{}, parts(text)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open(Options{Format: "combinde"}, parts("x")...); err == nil ||
		!strings.Contains(err.Error(), "combined") {
		t.Errorf("%v", err)
	}
	if _, err := Open(Options{Fields: "time=t"}, parts(combinedLog)...); err == nil {
		t.Error("fields of a combined log are taken")
	}
}

func TestFingerprint(t *testing.T) {
	for target, want := range map[string]string{
		"/":                            "GET /",
		"/page-123.html":               "GET /page-N.html",
		"/img/0a1b2c3d4e5f.png?v=9":    "GET /img/H.png?v=",
		"/index.php?title=Foo&oldid=7": "GET /index.php?title=&oldid=",
		"/a1b2/?x&y2=3":                "GET /aNbN/?x&yN=",
		"/decade/facade?":              "GET /decade/facade?",
	} {
		if got := string(Fingerprint(nil, &Request{Method: []byte("GET"), Target: []byte(target)})); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	for status, want := range map[int]int{200: 200, 304: 200, 206: 200, 499: 0, 0: 0, 404: 404, 101: 0, 777: 0} {
		if got := Comparable(&Request{Status: status}); got != want {
			t.Errorf("status %d is to be %d, want %d", status, got, want)
		}
	}
}

// TestMemory: neither a line nor an entry without an end takes memory without bound.
func TestMemory(t *testing.T) {
	for format, text := range map[Format]string{Combined: "a", HAR: `{"log":{"entries":[{"a":"`} {
		const size = 256 << 20
		src := io.MultiReader(strings.NewReader(text), io.LimitReader(endlessLog{}, size))
		r, err := Open(Options{Format: format, MaxRecord: 1 << 20},
			func() (io.ReadCloser, error) { return io.NopCloser(src), nil })
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(r, Policy{})
		if err != nil || s.Account.Bytes.Lost < size || cap(r.line) > 4<<20 {
			t.Errorf("%s: %+v, %v, %d bytes kept", format, s.Account, err, cap(r.line))
		}
		if h, ok := r.reader.(*har); ok && cap(h.entry) > 4<<20 {
			t.Errorf("%d bytes of an entry are kept", cap(h.entry))
		}
	}
}

type endlessLog struct{}

func (endlessLog) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestDamaged changes logs at random: whatever becomes of them, each byte is accounted for.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	caddy := `{"ts":1795424400.1,"request":{"remote_ip":"a","method":"GET","uri":"/a"},"status":200}` + "\n"
	for format, text := range map[Format]string{Combined: combinedLog, HAR: harLog, JSON: strings.Repeat(caddy, 20)} {
		for range 500 {
			b := []byte(text)
			for range 1 + r.IntN(8) {
				i := r.IntN(len(b))
				switch r.IntN(3) {
				case 0:
					b[i] = byte(r.Uint32())
				case 1:
					b = append(b[:i], b[i+r.IntN(len(b)-i):]...)
				default:
					b = append(b[:i:i], append([]byte{'"', '{', '\n'}[:1+r.IntN(3)], b[i:]...)...)
				}
				if len(b) == 0 {
					b = []byte("x")
				}
			}
			read(t, Options{Format: format}, string(b))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(combinedLog), byte(0))
	f.Add([]byte(harLog), byte(2))
	f.Add([]byte(`{"ts":1795424400.1,"request":{"remote_ip":"a","method":"GET","uri":"/a"},"status":200}`), byte(1))
	f.Add([]byte(`{"log":"{\"ts\":1,\"request\":\"GET /a HTTP/1.1\",\"status\":200}\n","stream":"stdout"}`), byte(1))
	f.Add([]byte("web-1  | site:81 203.0.113.7, 192.0.2.1 - A B "+
		"[23/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 1 2 \"-\" \"-\"\n"),
		byte(0))
	f.Fuzz(func(t *testing.T, b []byte, format byte) {
		if len(b) == 0 {
			return
		}
		read(t, Options{Format: Formats()[int(format)%len(Formats())], MaxRecord: 4 << 10}, string(b))
	})
}
