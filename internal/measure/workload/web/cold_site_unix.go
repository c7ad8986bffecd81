//go:build unix

package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/command"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// coldSiteTrial fetches the first page of the user's server or of a stack, which hooks make cold each time.
type coldSiteTrial struct {
	*coldSite
	server
	page, ready, proof []byte         // requests
	emptying           []byte         // a request that has PHP empty its caches
	prover             netip.AddrPort // where the proof is asked for
	script             string         // a file beside the stack's code, which proves
	files              []string
	buf                []byte
	res                response
	body               keeper
	digest             string
	length             int64
	phases             phases
	tls                string
	how                string
}

// Setup makes the requests and finds the files.
func (t *coldSiteTrial) Setup(ctx context.Context, b *workload.Bench) error {
	if err := t.prepare(ctx, b); err != nil {
		if f, ok := errors.AsType[*record.Failure](err); ok {
			return f
		}
		return &record.Failure{Kind: "refused", Message: fmt.Sprintf("http.cold: %v", err)}
	}
	t.buf, t.res = make([]byte, receive), newResponse()
	b.Note("cache", t.params["cache"])
	b.Note("cold_files", fmt.Sprint(len(t.files)))
	return nil
}

func (t *coldSiteTrial) prepare(ctx context.Context, b *workload.Bench) (err error) {
	if t.server, err = findServer(ctx, b, t.params); err != nil {
		return err
	}
	t.prover = t.to.addr
	for path, request := range map[string]*[]byte{t.to.path: &t.page, t.params["ready"]: &t.ready,
		t.params["proof-url"]: &t.proof} {
		to := t.to
		if to.path = path; path == "" {
			continue
		}
		if *request, err = to.render(false, t.cookie, t.headers); err != nil {
			return err
		}
	}
	if err = t.find(); err == nil && t.site != nil {
		err = t.know()
	}
	return err
}

// countScripts is a page that says how many scripts PHP's opcode cache has, and empties PHP's caches if it is asked to.
const countScripts = `<?php
if (isset($_GET['empty'])) {
	foreach (['opcache_reset', 'apcu_clear_cache'] as $f) if (function_exists($f)) $f();
	exit('emptied');
}
$s = function_exists('opcache_get_status') ? opcache_get_status() : false;
echo $s ? count($s['scripts'] ?? []) : 'no', ' scripts';
`

// know adds what is known of a stack: what its pages contain, and how to see that PHP's opcode cache is empty. That is
// after a restart of what PHP runs in, which is Apache itself, and a process of its own behind nginx; and once it was
// emptied.
func (t *coldSiteTrial) know() error {
	if t.coldSite.page == nil {
		t.coldSite.page = patternOf(t.site, t.params)
	}
	nginx := strings.HasPrefix(t.params["url"], "stack-nginx:")
	restart, empty := t.params["restart"], t.params["clear"] == clearAll
	if !empty && restart != "php" && restart != "all" && (restart != "web" || nginx) {
		return nil
	}
	to, err := siteOf(t.site, map[bool]string{true: "stack-nginx:/", false: "stack:/"}[nginx]+"tare-opcode.php")
	if err != nil {
		return err
	}
	t.script = filepath.Join(t.site["code"], "tare-opcode.php")
	if err := os.WriteFile(t.script, []byte(countScripts), 0o644); err != nil {
		return err
	}
	t.prover, t.coldSite.proof = to.addr, regexp.MustCompile("^(no|0|1) scripts$") // itself
	if t.proof, err = to.render(false, "", ""); err == nil && empty {
		to.path += "?empty"
		t.emptying, err = to.render(false, "", "")
	}
	return err
}

// emptied is the answer of countScripts when it has emptied the caches.
var emptied = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^emptied$") })

// maxFiles bounds the files whose pages are looked at.
const maxFiles = 200_000

// find lists the files that must not be resident.
func (t *coldSiteTrial) find() error {
	files := t.params["files"]
	if files == "" {
		files = t.site["code"]
	}
	if files == "" || t.params["cache"] != cacheCold {
		return nil
	}
	for name := range strings.SplitSeq(files, ",") {
		err := filepath.WalkDir(strings.TrimSpace(name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if st, err := d.Info(); err != nil || st.Size() == 0 {
				return err
			}
			if t.files = append(t.files, path); len(t.files) > maxFiles {
				return fmt.Errorf("there are more than %d", maxFiles)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	if len(t.files) == 0 {
		return fmt.Errorf("files=%s: all files there are empty, or there are none", files)
	}
	if _, on := fileio.Volume(t.files[0]); on == "tmpfs" || on == "ramfs" {
		return uncold("%s keeps its files in the page cache, so they are never cold", on)
	}
	return nil
}

// Measure makes the server cold and asks it, as often as there is work.
func (t *coldSiteTrial) Measure(ctx context.Context, b *workload.Bench) error {
	for n := range b.Work {
		if err := t.chill(ctx); err != nil {
			return t.failed(n, err)
		}
		if err := t.prove(ctx); err != nil {
			return t.failed(n, err)
		}
		if err := t.ask(ctx); err != nil {
			return t.failed(n, err)
		}
	}
	return nil
}

// failed says which page failed.
func (t *coldSiteTrial) failed(n int64, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if f, ok := errors.AsType[*record.Failure](err); ok {
		f.Message = fmt.Sprintf("http.cold, page %d: %s", n+1, strings.TrimPrefix(f.Message, "http.cold: "))
		return f
	}
	return &record.Failure{Kind: "measure", Message: fmt.Sprintf("http.cold, page %d: %v", n+1, err)}
}

// chill runs the hooks, drops the files, and waits until the server is ready.
func (t *coldSiteTrial) chill(ctx context.Context) error {
	for _, name := range []string{"stop", "clear"} {
		if err := t.hook(ctx, name); err != nil {
			return err
		}
	}
	if t.emptying != nil {
		err := t.answers(t.prover, t.emptying, 200, emptied(), t.params.Duration("timeout"))
		if err != nil {
			return fmt.Errorf("empty PHP's caches: %w", err)
		}
	}
	if t.params["cache"] == cacheCold {
		if err := t.drop(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := t.hook(ctx, "restart"); err != nil {
		return err
	}
	if err := t.await(ctx); err != nil {
		return err
	}
	t.phases.started = append(t.phases.started, time.Since(began).Seconds())
	return nil
}

func (t *coldSiteTrial) hook(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil || t.params[name] == "" {
		return err
	}
	if t.site != nil && name != "proof" {
		return t.control(ctx, name)
	}
	return command.Hook(ctx, name, t.params["shell"], t.params[name], t.params.Duration("hook-timeout"))
}

// control has the stack do something by itself.
func (t *coldSiteTrial) control(ctx context.Context, name string) error {
	what := name
	if name == "restart" {
		what += " " + t.params[name]
	}
	within, cancel := context.WithTimeout(ctx, t.params.Duration("hook-timeout"))
	defer cancel()
	err := t.site.Control(within, what)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return fmt.Errorf("the stack's %s did not end within %s", what, t.params["hook-timeout"])
	case err != nil:
		return fmt.Errorf("the stack's %s: %w", what, err)
	}
	return nil
}

// drop drops the files from the environment's page cache, or all of it.
func (t *coldSiteTrial) drop(ctx context.Context) error {
	if len(t.files) == 0 {
		if err := dropAll(); err != nil {
			return uncold("drop the page cache: %v; name the files with files=", err)
		}
		t.how = "drop_caches"
		return nil
	}
	t.how = "posix_fadvise"
	for try := range 8 {
		for _, path := range t.files {
			if err := advise(path); err != nil {
				return uncold("drop %s: %v", path, err)
			}
		}
		// A stacked or network file system keeps copies that posix_fadvise on its own files does not drop.
		if try > 2 && dropAll() == nil {
			t.how = "drop_caches"
		}
		path, _, err := t.resident()
		if err != nil || path == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond << try):
		}
	}
	return t.notResident("after it was dropped")
}

// resident finds a file that is in the page cache, and how much of it is.
func (t *coldSiteTrial) resident() (path string, share float64, err error) {
	for _, path := range t.files {
		share, err := fileio.Resident(path)
		if err != nil {
			return "", 0, uncold("the system does not report how much of %s is in its page cache: %v", path, err)
		}
		if share > 0 {
			return path, share, nil
		}
	}
	return "", 0, nil
}

func (t *coldSiteTrial) notResident(when string) error {
	path, share, err := t.resident()
	if err != nil || path == "" {
		return err
	}
	return uncold("%.1f %% of %s is in the page cache %s", 100*share, path, when)
}

// await waits until the server is ready.
func (t *coldSiteTrial) await(ctx context.Context) error {
	until := time.Now().Add(t.params.Duration("ready-timeout"))
	var last error
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := t.answers(t.to.addr, t.ready, int(t.params.Int("ready-status")), t.coldSite.ready, time.Until(until))
		if err == nil {
			return nil
		}
		if last == nil || !errors.Is(err, errTimeout) { // the last try may have had no time left
			last = err
		}
		if time.Now().Add(pause).After(until) {
			return fmt.Errorf("the server was not ready within %v: %w", t.params.Duration("ready-timeout"), last)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// answers tells whether the server takes a connection, or answers a request as it should.
func (t *coldSiteTrial) answers(at netip.AddrPort, request []byte, status int, match *regexp.Regexp,
	within time.Duration) error {
	if request == nil {
		return listens(at, within)
	}
	x, err := t.fetch(at, request, min(within, t.params.Duration("timeout")))
	if err != nil {
		return err
	}
	return t.matches(x, status, match)
}

// matches tells whether the answer that has just come is as it should be.
func (t *coldSiteTrial) matches(x exchange, status int, match *regexp.Regexp) error {
	switch {
	case x.status != status:
		return fmt.Errorf("it answers %d instead of %d", x.status, status)
	case t.body.over:
		return errKept
	case match != nil && !match.Match(t.body.body):
		return fmt.Errorf("its answer of %s has nothing that %s matches: it begins with %q",
			unit.Plural(x.body, "byte"), match, beginning(t.body.body))
	}
	return nil
}

// beginning is the beginning of a body, for a message.
func beginning(body []byte) string {
	return proc.Line(string(body[:min(len(body), 80)]))
}

func (t *coldSiteTrial) fetch(at netip.AddrPort, request []byte, within time.Duration) (exchange, error) {
	t.body.reset(true)
	return fetchOver(t.seal, at, request, within, t.buf, &t.res, t.body.take)
}

// prove proves that the server is cold.
func (t *coldSiteTrial) prove(ctx context.Context) error {
	if err := t.notResident("before the page was asked for; does the server read it when it starts?"); err != nil {
		return err
	}
	if err := t.hook(ctx, "proof"); err != nil {
		return err
	}
	if t.proof == nil {
		return nil
	}
	if err := t.answers(t.prover, t.proof, 200, t.coldSite.proof, t.params.Duration("timeout")); err != nil {
		return &record.Failure{Kind: "cache-state", Message: fmt.Sprintf("the server may not be cold: %s: %v",
			cmp.Or(t.params["proof-url"], "PHP's opcode cache"), err)}
	}
	return nil
}

// ask fetches the page and compares it.
func (t *coldSiteTrial) ask(ctx context.Context) error {
	found, err := t.look(ctx)
	if err != nil {
		return err
	}
	x, err := t.fetch(t.to.addr, t.page, t.params.Duration("timeout"))
	if err != nil {
		return err
	}
	if status := int(t.params.Int("expect_status")); x.status != status {
		return wrong(x.status, status, x.body, x.body, x.location)
	}
	if err := t.matches(x, x.status, t.coldSite.page); err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	if t.params["verify"] == verifyBody {
		body := t.body.body
		if t.mask != nil {
			body = t.mask.ReplaceAllLiteral(body, []byte{maskToken})
		}
		sum := sha256.Sum256(leaveOut(nil, body))
		digest := hex.EncodeToString(sum[:16])
		if t.digest != "" && digest != t.digest {
			return fmt.Errorf("the page differs from the first one (%s; first: %s): hide what changes each time "+
				"with mask=, or use verify=status", unit.Plural(x.body, "byte"), unit.Plural(t.length, "byte"))
		}
		t.digest, t.length = digest, x.body
	}
	t.phases.add(found, x)
	t.tls = x.tls
	return nil
}

// look looks up the server's name, if it has one, and returns how long that took.
func (t *coldSiteTrial) look(ctx context.Context) (time.Duration, error) {
	if t.name == "" {
		return 0, nil
	}
	within, cancel := context.WithTimeout(ctx, t.params.Duration("timeout"))
	defer cancel()
	began := time.Now()
	a, err := address(within, t.name)
	took := time.Since(began)
	if err == nil {
		t.to.addr = netip.AddrPortFrom(a, t.to.addr.Port())
	}
	return took, err
}

// Report reports the phases.
func (t *coldSiteTrial) Report(b *workload.Bench) error {
	t.phases.report(b)
	if t.name != "" {
		b.Report("dns_seconds", mean(t.phases.found))
	}
	if t.seal != nil {
		b.Report("tls_seconds", mean(t.phases.sealed))
		b.Note("tls", t.tls)
	}
	if t.script != "" {
		b.Note("opcode_cache", "empty before each page")
	}
	if t.digest != "" {
		b.Check("page", t.digest)
	}
	if t.how != "" {
		b.Note("cache_dropped_by", t.how)
	}
	return nil
}

// Cleanup removes what was put beside a stack's code. The server stays as the hooks left it.
func (t *coldSiteTrial) Cleanup(*workload.Bench) error {
	if t.script == "" {
		return nil
	}
	return os.Remove(t.script)
}
