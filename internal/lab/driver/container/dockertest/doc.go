// Package dockertest starts real container engines for tests: a separate Docker daemon, and a separate Podman store.
//
// It does not touch the machine's own Docker or Podman. The daemon runs in its own namespaces, with its data below a
// temporary folder. So one signal ends it and all its processes, even if the test binary is killed.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// missing skips a test that cannot run on this machine, or fails it if TARE_REQUIRE is set, as in CI.
func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%s, and TARE_REQUIRE is set", reason)
	}
	t.Skip(reason)
}

// need looks for programs and ends the test if one is missing.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			missing(t, p+" is not installed")
		}
	}
	if os.Geteuid() != 0 {
		missing(t, "a separate container engine needs root")
	}
}

// callTime bounds one call of an engine's client.
const callTime = 3 * time.Minute

// run makes one call and fails the test if the call fails.
func run(t testing.TB, stdin []byte, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	out, err := proc.Run(ctx, bytes.NewReader(stdin), argv...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// Import makes an image from files, given by their absolute path in the image. client is the engine's client with its
// options: Daemon.Client, or "podman".
func Import(t testing.TB, client []string, image string, files map[string][]byte) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := &tar.Header{Name: strings.TrimPrefix(path.Clean(name), "/"), Mode: 0o755, Size: int64(len(files[name]))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, archive.Bytes(), append(slices.Clone(client), "import", "-", image)...)
}

// Busybox returns the files of an image with a shell: a static busybox under the names of its usual applets.
func Busybox(t testing.TB) map[string][]byte {
	t.Helper()
	p, err := proc.LookPath("busybox")
	if err != nil {
		missing(t, "busybox is not installed")
	}
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, applet := range []string{"sh", "sleep", "cat", "rm", "ls", "tail"} {
		files["/bin/"+applet] = b
	}
	return files
}
