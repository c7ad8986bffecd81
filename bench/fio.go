package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
)

// The file that is read.
const (
	fioSize   = 64 << 20
	fioRecord = 4 << 10
	fioPass   = fioSize / fioRecord // reads of one pass
)

// openFio compares random reads with fio's, which also touches each record once a pass.
func openFio(direct bool) func(context.Context, *bench) (*contest, error) {
	return openRandread(map[string]string{"direct": map[bool]string{true: "yes", false: "no"}[direct]},
		func(_ context.Context, b *bench, w *weighing, file string) (*contest, error) {
			argv := fioArgv(b, file, w.work, direct)
			return &contest{
				tare: fioTare(w, direct),
				peer: fioPeer(argv, w.work, direct),
				notes: []string{w.note("reads"), "fio: `" + strings.ReplaceAll(strings.Join(argv, " "), file, "FILE") +
					"`, where FILE is the one that tare reads"},
			}, nil
		})
}

// openRandread prepares tare's random reads, whole passes of them, with more of their parameters, and has the other
// side made for the same file: the same blocks on the disk, the same pages in the cache.
func openRandread(more map[string]string, against func(ctx context.Context, b *bench, w *weighing,
	file string) (*contest, error)) func(context.Context, *bench) (*contest, error) {
	return func(ctx context.Context, b *bench) (_ *contest, err error) {
		params := map[string]string{"size": "64MiB", "bs": "4KiB"}
		maps.Copy(params, more)
		w, err := b.weigh(ctx, "fs.randread", params)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, w.close())
			}
		}()
		w.work = roundUp(w.work, fioPass)
		file, err := w.file(b)
		if err != nil {
			return nil, err
		}
		c, err := against(ctx, b, w, file)
		if err != nil {
			return nil, err
		}
		after := c.after
		c.after = func() []string {
			said := w.doubts()
			if after != nil {
				said = append(said, after()...)
			}
			return said
		}
		c.close = w.close
		return c, nil
	}
}

// file is the one that tare prepared.
func (w *weighing) file(b *bench) (string, error) {
	files, err := filepath.Glob(filepath.Join(b.dir, "host-*", "*", "*", "records"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("there are %d of them", len(files))
	}
	if err != nil {
		return "", fmt.Errorf("find the file that tare prepared: %w", err)
	}
	return files[0], nil
}

func fioArgv(b *bench, file string, work int64, direct bool) []string {
	argv := []string{"fio", "--name=bench", "--filename=" + file, "--size=64M", "--bs=4k", "--rw=randread",
		"--ioengine=psync",
		fmt.Sprintf("--randseed=%d", b.seed), fmt.Sprintf("--loops=%d", work/fioPass), "--output-format=json"}
	if direct {
		return append(argv, "--direct=1")
	}
	return append(argv, "--invalidate=0")
}

// period is a side that gives the time of one read.
func (w *weighing) period(ctx context.Context) ([]float64, error) {
	got, err := w.metric("ops_per_second")(ctx)
	if err != nil {
		return nil, err
	}
	return []float64{1 / got[0]}, nil
}

func fioTare(w *weighing, direct bool) side {
	rate := w.metric("ops_per_second")
	if direct {
		return rate
	}
	return func(ctx context.Context) ([]float64, error) {
		got, err := rate(ctx)
		if err != nil {
			return nil, err
		}
		return []float64{got[0], 1 / got[0]}, nil
	}
}

func fioPeer(argv []string, work int64, direct bool) side {
	return func(ctx context.Context) ([]float64, error) {
		out, err := program(ctx, argv...)
		if err != nil {
			return nil, err
		}
		r, err := parseFio(out)
		if err != nil {
			return nil, err
		}
		if r.TotalIOs != work {
			return nil, fmt.Errorf("fio did %d reads where %d were asked for: the work is not the same", r.TotalIOs,
				work)
		}
		if direct {
			return []float64{r.IOPS}, nil
		}
		return []float64{r.IOPS, r.Latency.Mean / 1e9}, nil
	}
}

// fioRead is what fio says of a job's reads, or of its writes.
type fioRead struct {
	IOPS     float64 `json:"iops"`
	TotalIOs int64   `json:"total_ios"`
	Latency  struct {
		Mean float64 `json:"mean"`
	} `json:"clat_ns"` // ns from submission to completion, by fio's clock
}

// parseFio reads what fio's JSON report of one job says of its reads.
func parseFio(out []byte) (fioRead, error) { return parseFioJob(out, false) }

// parseFioJob reads what fio's JSON report of one job says of its reads, or of its writes. Warnings may stand before
// it.
func parseFioJob(out []byte, writes bool) (fioRead, error) {
	var report struct {
		Jobs []struct {
			Error int     `json:"error"`
			Read  fioRead `json:"read"`
			Write fioRead `json:"write"`
		} `json:"jobs"`
	}
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return fioRead{}, errors.New("read fio's report: there is no JSON in it")
	}
	if err := json.NewDecoder(bytes.NewReader(out[at:])).Decode(&report); err != nil {
		return fioRead{}, fmt.Errorf("read fio's report: %w", err)
	}
	if len(report.Jobs) != 1 {
		return fioRead{}, fmt.Errorf("read fio's report: it tells of %d jobs instead of one", len(report.Jobs))
	}
	j := report.Jobs[0]
	if j.Error != 0 {
		return fioRead{}, fmt.Errorf("read fio's report: the job ended with error %d", j.Error)
	}
	r, what := j.Read, "reads"
	if writes {
		r, what = j.Write, "writes"
	}
	if r.IOPS <= 0 || r.Latency.Mean <= 0 {
		return fioRead{}, fmt.Errorf("read fio's report: it tells of no %s", what)
	}
	return r, nil
}
