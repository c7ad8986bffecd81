package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// opcache asks each PHP of a site whether its opcode cache is on. PHP answers false if it is off.
func opcache(t *testing.T, s *deploy.Conn, state map[string]string, want string) {
	t.Helper()
	page := state["stack_code"] + "/asked.php"
	envtest.Shell(t, s, `echo '<?php $s = opcache_get_status(false); echo $s && $s["opcache_enabled"] ? "on" : "off";' >`+
		page+" && for at in "+state["stack_apache"]+" "+state["stack_nginx"]+"; do "+
		"a=$(curl -sS -f --noproxy '*' http://$at/asked.php) && echo PHP at $at says $a && [ $a = "+want+" ] || "+
		"exit 1; done; rm "+page)
}

// used is the CPU time in s of a server in the state server_cpu.
func used(state map[string]string, name string) float64 {
	m := regexp.MustCompile(`(?:^|, )` + name + ` ([0-9.]+) s`).FindStringSubmatch(state["server_cpu"])
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return v
}

// refusedSite wants a load to fail with a message.
func refusedSite(t *testing.T, s *deploy.Conn, want string, job wire.Job, work int64) *record.Failure {
	t.Helper()
	job.Cell, job.Seed = "site", 42
	r, err := envtest.Work(t, s, job, work)
	f, ok := errors.AsType[*record.Failure](err)
	if !ok || !strings.Contains(f.Message, want) {
		t.Errorf("%s %v: %v, want %q", job.Kind, job.Params, err, want)
		return nil
	}
	if len(r.Metrics) > 0 { // nothing of which a ratio could be made
		t.Errorf("%s %v failed and has figures: %v", job.Kind, job.Params, r.Metrics)
	}
	return f
}

// TestSiteFaults: the CPU time of a site's servers, pages that are fast and wrong, and a database that is killed while
// the load runs.
func TestSiteFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a site has to be installed")
	}
	st := envtest.Stack(t, envtest.SmallStack)
	type given = map[string]string
	s := attachStack(t, options(t, spec("stack", envtest.SmallStack)), st)
	var state map[string]string
	for _, c := range []struct {
		url  string
		busy []string // what must have worked for the page
	}{
		{"stack:@front", []string{"apache", "database"}}, {"stack-nginx:@front", []string{"fpm", "database"}},
		{"stack-varnish:@front", nil},
	} {
		r, err := envtest.Load(t, s, "", "url", c.url)
		if err != nil {
			t.Fatalf("%s: %v", c.url, err)
		}
		state = r.State
		for _, name := range []string{"apache", "fpm", "nginx", "varnish", "database"} {
			if used(state, name) < 0 {
				t.Errorf("%s: server_cpu is %q", c.url, state["server_cpu"])
			}
		}
		for _, name := range c.busy {
			if used(state, name) <= 0 {
				t.Errorf("%s: %s has worked for it, and server_cpu is %q", c.url, name, state["server_cpu"])
			}
		}
		n, err := strconv.Atoi(state["server_processes"])
		if err != nil || n < 5 || !(r.Metrics["server_cpu_us"] > 0) {
			t.Errorf("%s: %s processes, %v", c.url, state["server_processes"], r.Metrics)
		}
	}

	// PHP prints an error with status 200 if it shows errors, and is done sooner than with the page.
	index := state["stack_code"] + "/index.php"
	restart := "/bin/bash /srv/tare-stack/stack.sh control " + state["stack_home"] + " restart php"
	envtest.Shell(t, s, "cp "+index+" /tmp/index.php && echo '<?php ini_set(\"display_errors\", \"1\"); "+
		"site_that_is_not_there();' >"+index+" && "+restart+" && "+
		"[ $(curl -s --noproxy '*' -o /tmp/page -w '%{http_code}' http://"+state["stack_apache"]+
		state["stack_front"]+") = 200 ] && grep -q 'Fatal error' /tmp/page")
	for _, job := range []wire.Job{
		{Kind: "http.get", Params: given{"url": "stack:@front", "verify": "status"}},
		{Kind: "http.load", Params: given{"url": "stack-nginx:@heavy", "verify": "status"}},
		{Kind: "http.cold", Params: given{"url": "stack:@front", "clear": "site", "cache": "warm"}},
	} {
		refusedSite(t, s, "matches", job, 4)
	}
	envtest.Shell(t, s, "cp /tmp/index.php "+index+" && "+restart)
	if _, err := envtest.Load(t, s, "", "url", "stack:@front"); err != nil {
		t.Fatalf("after the page was put back: %v", err)
	}

	// The database is killed once it has worked for the load for a while.
	killed := killBusy(t, "--datadir="+state["stack_home"]+"/data", 100*time.Millisecond)
	f := refusedSite(t, s, "", wire.Job{Kind: "http.load", Params: given{"url": "stack:@front", "verify": "status",
		"timeout": "2m"}}, 100_000)
	if f != nil && !strings.Contains(f.Message, "database has ended with status 137") &&
		!strings.Contains(f.Message, "the server answers 500") && !strings.Contains(f.Message, "match=") {
		t.Errorf("MariaDB killed under load: %+v", f)
	}
	if f != nil {
		t.Logf("MariaDB killed under load: %s: %s", f.Kind, f.Message)
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if _, err := envtest.Load(t, s, "", "url", "stack:@front"); err != nil {
		t.Errorf("after it was started again: %v", err)
	}
}

// killBusy kills the process that has a word in its command line, once it has used some CPU time from now on.
func killBusy(t *testing.T, word string, after time.Duration) <-chan error {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for _, f := range found {
		if line, err := os.ReadFile(f); err == nil && slices.Contains(strings.Split(string(line), "\x00"), word) {
			pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	began, ok := proc.CPUTime(pid)
	if pid == 0 || !ok {
		t.Fatalf("no process has %s in its command line", word)
	}
	done := make(chan error, 1)
	go func() {
		for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if now, ok := proc.CPUTime(pid); !ok || now-began >= after {
				done <- unix.Kill(pid, unix.SIGKILL)
				return
			}
		}
		done <- errors.New("the load does not reach the database")
	}()
	return done
}

// TestBrokenSite: a site that was broken after its installation is not served, and the reason is said.
func TestBrokenSite(t *testing.T) {
	if testing.Short() {
		t.Skip("a site has to be installed")
	}
	st := envtest.Stack(t, envtest.SmallStack)
	for want, line := range map[string]string{
		// PHP's own error, which a server hides from its visitors, is in the log.
		"syntax error": "echo '<?php this is no settings' >LocalSettings.php",
		// The page comes, and is another one.
		"does not contain 'This page is part of a test site'": "echo '<?php echo \"Welcome to nginx\";' >index.php",
		"cannot read": "chmod 600 index.php",
	} {
		s := attachStack(t, options(t, spec("stack", envtest.SmallStack)), st)
		envtest.Shell(t, s, "cd /srv/tare-stack/site/code && "+line+" && sleep 0.5") // longer than a shell's start
		f := refusedSite(t, s, want, wire.Job{Kind: "http.get", Params: map[string]string{"url": "stack:@front",
			"verify": "status"}}, 4)
		if f != nil {
			t.Logf("%s: %s", line, f.Message)
		}
		s.Close()
	}
}
