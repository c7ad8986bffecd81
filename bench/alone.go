package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
)

// platforms are those that an agent is built for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64", "freebsd/amd64"}

// openSize builds the agent for all platforms. Sizes do not vary: every run gives the same.
func openSize(ctx context.Context, b *bench) (*contest, error) {
	var largest, packed float64
	var each []string
	for _, p := range platforms {
		goos, goarch, _ := strings.Cut(p, "/")
		path, err := b.buildAgent(ctx, goos, goarch)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		z, err := gzipped(path)
		if err != nil {
			return nil, fmt.Errorf("compress %s: %w", path, err)
		}
		size := float64(info.Size()) / 1e6
		largest, packed = max(largest, size), max(packed, z)
		each = append(each, fmt.Sprintf("%s %.1f (%.1f)", p, size, z))
	}
	return &contest{
		tare:  func(context.Context) ([]float64, error) { return []float64{largest, packed}, nil },
		notes: []string{"MB stripped (gzipped): " + strings.Join(each, ", ")},
	}, nil
}

// gzipped returns the size of a file after gzip -9, in MB.
func gzipped(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n counter
	z, err := gzip.NewWriterLevel(&n, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(z, f); err != nil {
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	return float64(n) / 1e6, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// openIdle has one agent serve a trial and then watches it while another agent's trial runs.
func openIdle(ctx context.Context, b *bench) (_ *contest, err error) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		return nil, missing{"this system does not tell a process's CPU time in /proc/PID/schedstat"}
	}
	w, err := b.weigh(ctx, "cpu.prime", map[string]string{"threads": "1"})
	if err != nil {
		return nil, err
	}
	idle, end, err := b.host(ctx)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	stop := func() error { return errors.Join(end(), w.close()) }
	if err := exercise(ctx, idle); err != nil {
		return nil, errors.Join(err, stop())
	}
	pid := idle.Hello().PID
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			before, err := onCPU(pid)
			if err != nil {
				return nil, err
			}
			began := time.Now()
			if _, err := w.run(ctx); err != nil {
				return nil, err
			}
			took := time.Since(began)
			after, err := onCPU(pid)
			if err != nil {
				return nil, err
			}
			resident, err := residentMB(pid)
			return []float64{resident, 100 * float64(after-before) / float64(took)}, err
		},
		notes: []string{w.note("events") + ", of the other agent"},
		after: w.doubts,
		close: stop,
	}, nil
}

// exercise has an agent do all it does in a run: tell facts, calibrate, one trial.
func exercise(ctx context.Context, s *deploy.Conn) error {
	if _, err := s.Facts(ctx); err != nil {
		return err
	}
	job := wire.Job{Kind: "fs.randread", Params: map[string]string{"size": "4MiB"}, Cell: "idle"}
	c, err := s.Calibrate(ctx, wire.Calibrate{Job: job, TargetNS: int64(50 * time.Millisecond)})
	if err != nil {
		return err
	}
	_, err = s.Run(ctx, wire.Run{Job: job, Work: c.Work})
	return err
}

// onCPU returns how long all threads of a process have run.
func onCPU(pid int) (total time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("process %d has no threads", pid)
	}
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		n, err := parseSchedstat(string(text))
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", f, err)
		}
		total += n
	}
	return total, nil
}

// parseSchedstat returns the first field of a schedstat file: the time on a CPU.
func parseSchedstat(text string) (time.Duration, error) {
	first, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d ns", n)
	}
	return time.Duration(n), err
}

// residentMB returns a process's resident memory.
func residentMB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	return parseStatm(string(text), os.Getpagesize())
}

// parseStatm returns the second field of a statm file, resident pages, in MB.
func parseStatm(text string, page int) (float64, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read statm: %.80q has too few fields", text)
	}
	n, err := strconv.ParseInt(fields[1], 10, 64)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d pages", n)
	}
	if err != nil {
		return 0, fmt.Errorf("read statm: %w", err)
	}
	return float64(n) * float64(page) / 1e6, nil
}
