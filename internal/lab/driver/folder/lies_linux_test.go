package folder_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/diskimage/disktest"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/proc"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// need skips a test if something is missing, or fails it if TARE_REQUIRE is set.
func need(t *testing.T, ok bool, why string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := proc.Run(context.WithoutCancel(t.Context()), nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// liar mounts a file system that reports 300 MiB but can store only 40.
func liar(t *testing.T) string {
	t.Helper()
	need(t, os.Geteuid() == 0, "mounting needs root")
	for _, p := range []string{"mke2fs", "mount", "umount"} {
		_, err := proc.LookPath(p)
		need(t, err == nil, p+" is not installed")
	}
	store, dir := t.TempDir(), t.TempDir()
	if err := unix.Mount("tare-test", store, "tmpfs", 0, "size=40m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run(t, "umount", store) })
	image := filepath.Join(store, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 300<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-E", "nodiscard", image)
	loop := disktest.Loop(t, image)
	run(t, "mount", loop, dir)
	t.Cleanup(func() { run(t, "umount", dir) }) // fails while a file is open there
	return dir
}

func write(t *testing.T, s *deploy.Conn, root string) error {
	t.Helper()
	kind, ok := all.Lookup("fs.seqwrite")
	if !ok {
		t.Fatal("there is no fs.seqwrite")
	}
	params, err := kind.Resolve(map[string]string{"size": "128MiB", "bs": "1MiB", "fsync": "end"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "c", Seed: 1, Root: root},
		Work: 128})
	if err == nil && got.Result.Error != nil {
		return got.Result.Error
	}
	return err
}

// A folder may have less space than it reports: a thin disk on a full store, or a quota of the server. Data written
// beyond that is lost, and the trial must not count it.
func TestFolderThatLiesAboutItsSize(t *testing.T) {
	dir, honest := liar(t), t.TempDir()
	stream, err := proc.Start(proc.Command(t.Context(), agenttest.Build(t, runtime.GOOS, runtime.GOARCH), "agent",
		"--dir", honest))
	if err != nil {
		t.Fatal(err)
	}
	s, err := deploy.Connect(t.Context(), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	err = write(t, s, dir)
	t.Log(err)
	if err == nil {
		t.Error("128 MiB were written to where 40 are")
	} else if text := err.Error(); !strings.Contains(text, "input/output error") &&
		!strings.Contains(text, "no space") {
		t.Errorf("it does not say what went wrong: %v", err)
	} else if !strings.Contains(text, dir) {
		t.Errorf("it does not say where: %v", err)
	}
	if err := write(t, s, honest); err != nil {
		t.Errorf("another folder: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(honest); err != nil || len(left) > 0 {
		t.Errorf("left in the other folder: %v %v", left, err)
	}
}
