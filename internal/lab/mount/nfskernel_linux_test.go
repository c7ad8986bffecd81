package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/sys/nfsd"
)

// kernelHere tests whether this machine's kernel can serve.
func kernelHere(t *testing.T) bool {
	t.Helper()
	room, err := nfsd.OpenNetNS(nfsd.NetNSOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	err = room.Serve(t.Context(), nfsd.Export{Client: "127.0.0.1", Version: "3", Port: nfsPort, MountPort: mountPort,
		Threads: 1})
	if err != nil {
		t.Log(err)
	}
	return err == nil
}

// This machine's kernel serves if it has a server; if not, the error says so and what to do.
func TestKernelOfThisMachineServes(t *testing.T) {
	needRoot(t)
	here := kernelHere(t)
	for _, vers := range []string{"3", "4.2"} {
		r := request(t, "nfs", awkward, map[string]string{"server": serverKernel, "vers": vers, "threads": "3"})
		r.Link = 9
		if !here {
			x := failing(t, t.Context(), r)
			if !strings.Contains(x.Error(), "no NFS server") && !strings.Contains(x.Error(), "/dev/net/tun") {
				t.Errorf("it is refused because of %v", x)
			}
			if !strings.Contains(x.Remedy, "server=vm") || !strings.Contains(x.Remedy, "server=ganesha") {
				t.Errorf("the remedy is %s", x.Remedy)
			}
			continue
		}
		s := open(t, r)
		if s.Tap == nil || s.Order.Link == nil || s.Network || s.Mount.HostDir != r.Folder ||
			!strings.HasPrefix(s.Mount.Server, "Linux ") {
			t.Fatalf("it is %+v with %+v", s, s.Order)
		}
		mountOverLink(t, s, vers)
	}
}

// mountOverLink plays the machine at the other end of the link: another network namespace is the machine, and frames
// are copied between the two cards like QEMU does.
func mountOverLink(t *testing.T, s *Served, vers string) {
	t.Helper()
	machine, err := nfsd.OpenNetNS(nfsd.NetNSOptions{Folder: t.TempDir(), Address: s.Order.Link.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	ends := []int{int(s.Tap.Fd()), int(machine.Tap().Fd())}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range ends {
		all.Go(func() { carry(ends[i], ends[1-i], stop) })
	}
	defer all.Wait()
	defer close(stop)
	point := t.TempDir()
	err = machine.Do(func() error {
		if err := unix.Mount(s.Order.Source, point, s.Order.Type, 0, s.Order.Options); err != nil {
			return err
		}
		defer unix.Unmount(point, unix.MNT_DETACH)
		shown, err := os.ReadFile("/proc/thread-self/mountinfo")
		if err != nil || !strings.Contains(string(shown), " "+s.Order.Source+" ") ||
			!strings.Contains(string(shown), "vers="+vers+",") {
			return fmt.Errorf("it is mounted otherwise: %s, %w", shown, err)
		}
		return os.WriteFile(filepath.Join(point, "file"), make([]byte, 3<<20), 0o600)
	})
	if err != nil {
		t.Fatalf("version %s: %v\n%s", vers, err, s.Diagnose())
	}
	if info, err := os.Stat(filepath.Join(s.Mount.HostDir, "file")); err != nil || info.Size() != 3<<20 {
		t.Errorf("version %s: the host has %v, %v", vers, info, err)
	}
}

// carry copies frames from one card to another.
func carry(from, to int, stop <-chan struct{}) {
	frame := make([]byte, 128<<10)
	for {
		select {
		case <-stop:
			return
		default:
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, 50)
		if ready == 0 || err != nil {
			continue
		}
		if n, err := unix.Read(from, frame); err == nil {
			unix.Write(to, frame[:n]) // lost frames are sent again
		}
	}
}

func TestSettingsOfOtherServersAreRefused(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"server=vm":             {"disk": "128MiB"},
		"does not run over UDP": {"proto": "udp"},
		"over TCP":              {"proto": "udp", "vers": "3"},
		"only with NFS-Ganesha": {"commit": "always"},
		"no port":               {"port": "2049"},
	} {
		settings["server"] = serverKernel
		x := failing(t, t.Context(), request(t, "nfs", "f", settings))
		if !strings.Contains(x.Error(), want) {
			t.Errorf("%v: %v, want %q", settings, x, want)
		}
	}
}
