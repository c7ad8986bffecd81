//go:build unix

package web

import (
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
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/command"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// coldSiteTrial fetches the first page of the user's server, which hooks make cold each time.
type coldSiteTrial struct {
	*coldSite
	to                               page
	page, ready, proof               []byte // requests
	files                            []string
	buf                              []byte
	res                              response
	body                             keeper
	digest                           string
	length                           int64
	first, connected, begun, started []float64 // seconds
	how                              string
}

// Setup makes the requests and finds the files. The server is made cold once, so that hooks that fail are found now.
func (t *coldSiteTrial) Setup(ctx context.Context, b *workload.Bench) error {
	if err := t.prepare(); err != nil {
		return &record.Failure{Kind: "refused", Message: fmt.Sprintf("http.cold: %v", err)}
	}
	t.buf, t.res = make([]byte, receive), newResponse()
	for _, s := range []*[]float64{&t.first, &t.connected, &t.begun, &t.started} {
		*s = make([]float64, 0, b.Work+1)
	}
	b.Note("cache", t.params["cache"])
	b.Note("cold_files", fmt.Sprint(len(t.files)))
	return nil
}

func (t *coldSiteTrial) prepare() error {
	hosts, _ := os.ReadFile("/etc/hosts")
	var err error
	t.to, err = parseURL(t.params["url"], func(host string) (netip.Addr, bool) { return lookup(host, string(hosts)) })
	if err != nil {
		return err
	}
	cookie, err := secret("cookie", t.params["cookie"])
	if err != nil {
		return err
	}
	headers, err := secret("header", t.params["header"])
	if err != nil {
		return err
	}
	for path, request := range map[string]*[]byte{t.to.path: &t.page, t.params["ready"]: &t.ready,
		t.params["proof-url"]: &t.proof} {
		to := t.to
		if to.path = path; path == "" {
			continue
		}
		if *request, err = to.render(false, cookie, headers); err != nil {
			return err
		}
	}
	return t.find()
}

// maxFiles bounds the files whose pages are looked at.
const maxFiles = 200_000

// find lists the files that must not be resident.
func (t *coldSiteTrial) find() error {
	if t.params["files"] == "" || t.params["cache"] != cacheCold {
		return nil
	}
	for name := range strings.SplitSeq(t.params["files"], ",") {
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
		return fmt.Errorf("files=%s: there is no file that has anything in it", t.params["files"])
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
		if err := t.ask(); err != nil {
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
	t.started = append(t.started, time.Since(began).Seconds())
	return nil
}

func (t *coldSiteTrial) hook(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil || t.params[name] == "" {
		return err
	}
	return command.Hook(ctx, name, t.params["shell"], t.params[name], t.params.Duration("hook-timeout"))
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
		err := t.answers(t.ready, int(t.params.Int("ready-status")), t.coldSite.ready, time.Until(until))
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
func (t *coldSiteTrial) answers(request []byte, status int, match *regexp.Regexp, within time.Duration) error {
	if request == nil {
		return listens(t.to.addr, within)
	}
	x, err := t.fetch(request, min(within, t.params.Duration("timeout")))
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

// beginning is what a body begins with, for a message.
func beginning(body []byte) string {
	return proc.Line(string(body[:min(len(body), 80)]))
}

func (t *coldSiteTrial) fetch(request []byte, within time.Duration) (exchange, error) {
	t.body.reset(true)
	return fetch(t.to.addr, request, within, t.buf, &t.res, t.body.take)
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
	if err := t.answers(t.proof, 200, t.coldSite.proof, t.params.Duration("timeout")); err != nil {
		return &record.Failure{Kind: "cache-state", Message: fmt.Sprintf("the server is not shown to be cold: %s: %v",
			t.params["proof-url"], err)}
	}
	return nil
}

// ask fetches the page and compares it.
func (t *coldSiteTrial) ask() error {
	x, err := t.fetch(t.page, t.params.Duration("timeout"))
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
			return fmt.Errorf("the page is another one than before, %s instead of %s: hide what differs each time "+
				"with "+
				"mask=, or use verify=status", unit.Plural(x.body, "byte"), unit.Plural(t.length, "byte"))
		}
		t.digest, t.length = digest, x.body
	}
	t.first = append(t.first, x.done.Seconds())
	t.connected = append(t.connected, x.connected.Seconds())
	t.begun = append(t.begun, x.first.Seconds())
	return nil
}

// Report reports means: each page is a sample of its own.
func (t *coldSiteTrial) Report(b *workload.Bench) error {
	b.Report("first_seconds", mean(t.first))
	b.Sample("first_seconds", t.first)
	b.Report("connect_seconds", mean(t.connected))
	b.Report("first_byte_seconds", mean(t.begun))
	b.Report("restart_seconds", mean(t.started))
	if t.digest != "" {
		b.Check("page", t.digest)
	}
	if t.how != "" {
		b.Note("cache_dropped_by", t.how)
	}
	return nil
}

// Cleanup does nothing: the server is the user's, and stays as the hooks left it.
func (t *coldSiteTrial) Cleanup(*workload.Bench) error { return nil }
