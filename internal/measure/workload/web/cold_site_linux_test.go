package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// phpSite is a site of nginx and PHP-FPM, which scripts stop and start. Both become daemons.
type phpSite struct{ dir, url string }

// newPHPSite makes one; nothing is started.
func newPHPSite(t *testing.T) *phpSite {
	t.Helper()
	needNginx(t)
	fpm := ""
	for _, found := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if all, _ := filepath.Glob(found + "/php-fpm*"); len(all) > 0 {
			fpm = all[0]
		}
	}
	if fpm == "" {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("php-fpm is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("php-fpm is not installed")
	}
	nginx, err := proc.LookPath("nginx")
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &phpSite{dir: t.TempDir(), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	words := strings.NewReplacer("DIR", s.dir, "PORT", fmt.Sprint(port), "FPM", fpm, "NGINX", nginx)
	if err := os.Mkdir(filepath.Join(s.dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"fpm.conf": "[global]\npid = DIR/fpm.pid\nerror_log = DIR/fpm.log\n[www]\nuser = root\ngroup = root\n" +
			"listen = DIR/fpm.sock\npm = static\npm.max_children = 1\n",
		"nginx.conf": `user root;
pid DIR/nginx.pid;
error_log DIR/nginx.log;
events { }
http {
	access_log off;
	client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
	server {
		listen 127.0.0.1:PORT;
		root DIR/www;
		location / { return 200 "ready"; }
		location ~ [.]php$ {
			fastcgi_pass unix:DIR/fpm.sock;
			fastcgi_param REQUEST_METHOD $request_method;
			fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
		}
	}
}
`,
		"start.sh": "set -e\nFPM -n -d zend_extension=opcache -d opcache.file_update_protection=0 -R -D -y " +
			"DIR/fpm.conf\n" +
			"NGINX -c DIR/nginx.conf\n",
		"stop.sh": `for name in nginx fpm; do
	[ -e DIR/$name.pid ] || continue
	pid=$(cat DIR/$name.pid)
	kill "$pid" || continue
	while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
done
rm -f DIR/nginx.pid DIR/fpm.pid
`,
		"www/page.php": "<?php require dirname(__FILE__) . '/lib.php'; echo title(), ' made at ', date('H:i:s'); ",
		"www/lib.php":  "<?php function title() { return '" + strings.Repeat("the page, ", 2000) + "'; } ",
		"www/scripts.php": "<?php $s = opcache_get_status(); echo implode(' ', array_map('basename', " +
			"array_keys($s['scripts'] ?? []))), '.'; ",
		"www/broken.php": "<?php ini_set('display_errors', 1); echo 'Error establishing a database connection'; ",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(words.Replace(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"page.php", "lib.php"} { // what is not on the disk yet cannot be dropped
		path := filepath.Join(s.dir, "www", name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = writeSynced(path, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := proc.Run(context.Background(), nil, "sh", filepath.Join(s.dir, "stop.sh")); err != nil {
			t.Error(err)
		}
	})
	return s
}

// given are the parameters of a trial of the site, with more.
func (s *phpSite) given(more ...string) map[string]string {
	p := map[string]string{"url": s.url + "/page.php", "stop": "sh " + s.dir + "/stop.sh", "restart": "sh " + s.dir +
		"/start.sh", "ready": "/", "ready-match": "^ready$", "match": "^the page", "hook-timeout": "1m"}
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

// TestColdSite measures a real PHP behind nginx, which is restarted each time: its opcode cache is empty then, and its
// code is not in the page cache.
func TestColdSite(t *testing.T) {
	s := newPHPSite(t)
	k := trialtest.Named(t, Kinds(), "http.cold")
	try := func(work int64, more ...string) (map[string]string, error) {
		t.Helper()
		given := s.given(more...)
		b, err := trialtest.Try(t, k, given, work)
		if err != nil {
			return nil, err
		}
		trialtest.CheckFigures(t, k, given, b)
		if n := len(b.Samples["first_seconds"]); n != int(work) {
			t.Errorf("%d samples", n)
		}
		if m := b.Metrics; m["connect_seconds"] > m["first_byte_seconds"] ||
			m["first_byte_seconds"] > m["first_seconds"] {
			t.Errorf("the phases are out of order: %v", m)
		}
		b.State["page"] = b.Checks["page"]
		return b.State, nil
	}
	refused := func(want string, more ...string) {
		t.Helper()
		began := time.Now()
		_, err := try(2, more...)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || !strings.Contains(f.Message, want) || time.Since(began) > time.Minute {
			t.Errorf("%q: after %v %v, want %q", more, time.Since(began), err, want)
		}
	}
	warm := []string{"cache", "warm"}
	with := func(more ...string) []string { return append(warm[:2:2], more...) }
	// The status page is in the cache by the time that it answers, and nothing else.
	state, err := try(3, with("proof-url", "/scripts.php", "proof-match", `^(scripts[.]php)?[.]$`)...)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := try(2, with("proof", "test -e "+
		""+s.dir+"/fpm.pid")...); err != nil || again["page"] != state["page"] ||
		state["page"] == "" {
		t.Errorf("%v, %v, %v", again, state, err)
	}
	state, err = try(2, "files", s.dir+"/www/page.php,"+s.dir+"/www/lib.php")
	f, _ := errors.AsType[*record.Failure](err)
	switch {
	case f != nil && f.Kind == "refused" && strings.Contains(f.Message, "tmpfs"):
	case err != nil:
		t.Error(err)
	case state["cold_files"] != "2" || state["cache_dropped_by"] == "":
		t.Errorf("%v", state)
	}
	// A clear that clears nothing leaves the second page warm, and the proof finds it.
	if _, err := proc.Run(t.Context(), nil, "sh", s.dir+"/stop.sh"); err != nil {
		t.Fatal(err)
	}
	refused("page 2: the server may not be cold: /scripts.php", with("stop", "", "restart", "", "clear",
		"test -e "+s.dir+"/fpm.pid || sh "+s.dir+"/start.sh", "proof-url", "/scripts.php", "proof-match",
		`^(scripts[.]php)?[.]$`)...)
	refused("proof ended with exit code 1", with("proof", "false")...)
	refused("page 1: the page: its answer of 40 bytes has nothing that ^the page matches", with("url",
		s.url+"/broken.php")...)
	refused("answers 404 instead of 200", with("url", s.url+"/nothing.php")...)
	refused("clear ended with exit code 3", with("clear", "echo no such cache >&2; exit 3")...)
	refused("did not end within 1s", with("clear", "sleep 1000", "hook-timeout", "1s")...)
	refused("the server was not ready within 1s: it answers 200 instead of 204", with("ready-status", "204",
		"ready-timeout", "1s")...)
	refused("the server was not ready within 1s: connect to", with("restart", "true", "ready", "", "ready-match", "",
		"ready-timeout", "1s")...)
	refused("no such file", "files", s.dir+"/nothing")
}

// TestColdSiteWithoutFiles has a site whose files nobody names: before each page the whole page cache is dropped, and
// with it what the site reads. Who may not drop it is told to name the files.
func TestColdSiteWithoutFiles(t *testing.T) {
	s := newPHPSite(t)
	k := trialtest.Named(t, Kinds(), "http.cold")
	lib := filepath.Join(s.dir, "www", "lib.php")
	resident := func() float64 {
		t.Helper()
		share, err := fileio.Resident(lib)
		if err != nil {
			t.Fatal(err)
		}
		return share
	}
	p, err := k.Resolve(s.given())
	if err != nil {
		t.Fatal(err)
	}
	made, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	if os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0) != nil {
		_, err := trialtest.TryTrial(t, made, 1)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != "cache-state" || !strings.Contains(f.Message, "drop the page cache: ") ||
			!strings.Contains(f.Message, "; name the files with files=") {
			t.Errorf("%v", err)
		}
		return
	}
	trial := made.(*coldSiteTrial)
	b := &workload.Bench{Dir: t.TempDir(), Work: 1}
	if err := trial.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_, on := fileio.Volume(lib)
	inMemory := on == "tmpfs" || on == "ramfs" // such a file never leaves it
	if _, err := os.ReadFile(lib); err != nil {
		t.Fatal(err)
	}
	if is := resident(); is != 1 {
		t.Errorf("%v of a file that was read is in the page cache", is)
	}
	if err := errors.Join(trial.chill(t.Context()), trial.prove(t.Context())); err != nil {
		t.Fatal(err)
	}
	if is := resident(); is != 0 && !inMemory {
		t.Errorf("%v of the file is in the page cache before the page is asked for", is)
	}
	if err := trial.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := resident(); is != 1 {
		t.Errorf("the site has not read the file, of which %v is in the page cache", is)
	}
	if err := errors.Join(trial.Report(b), trial.Cleanup(b)); err != nil {
		t.Fatal(err)
	}
	if b.State["cache"] != "cold" || b.State["cold_files"] != "0" || b.State["cache_dropped_by"] != "drop_caches" {
		t.Errorf("%v", b.State)
	}
}

func TestColdSiteRefuses(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "http.cold")
	for want, given := range map[string]map[string]string{
		"which make the server cold":    {"url": "http://127.0.0.1:1/"},
		"which starts the server again": {"url": "http://127.0.0.1:1/", "stop": "a", "clear": "b"},
		"this is the measured page":     {"url": "http://127.0.0.1:1/", "restart": "a", "ready": "/"},
		"give a path on the server":     {"url": "http://127.0.0.1:1/", "restart": "a", "ready": "http://x/"},
		"no effect without proof-url":   {"url": "http://127.0.0.1:1/", "restart": "a", "proof-match": "x"},
		"match:":                        {"url": "http://127.0.0.1:1/", "restart": "a", "match": "("},
		"restart:":                      {"url": "http://127.0.0.1:1/", "restart": "a 'b", "shell": "none"},
		"is only for your own server":   {"restart": "a"},
		"only http://":                  {"url": "ftp://127.0.0.1:1/", "restart": "a"},
		"ca= is only for https":         {"url": "http://127.0.0.1:1/", "restart": "a", "ca": "/ca.pem"},
		"it is one of web, php":         {"url": "stack:@front", "restart": "systemctl restart apache2"},
		"it is site (the site's own":    {"url": "stack:@front", "clear": "yes"},
		"restart= also stops a stack":   {"url": "stack:@front", "restart": "web", "stop": "true"},
		"Varnish keeps its pages":       {"url": "stack-varnish:@front", "restart": "web"},
		"a page of a stack is stack:/":  {"url": "stack:", "restart": "web"},
		"is a secret":                   {"url": "http://127.0.0.1:1/", "restart": "a", "cookie": "a=b"},
		"no effect with " +
			"verify=status": {"url": "http://127.0.0.1:1/", "restart": "a", "mask": "x", "verify": "status"},
		"hook-timeout=0s: must be abov": {"url": "http://127.0.0.1:1/", "restart": "a", "hook-timeout": "0s"},
	} {
		p, err := k.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", given, err)
		}
	}
}
