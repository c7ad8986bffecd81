package filelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// childEnv makes the test binary a process that holds a lock until it is killed.
const childEnv = "TARE_FILELOCK_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if _, err := Try(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(10 * time.Minute)
	}
	os.Exit(m.Run())
}

func TestLockSurvivesItsHoldersDeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("a lock that a process holds: %v, want ErrHeld", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Take(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is given up: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l, err := Take(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("after its holder was killed: %v", err)
	}
	if err := l.Say("this test"); err != nil && runtime.GOOS != "windows" { // which lets nobody else write to it
		t.Error(err)
	}
	if said := Said(path); said != "this test" && runtime.GOOS != "windows" {
		t.Errorf("the holder says %q", said)
	}
	l.Release()
	l.Release()
	if said := Said(path); said != "" {
		t.Errorf("nobody holds it, and it says %q", said)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock that was given back leaves its file: %v", err)
	}
}

// TestOneAtATime holds that removing the file lets no two in.
func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 0; n < 50; {
				l, err := Try(path)
				if errors.Is(err, ErrHeld) {
					time.Sleep(time.Microsecond)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				n++
				mu.Lock()
				inside--
				mu.Unlock()
				l.Release()
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d held the lock at once", most)
	}
}

func TestLinkIsNotFollowed(t *testing.T) {
	if noFollow == 0 {
		t.Skip("links are followed on this system")
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if l, err := Try(filepath.Join(dir, "lock")); err == nil {
		l.Release()
		t.Error("a lock was taken through a link")
	}
}

// TestOpenForWriting: a lock file that is there is opened for writing, which NFS asks for, and one that may only be
// read for reading.
func TestOpenForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("x"); err != nil {
		t.Errorf("it cannot be written to: %v", err)
	}
	if err := errors.Join(f.Close(), os.Chmod(path, 0o400)); err != nil {
		t.Fatal(err)
	}
	l, err := Try(path)
	if err != nil {
		t.Fatalf("one that may only be read: %v", err)
	}
	l.Release()
}
