package nfsd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This test binary is also run in a micro-VM, whose kernel has the server, and starts itself.
const (
	// mustServe says that the kernel here has the server, and that there is nobody else here.
	mustServe = "TARE_NFSD_HERE"
	// holdFolder names the folder of a child that serves until it is killed.
	holdFolder = "TARE_NFSD_HOLD"
)

// needRooms sees to what every machine has on which somebody is root.
func needRooms(t *testing.T) {
	t.Helper()
	switch {
	case os.Getenv(mustServe) != "":
		if err := os.MkdirAll(filepath.Dir(portMapperSocket), 0o755); err != nil {
			t.Fatal(err)
		}
	case os.Geteuid() == 0:
	case os.Getenv("TARE_REQUIRE") != "":
		t.Fatal("network namespaces need root")
	default:
		t.Skip("network namespaces need root")
	}
}

// exported is a folder with a name that no control file could carry, on a file system with file handles.
func exported(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "a b\n\\040'\xff")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// openNetNS opens a namespace and checks in the end that nothing of it is left.
func openNetNS(t *testing.T, o NetNSOptions) *NetNS {
	t.Helper()
	r, err := OpenNetNS(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// look returns what this thread's namespaces show of mounts and network cards.
func look(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	cards, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(string(mounts), cards)
}

func TestNetNSIsPrivate(t *testing.T) {
	needRooms(t)
	folder := exported(t)
	if err := os.WriteFile(filepath.Join(folder, "f"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat("/dev/net/tun")
	address := "10.64.9.1"
	if err != nil && os.Getenv(mustServe) != "" {
		t.Errorf("there is no driver for network cards: %v", err)
	}
	if err != nil {
		if _, err := OpenNetNS(NetNSOptions{Folder: folder, Address: address}); err == nil ||
			!strings.Contains(err.Error(), "/dev/net/tun") {
			t.Errorf("without a driver for network cards: %v", err)
		}
		address = ""
	}
	r := openNetNS(t, NetNSOptions{Folder: folder, Address: address})
	if (r.Tap() == nil) != (address == "") {
		t.Errorf("address %q, other end of the card %v", address, r.Tap())
	}
	err = r.Do(func() error {
		b, err := os.ReadFile(filepath.Join(r.share, "f"))
		if err != nil || string(b) != "hello" {
			return fmt.Errorf("the folder holds %q, %w", b, err)
		}
		if _, err := os.Stat(portMapperSocket); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the machine's port mapper is in the namespace: %w", err)
		}
		if err := unix.Mount("tmpfs", r.control, "tmpfs", 0, ""); err != nil {
			return err
		}
		defer unix.Unmount(r.control, 0)
		if cards, err := net.Interfaces(); err != nil || len(cards) > 3 || !strings.Contains(fmt.Sprint(cards), "lo") {
			return fmt.Errorf("the namespace has the cards %v, %w", cards, err)
		}
		// /proc/self is the process's first thread, which is outside.
		if shown, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(shown, []byte(r.control)) {
			return fmt.Errorf("what is mounted in the namespace is seen outside: %s, %w", shown, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if shown := look(t); strings.Contains(shown, r.share) || strings.Contains(shown, "tare0") {
		t.Errorf("the machine sees the namespace: %s", shown)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, o := range map[string]NetNSOptions{
		"no folder": {Folder: filepath.Join(folder, "none")}, "a file": {Folder: filepath.Join(folder, "f")},
		"no address": {Folder: folder, Address: "here"},
	} {
		if r, err := OpenNetNS(o); err == nil {
			r.Close()
			t.Errorf("%s: it opens", name)
		}
	}
}

func export(version string) Export {
	e := Export{Client: "127.0.0.1", Version: version, Port: 2049, Threads: 2}
	if version == version3 {
		e.MountPort = 2050
	}
	return e
}

// TestNetNSServes has this machine's kernel serve, where it can, and mounts what it serves; where it cannot, that is
// said.
func TestNetNSServes(t *testing.T) {
	needRooms(t)
	if folder := os.Getenv(holdFolder); folder != "" {
		hold(t, folder)
		return
	}
	if err := Ready(); err != nil && os.Getenv(mustServe) != "" {
		t.Errorf("it is not ready: %v", err)
	}
	r := openNetNS(t, NetNSOptions{Folder: exported(t)})
	err := r.Serve(t.Context(), export("4.2"))
	if errors.Is(err, ErrNoServer) && os.Getenv(mustServe) == "" {
		if !strings.Contains(err.Error(), "CONFIG_NFSD") {
			t.Errorf("the refusal says %v", err)
		}
		if Ready() == nil {
			t.Error("a kernel without a server is ready to serve")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, Messages())
	}
	if err := r.Serve(t.Context(), export("4.2")); err == nil {
		t.Error("it serves twice")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, version := range []string{"3", "4.0", "4.2"} {
		t.Run(version, func(t *testing.T) { serves(t, version) })
	}
	t.Run("refused", refused)
	if os.Getenv(mustServe) == "" {
		return // the machine's own server, its messages and its threads are not this test's
	}
	if n := serverThreads(t); n != 0 {
		t.Errorf("%d threads serve on", n)
	}
	t.Run("killed", killed)
	t.Run("beside another", besideAnother)
	if said := kernelSays(t); strings.Contains(said, "BUG: ") || strings.Contains(said, "Oops") ||
		strings.Contains(said, "Call Trace") {
		t.Errorf("the kernel said %s", said)
	}
}

// serves mounts a namespace's folder in the namespace itself, and works there.
func serves(t *testing.T, version string) {
	folder := exported(t)
	r := openNetNS(t, NetNSOptions{Folder: folder})
	began := time.Now()
	if err := r.Serve(t.Context(), export(version)); err != nil {
		t.Fatalf("%v\n%s", err, Messages())
	}
	t.Logf("version %s serves after %v", version, time.Since(began))
	point := t.TempDir()
	if err := r.Do(func() error { return mountHere(point, version) }); err != nil {
		t.Fatalf("mount: %v\n%s", err, Messages())
	}
	t.Logf("mounted after %v", time.Since(began))
	err := r.Do(func() error {
		defer unix.Unmount(point, unix.MNT_DETACH)
		options, err := os.ReadFile("/proc/thread-self/mountinfo")
		if err != nil {
			return err
		}
		if !strings.Contains(string(options), "vers="+version+",") || !strings.Contains(string(options), "hard") {
			return fmt.Errorf("it is mounted otherwise: %s", options)
		}
		name := filepath.Join(point, "dir", "file")
		if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, bytes.Repeat([]byte("0123456789abcdef"), 1<<14), 0o640); err != nil {
			return err
		}
		if err := os.Chown(name, 7, 8); err != nil {
			return err // root stays root
		}
		return os.Rename(name, name+"2")
	})
	if err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(folder, "dir", "file2"))
	if err != nil || len(b) != 16<<14 || string(b[len(b)-16:]) != "0123456789abcdef" {
		t.Errorf("the folder has %d bytes, %v", len(b), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// refused checks that what cannot be served leaves a namespace that serves what can be.
func refused(t *testing.T) {
	r := openNetNS(t, NetNSOptions{Folder: "/proc/sys"})
	if err := r.Serve(t.Context(), export("3")); err == nil || !strings.Contains(err.Error(), "file handles") {
		t.Errorf("a file system without handles: %v", err)
	}
	r = openNetNS(t, NetNSOptions{Folder: exported(t)})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Serve(over, export("4.2")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the run is over: %v", err)
	}
	bad := export("3")
	bad.Port = 0
	if err := r.Serve(t.Context(), bad); err == nil {
		t.Error("it serves at no port")
	}
	if err := r.Do(func() error {
		socket, err := listenTCP(2049)
		if err != nil {
			return err
		}
		defer socket.Close()
		if err := r.serve(t.Context(), export("3")); !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("a port that is taken: %w", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := r.Serve(t.Context(), export("3")); err != nil {
		t.Errorf("after all that: %v\n%s", err, Messages())
	}
}

// mountHere mounts the server at loopback in the calling thread's namespaces.
func mountHere(point, version string) error {
	kind, options := "nfs4", "vers="+version+",proto=tcp,addr=127.0.0.1,clientaddr=127.0.0.1,port=2049,hard"
	if version == version3 {
		kind, options = "nfs",
			"vers=3,proto=tcp,addr=127.0.0.1,port=2049,hard,mountvers=3,mountproto=tcp,mountport=2050,nolock"
	}
	return unix.Mount("127.0.0.1:/", point, kind, 0, options)
}

// besideAnother has the machine's own server serve all the time, which a namespace must not change.
func besideAnother(t *testing.T) {
	machines := Export{Folder: t.TempDir(), Client: "127.0.0.1", Version: "4.1", Port: 2049, Threads: 3}
	s, err := Start(t.Context(), machines)
	if err == nil {
		if err = s.Close(); err == nil {
			s, err = Start(t.Context(), machines) // it can be begun again
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	state := func() string {
		var all []string
		for _, name := range []string{"threads", "versions", "portlist", "max_block_size", "nfsv4gracetime"} {
			v, err := s.read(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, name+" "+v)
		}
		exports, err := os.ReadFile(filepath.Join(caches, cacheExport, "content"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(all, string(exports)), "\n")
	}
	before := state()
	for _, version := range []string{"3", "4.2"} {
		r := openNetNS(t, NetNSOptions{Folder: exported(t)})
		if err := r.Serve(t.Context(), export(version)); err != nil {
			t.Fatal(err)
		}
		if n := serverThreads(t); n != 3+2 {
			t.Errorf("%d threads serve", n)
		}
		if now := state(); now != before {
			t.Errorf("version %s in a namespace makes of\n%s\nthis:\n%s", version, before, now)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if now := state(); now != before {
			t.Errorf("version %s in a namespace leaves of\n%s\nthis:\n%s", version, before, now)
		}
	}
	if _, err := Start(t.Context(), machines); err == nil || !strings.Contains(err.Error(), "3 threads already run") {
		t.Errorf("a second server in one namespace: %v", err)
	}
	if now := state(); now != before {
		t.Errorf("a second server makes of\n%s\nthis:\n%s", before, now)
	}
}

// hold serves until somebody kills this process.
func hold(t *testing.T, folder string) {
	r, err := OpenNetNS(NetNSOptions{Folder: folder})
	if err == nil {
		err = r.Serve(t.Context(), export("3"))
	}
	fmt.Println("serving:", err)
	if err == nil {
		time.Sleep(10 * time.Minute)
	}
}

// killed checks that the kernel ends the server of a process that was killed.
func killed(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestNetNSServes$")
	cmd.Env = append(os.Environ(), holdFolder+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "serving: <nil>\n" || serverThreads(t) != 2 {
		t.Errorf("it says %q, %v; %d threads serve", line, err, serverThreads(t))
	}
	cmd.Process.Kill()
	cmd.Wait()
	for end := time.Now().Add(patience); serverThreads(t) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d threads serve on", serverThreads(t))
		}
	}
}

// serverThreads counts the kernel's threads that serve, in all namespaces.
func serverThreads(t *testing.T) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && string(b) == "nfsd\n" {
			n++
		}
	}
	return n
}

func kernelSays(t *testing.T) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}
