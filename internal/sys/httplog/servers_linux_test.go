package httplog

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// nginxConfig logs in the usual format and in JSON. DIR and PORT are filled in.
const nginxConfig = `daemon off;
master_process off;
pid DIR/pid;
error_log stderr warn;
events { }
http {
	log_format objects escape=json '{"time_iso8601":"$time_iso8601","msec":"$msec","remote_addr":"$remote_addr",'
		'"remote_user":"$remote_user","request":"$request","status":"$status","body_bytes_sent":"$body_bytes_sent",'
		'"request_time":"$request_time","http_referer":"$http_referer","http_user_agent":"$http_user_agent",'
		'"host":"$host"}';
	access_log DIR/combined.log;
	access_log DIR/objects.log objects;
	client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
	server { listen 127.0.0.1:PORT; root DIR; location / { return 200 "page"; } }
}
`

const apacheConfig = `ServerRoot DIR
ServerName site.example
PidFile DIR/pid
Mutex file:DIR
DefaultRuntimeDir DIR
Listen 127.0.0.1:PORT
ErrorLog /dev/stderr
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%h %l %u %t \"%r\" %>s %O" common
CustomLog DIR/combined.log combined
CustomLog DIR/vhost.log vhost_combined
CustomLog DIR/common.log common
DocumentRoot DIR
User www-data
Group www-data
`

// asked are requests as clients send them, each on a connection of its own, good and bad, and what a reader has to make
// of them: method and target, or "-" for what is no request.
var asked = []struct{ raw, want string }{
	{"GET /a?b=%22c HTTP/1.1\r\nHost: x\r\nUser-Agent: m\"o\\z\r\nReferer: http://r/\r\nConnection: close\r\n\r\n",
		"GET /a?b=%22c"},
	{"GET /\"quoted\" HTTP/1.1\r\nHost: x\r\nUser-Agent: caf\xc3\xa9\r\nConnection: close\r\n\r\n", `GET /"quoted"`},
	{"HEAD / HTTP/1.0\r\n\r\n", "HEAD /"},
	{"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\na=b", "POST /form"},
	{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "-"},
	{"nonsense\r\n\r\n", "-"},
}

// TestServers has real servers write their logs, which must be read as what was asked.
func TestServers(t *testing.T) {
	for _, s := range []struct {
		program, config string
		argv            func(config string) []string
		logs            map[string]Format
	}{
		{"nginx", nginxConfig, func(config string) []string { return []string{"-e", "stderr", "-c", config} },
			map[string]Format{"combined.log": Combined, "objects.log": JSON}},
		{"apache2", apacheConfig, func(config string) []string { return []string{"-D", "FOREGROUND", "-f", config} },
			map[string]Format{"combined.log": Combined, "vhost.log": Combined, "common.log": Combined}},
	} {
		t.Run(s.program, func(t *testing.T) {
			program, err := proc.LookPath(s.program)
			if err != nil {
				if os.Getenv("TARE_REQUIRE") != "" {
					t.Fatalf("%s is not installed, and TARE_REQUIRE is set", s.program)
				}
				t.Skipf("%s is not installed", s.program)
			}
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			ask(t, program, dir, s.config, s.argv, slices.Collect(maps.Keys(s.logs)))
			for name, format := range s.logs {
				checkLog(t, filepath.Join(dir, name), format)
			}
		})
	}
}

// ask starts a server, asks it everything, and ends it when its logs have the last request.
func ask(t *testing.T, program, dir, config string, argv func(string) []string, logs []string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	free.Close()
	modules := "/usr/lib/apache2/modules"
	path := filepath.Join(dir, "server.conf")
	text := strings.NewReplacer("DIR", dir, "PORT", port, "MODULES", modules).Replace(config)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := proc.Start(proc.Command(t.Context(), append([]string{program}, argv(path)...)...))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		} else if time.Now().After(end) {
			t.Fatalf("%s does not listen: %v: %s", program, err, server.Diagnose())
		}
	}
	for _, a := range asked {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, a.raw); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || len(answer) == 0 && a.want != "-" {
			t.Errorf("%q: %q, %v", a.raw, answer, err)
		}
		c.Close()
	}
	// A server may log a request only after it saw that the client left, and forgets it when it is ended before.
	last := strings.TrimSpace(asked[len(asked)-1].raw)
	for _, name := range logs {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if text, _ := os.ReadFile(filepath.Join(dir, name)); strings.Contains(string(text), last) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has no line of %q after a minute", name, last)
			}
		}
	}
	if err := server.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-server.Done() // it has written its logs
}

func checkLog(t *testing.T, path string, format Format) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{}, parts(string(text))...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if r.Format() != format {
		t.Errorf("%s is read as %s", path, r.Format())
	}
	var want, got []string
	for _, a := range asked {
		want = append(want, a.want)
	}
	var q Request
	agents := ""
	for r.Next(&q) == nil {
		what := "-"
		if q.Bad == "" {
			what = fmt.Sprintf("%s %s", q.Method, q.Target)
		}
		// A server may count the connection that found out whether it listens.
		if what != "-" || q.Status != 0 && q.Status != 408 {
			got = append(got, what)
		}
		agents += string(q.Agent) + " "
		if q.Time == NoTime || time.Since(time.UnixMicro(q.Time)).Abs() > time.Hour || string(q.Client) != "127.0.0.1" {
			t.Errorf("%s: %+v", path, q)
		}
	}
	a := r.Account()
	if !reflect.DeepEqual(got, want) || a.Bytes.Total != int64(len(text)) || a.Bytes.Lost != 0 {
		t.Errorf("%s: got %q, want %q, %+v\n%s", path, got, want, a, text)
	}
	if filepath.Base(path) != "common.log" && !strings.HasPrefix(agents, "m\"o\\z caf\xc3\xa9 ") {
		t.Errorf("%s: agents %q", path, agents)
	}
}
