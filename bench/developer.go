package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The files that fs.smallfiles and the loop in C take through their life.
const (
	loopFiles = 1000
	loopDirs  = 10
	loopSize  = 4096
)

// developerRows compare work on many small files with loops of the same system calls in C.
func developerRows() []row {
	return []row{
		{
			name: "smallfiles", what: "1000 files of 4 KiB in 10 directories: create and write, stat, open and " +
				"read, rename, unlink", peer: "C loop (gcc -O2)",
			programs: []string{"gcc"}, open: openSmallFiles,
			figures: []figure{
				{name: "create", unit: "files/s", goal: 0.95}, {name: "stat", unit: "files/s", goal: 0.95},
				{name: "read", unit: "files/s", goal: 0.95},
				{name: "rename", unit: "files/s", goal: 0.95}, {name: "unlink", unit: "files/s", goal: 0.95},
			},
		},
		{
			name: "status", what: "lstat of 4096 files by their paths in an index, compared with it",
			peer:     "C loop (gcc -O2)",
			programs: []string{"gcc"}, open: openStatus,
			figures: []figure{{unit: "paths/s", goal: 0.95}},
		},
	}
}

// loop compiles the peer and returns its path.
func (b *bench) loop(ctx context.Context) (string, error) {
	source, out := filepath.Join(b.dir, "loop.c"), filepath.Join(b.dir, "loop")
	if err := os.WriteFile(source, []byte(loopSource), 0o600); err != nil {
		return "", fmt.Errorf("write the loop in C: %w", err)
	}
	if _, err := program(ctx, "gcc", "-O2", "-Wall", "-o", out, source); err != nil {
		return "", fmt.Errorf("compile the loop in C: %w", err)
	}
	return out, nil
}

func openSmallFiles(ctx context.Context, b *bench) (_ *contest, err error) {
	loop, err := b.loop(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "loop-")
	if err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, "fs.smallfiles", map[string]string{"files": strconv.Itoa(loopFiles),
		"dirs": strconv.Itoa(loopDirs), "size": strconv.Itoa(loopSize)})
	if err != nil {
		return nil, err
	}
	w.work = roundUp(w.work, loopFiles)
	argv := []string{loop, "smallfiles", dir, strconv.Itoa(loopFiles), strconv.Itoa(loopDirs), strconv.Itoa(loopSize),
		strconv.FormatInt(w.work/loopFiles, 10)}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			o, err := w.run(ctx)
			var got []float64
			for _, phase := range []string{"create", "stat", "read", "rename", "unlink"} {
				got = append(got, o.Result.Metrics[phase+"_per_second"])
			}
			return got, err
		},
		peer: loopPeer(argv, 5),
		notes: []string{w.note("files"), "C: `loop smallfiles DIR " + strings.Join(argv[3:], " ") +
			"`, compiled by `gcc -O2` from bench/developer_loop.go, in a directory beside tare's",
			"both work relative to an open directory, by names made beforehand, and see of each file that it is the " +
				"right one"},
		after: w.doubts,
		close: w.close,
	}, nil
}

func openStatus(ctx context.Context, b *bench) (_ *contest, err error) {
	loop, err := b.loop(ctx)
	if err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, "dev.status", nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	trees, err := filepath.Glob(filepath.Join(b.dir, "host-*", "*", "*", "tree"))
	if err == nil && len(trees) != 1 {
		err = fmt.Errorf("there are %d of them", len(trees))
	}
	if err != nil {
		return nil, fmt.Errorf("find the tree that tare prepared: %w", err)
	}
	list := filepath.Join(b.dir, "index")
	if err := writeIndex(trees[0], list); err != nil {
		return nil, fmt.Errorf("list the tree that tare prepared: %w", err)
	}
	argv := []string{loop, "status", trees[0], list, strconv.FormatInt(w.work, 10)}
	return &contest{
		tare: w.metric("paths_per_second"),
		peer: loopPeer(argv, 1),
		notes: []string{w.note("paths"), "C: `loop status TREE INDEX " + argv[4] +
			"`, compiled by `gcc -O2` from bench/developer_loop.go, over the same tree"},
		after: w.doubts,
		close: w.close,
	}, nil
}

// writeIndex writes the paths of all files below dir, sorted, one a line.
func writeIndex(dir, list string) error {
	var paths []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			at, err = filepath.Rel(dir, at)
			paths = append(paths, at)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(paths)
	return os.WriteFile(list, []byte(strings.Join(paths, "\n")+"\n"), 0o600)
}

// loopPeer is a side that runs the loop in C and reads as many figures, one a line.
func loopPeer(argv []string, figures int) side {
	return func(ctx context.Context) ([]float64, error) {
		out, err := program(ctx, argv...)
		if err != nil {
			return nil, err
		}
		return parseLoop(string(out), figures)
	}
}

// parseLoop reads rates, one a line.
func parseLoop(out string, figures int) ([]float64, error) {
	lines := strings.Fields(out)
	if len(lines) != figures {
		return nil, fmt.Errorf("read what the loop printed: %d figures where %d are due", len(lines), figures)
	}
	got := make([]float64, figures)
	for i, l := range lines {
		v, err := strconv.ParseFloat(l, 64)
		if err != nil || !(v > 0) || v > 1e12 {
			return nil, fmt.Errorf("read what the loop printed: %.40q is no rate", l)
		}
		got[i] = v
	}
	return got, nil
}
