//go:build unix

package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/unit"
)

// coldTrial fetches the first page of a server, and restarts the server each time.
type coldTrial struct {
	params  workload.Params
	nginx   *nginx
	request []byte
	buf     []byte
	res     response
	phases  phases
	server  time.Duration
	unknown bool // the server's CPU time
	how     string
}

func newCold(p workload.Params) (workload.Trial, error) {
	if p.Duration("timeout") <= 0 {
		return nil, fmt.Errorf("http.cold: timeout=%s: must be above 0s", p["timeout"])
	}
	if p["url"] != "" {
		c, err := newColdSite(p)
		if err != nil {
			return nil, fmt.Errorf("http.cold: %w", err)
		}
		return &coldSiteTrial{coldSite: c}, nil
	}
	if err := nginxOnly(p); err != nil {
		return nil, fmt.Errorf("http.cold: %w", err)
	}
	return &coldTrial{params: p}, nil
}

// Setup makes the page. A server is started once, so that the first unit need not read its files from a disk.
func (t *coldTrial) Setup(ctx context.Context, b *workload.Bench) error {
	n, err := findNginx(ctx)
	if err != nil {
		return err
	}
	t.nginx = n
	if err := n.furnish(b, t.params.Int("size")); err != nil {
		return err
	}
	if _, on := fileio.Volume(n.page); t.params["cache"] == cacheCold && (on == "tmpfs" || on == "ramfs") {
		return uncold("%s keeps its files in the page cache, so they are never cold", on)
	}
	to := page{host: "localhost", path: pagePath}
	if t.request, err = to.render(false, "", ""); err != nil {
		return err
	}
	t.buf, t.res = make([]byte, receive), newResponse()
	if err := n.start(ctx); err != nil {
		return err
	}
	b.Note("server", n.version)
	b.Note("cache", t.params["cache"])
	b.Check("page", fmt.Sprintf("%s %s", unit.Plural(n.size, "byte"), n.digest[:32]))
	return nil
}

func uncold(format string, args ...any) error {
	return &record.Failure{Kind: "cache-state", Message: "http.cold: reach cache=cold: " +
		fmt.Sprintf(format, args...) + "; use cache=warm, or a work directory on a disk"}
}

// Measure restarts the server and asks it, as often as there is work.
func (t *coldTrial) Measure(ctx context.Context, b *workload.Bench) error {
	for range b.Work {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.restart(ctx); err != nil {
			return err
		}
		if err := t.ask(); err != nil {
			return err
		}
	}
	return nil
}

func (t *coldTrial) restart(ctx context.Context) error {
	t.nginx.stop()
	if t.params["cache"] == cacheCold {
		if err := t.drop(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := t.nginx.start(ctx); err != nil {
		return err
	}
	t.phases.started = append(t.phases.started, time.Since(began).Seconds())
	return nil
}

// drop drops the page from the environment's page cache. It also drops those pages of the server's program that no
// process uses, without checking.
func (t *coldTrial) drop(ctx context.Context) error {
	_ = advise(t.nginx.program)
	last := 0.0
	for try := range 8 {
		how := "posix_fadvise"
		if try > 0 {
			// A page that was sent from the cache stays there as long as a network buffer refers to it, which an idle
			// processor may free late. A new file has not been sent yet.
			if err := t.nginx.renew(); err != nil {
				return err
			}
		}
		if err := advise(t.nginx.page); err != nil {
			return uncold("drop %s: %v", t.nginx.page, err)
		}
		// A stacked or network file system keeps copies that posix_fadvise on its own files does not drop.
		if try > 3 && dropAll() == nil {
			how = "drop_caches"
		}
		left, err := fileio.Resident(t.nginx.page)
		if err != nil {
			return uncold("the system does not report how much of %s is in its page cache: %v", t.nginx.page, err)
		}
		if last = left; left == 0 {
			t.how = how
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond << try):
		}
	}
	return uncold("%.1f %% of %s is still in the page cache after it was dropped", 100*last, t.nginx.page)
}

// advise asks the kernel to drop a file's pages.
func advise(path string) error {
	h, err := fileio.Open(path, fileio.Mode{})
	if err != nil {
		return err
	}
	return errors.Join(h.DropCache(), h.Close())
}

// dropAll drops the clean pages, names and attributes of the whole system. It needs root and a writable /proc.
func dropAll() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0) }

// ask fetches the page and compares it.
func (t *coldTrial) ask() error {
	h := sha256.New()
	before, known := t.nginx.cpu()
	x, err := fetch(t.nginx.addr, t.request, t.params.Duration("timeout"), t.buf, &t.res, func(p []byte) { h.Write(p) })
	if err != nil {
		return t.nginx.failed("measure", fmt.Errorf("http.cold: %w", err))
	}
	after, stillKnown := t.nginx.cpu()
	t.server += after - before
	t.unknown = t.unknown || !known || !stillKnown
	if x.status != 200 {
		return t.nginx.failed("measure", fmt.Errorf("http.cold: %w",
			wrong(x.status, 200, x.body, t.nginx.size, x.location)))
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != t.nginx.digest {
		return t.nginx.failed("measure",
			fmt.Errorf("http.cold: the response is not the page: %s with the SHA-256 %.16s instead of %s with %.16s",
				unit.Plural(x.body, "byte"), sum, unit.Plural(t.nginx.size, "byte"), t.nginx.digest))
	}
	t.phases.add(0, x)
	return nil
}

// Report reports the phases.
func (t *coldTrial) Report(b *workload.Bench) error {
	t.phases.report(b)
	if !t.unknown {
		b.Report("server_cpu_us", float64(t.server.Nanoseconds())/1e3/float64(len(t.phases.done)))
	}
	if t.how != "" {
		b.Note("cache_dropped_by", t.how)
	}
	return nil
}

// Cleanup ends the server.
func (t *coldTrial) Cleanup(*workload.Bench) error {
	if t.nginx == nil {
		return nil
	}
	t.nginx.stop()
	return t.nginx.remove()
}
