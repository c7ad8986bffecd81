package fileio

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadOnTheFirst: work that Go would run on the process's first thread, which never ends, is done by another.
func TestThreadOnTheFirst(t *testing.T) {
	for range 200 {
		done := make(chan struct{})
		id := 0
		go mortal(func() { id = unix.Gettid(); close(done) })
		<-done
		if id == unix.Getpid() {
			t.Fatal("the work was done on the first thread")
		}
	}
}

// TestWaitFreesTheFileSystem: after Wait and the close of the file, its file system can be unmounted at once.
func TestWaitFreesTheFileSystem(t *testing.T) {
	missing := func(what string) {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(what + ", and TARE_REQUIRE is set")
		}
		t.Skip(what)
	}
	if os.Geteuid() != 0 {
		missing("mounting needs root")
	}
	for range 30 {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			missing("this container may not mount a tmpfs: " + err.Error())
		}
		h, err := Open(filepath.Join(dir, "f"), Mode{Write: true, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		var th Thread
		if err := th.Run(func(bool) error { _, err := h.WriteAt([]byte("x"), 0); return err }); err != nil {
			t.Error(err)
		}
		th.Wait()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := unix.Unmount(dir, 0); err != nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			t.Fatalf("unmount: %v", err)
		}
	}
}
