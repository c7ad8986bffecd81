package mount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rustDaemon names a Rust virtiofsd for the tests; scripts/deps.sh virtiofsd prints the path of one.
const rustDaemon = "TARE_VIRTIOFSD"

// daemons are the virtiofsds of this machine, by language.
func daemons(t *testing.T) map[string]*virtiofsd {
	t.Helper()
	found := map[string]*virtiofsd{}
	for _, which := range []string{"c", "rust", os.Getenv(rustDaemon)} {
		if which == "" {
			continue
		}
		v, err := findVirtiofsd(t.Context(), which)
		if err == nil && (v.rust || isRoot()) {
			found[fmt.Sprintf("rust=%t", v.rust)] = v
		} else if which == os.Getenv(rustDaemon) {
			t.Fatalf("%s names no virtiofsd: %v", rustDaemon, err)
		}
	}
	if len(found) == 0 {
		lack(t, "no virtiofsd that this user can run: %s", virtiofsRemedy)
	}
	if found["rust=true"] == nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("only the C daemon is here; name a Rust one with %s=PATH, see scripts/deps.sh virtiofsd", rustDaemon)
	}
	return found
}

func TestVirtiofsServesOneClientAfterAnother(t *testing.T) {
	for name, v := range daemons(t) {
		t.Run(name, func(t *testing.T) {
			r := request(t, "virtiofs", "a, \"b\" 'c' 100%",
				map[string]string{"daemon": v.path, "xattr": "on", "writeback": "on"})
			s := open(t, r)
			socket := after(t, s.Devices, "path=")
			for range 3 {
				k := &keeper{socket: socket}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := k.greet(ctx); err != nil {
					t.Fatalf("greet: %v\n%s", err, s.Diagnose())
				}
				cancel()
			}
			if got := s.Mount.Server; got != v.String() {
				t.Errorf("server %q, want %q", got, v)
			}
		})
	}
}

// after finds the value of a key in the last of QEMU's options that has it.
func after(t *testing.T, args []string, key string) string {
	t.Helper()
	for _, a := range args {
		if _, v, ok := strings.Cut(a, key); ok {
			v, _, _ = strings.Cut(v, ",")
			return v
		}
	}
	t.Fatalf("%q has no %s", args, key)
	return ""
}

// TestQEMUAcceptsDevices starts QEMU with a guest's machine, but without a guest.
func TestQEMUAcceptsDevices(t *testing.T) {
	need(t, "apt-get install qemu-system-x86", "qemu-system-x86_64")
	kinds := []Request{request(t, "9p", "with, comma\nand newline \xff", nil)}
	for _, v := range daemons(t) {
		kinds = append(kinds, request(t, "virtiofs", "with, comma", map[string]string{"daemon": v.path}))
	}
	for _, r := range kinds {
		s := open(t, r)
		socket := filepath.Join(r.Dir, "q")
		argv := append([]string{"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-S",
			"-machine", "q35,memory-backend=ram", "-accel", "tcg",
			"-object", "memory-backend-memfd,id=ram,share=on,size=64M", "-m", "64M", "-qmp",
			"unix:" + socket + ",server=on,wait=off"}, s.Devices...)
		d, err := launch(argv, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = d.await(t.Context(), func(context.Context) error {
			c, err := net.Dial("unix", socket)
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetReadDeadline(time.Now().Add(patience))
			_, err = c.Read(make([]byte, 1))
			return err
		})
		if err != nil {
			t.Errorf("%s: %v\n%s", r.Driver, err, d.diagnose())
		}
		d.close()
		os.Remove(socket)
	}
}

func TestVirtiofsdThatFailsIsEvidence(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "virtiofsd")
	script := "#!/bin/sh\ncase $1 in --version) echo virtiofsd 1.0.0;; --help) echo --shared-dir;; *) echo 'cannot " +
		"enter the sandbox' >&2; exit 3;; esac\n"
	if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	x := failing(t, t.Context(), request(t, "virtiofs", "f", map[string]string{"daemon": broken, "direct": "off"}))
	if !strings.Contains(string(x.Evidence), "cannot enter the sandbox") ||
		!strings.Contains(x.Error(), "exit status 3") {
		t.Errorf("%v, evidence %q", x, x.Evidence)
	}
	x = failing(t, t.Context(), request(t, "virtiofs", "f", map[string]string{"daemon": broken, "posix_lock": "on"}))
	if !strings.Contains(x.Error(), "daemon=c") {
		t.Errorf("%v does not say which daemon has it", x)
	}
	x = failing(t, t.Context(), request(t, "virtiofs", "f", map[string]string{"daemon": "/bin/true"}))
	if !strings.Contains(x.Error(), "is not a virtiofsd") {
		t.Error(x)
	}
	x = failing(t, t.Context(), request(t, "virtiofs", "f", map[string]string{"dax": "1GiB"}))
	t.Log(x)
}

// TestDeadDaemonIsReplaced kills the daemon while a client is connected.
func TestDeadDaemonIsReplaced(t *testing.T) {
	for name, v := range daemons(t) {
		t.Run(name, func(t *testing.T) {
			r := request(t, "virtiofs", "f", map[string]string{"daemon": v.path})
			s := open(t, r)
			socket := after(t, s.Devices, "path=")
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			if err := greetVhost(c); err != nil {
				t.Fatal(err)
			}
			pids := naming(t, r.Folder)
			if len(pids) == 0 {
				t.Fatal("no daemon")
			}
			for _, p := range pids {
				var pid int
				fmt.Sscanf(p, "/proc/%d/cmdline", &pid)
				syscall.Kill(pid, syscall.SIGKILL)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the client of a dead daemon is told %v", err)
			}
			if err := (&keeper{socket: socket}).greet(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCancelledServing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, k := range kinds() {
		x := failing(t, ctx, request(t, k.Name, "f", nil))
		if !errors.Is(x, context.Canceled) {
			t.Error(x)
		}
	}
}

// TestDAXIsRefusedWhereQEMUHasNone asks the real QEMU. No release has the window; a QEMU with the patches gets it.
func TestDAXIsRefusedWhereQEMUHasNone(t *testing.T) {
	daemons(t)
	machine := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	program, err := exec.LookPath(machine)
	if err != nil {
		lack(t, "%s is not installed", machine)
	}
	help, err := exec.Command(program, "-device", "vhost-user-fs-pci,help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	r := request(t, "virtiofs", "f", map[string]string{"dax": "64MiB"})
	if strings.Contains(string(help), "cache-size=") {
		s := open(t, r)
		if device := strings.Join(s.Devices, " "); !strings.Contains(device, ",cache-size=67108864") ||
			s.Order.Options != "dax=always" {
			t.Errorf("device %q, options %q", device, s.Order.Options)
		}
		return
	}
	x := failing(t, t.Context(), r)
	if !strings.Contains(x.Error(), "has no cache-size for vhost-user-fs-pci") || x.Op != "look for DAX" ||
		!strings.Contains(x.Remedy, "leave dax off") {
		t.Error(x)
	}
}
