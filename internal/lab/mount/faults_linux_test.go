package mount

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// kindsWithPorts are the kinds whose servers listen on the loopback.
func kindsWithPorts() []string { return []string{"nfs", "smb", "sshfs", "rsync"} }

// usable skips kinds that do not work on this machine.
func usable(t *testing.T, name string) {
	t.Helper()
	k, ok := lookup(name)
	if !ok {
		t.Fatalf("no kind %s", name)
	}
	if k.Probe == nil {
		return
	}
	if s := k.Probe(t.Context()); !s.OK {
		lack(t, "%s: %s; %s", name, s.Detail, s.Remedy)
	}
}

// long skips a test that starts many servers under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many servers are started")
	}
}

func TestTakenPort(t *testing.T) {
	long(t)
	l, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, name := range kindsWithPorts() {
		t.Run(name, func(t *testing.T) {
			usable(t, name)
			x := failing(t, t.Context(), request(t, name, "f", map[string]string{"port": fmt.Sprint(taken)}))
			if !strings.Contains(x.Error(), fmt.Sprintf("port %d of 127.0.0.1 is taken", taken)) ||
				!strings.Contains(x.Remedy, "port=auto") {
				t.Error(x)
			}
			ports, err := freePorts(1, 0)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, request(t, name, "f", map[string]string{"port": fmt.Sprint(ports[0])}))
			if got := portOf(t, s); got != ports[0] {
				t.Errorf("port %d, want %d", got, ports[0])
			}
		})
	}
}

// TestPortLostWhileStarting takes the port after it was chosen and before the server starts.
func TestPortLostWhileStarting(t *testing.T) {
	long(t)
	usable(t, "rsync")
	r := request(t, "rsync", "f", nil)
	j := &job{Request: r, settings: map[string]string{"port": "auto"}, dir: r.Dir}
	var thief net.Listener
	var tried []int
	d, ports, err := j.listen(t.Context(), 1, func(ports []int) (*daemon, func(context.Context) error, error) {
		tried = append(tried, ports[0])
		if thief == nil {
			var err error
			if thief, err = net.Listen("tcp4", address(ports[0])); err != nil {
				t.Fatal(err)
			}
		}
		config := filepath.Join(r.Dir, "c")
		write(t, config, "[m]\npath = /\n")
		d, err := launch([]string{"rsync", "--daemon", "--no-detach", "--config=" + config, "--address=" + loopback,
			fmt.Sprintf("--port=%d", ports[0])}, "", nil)
		return d, func(ctx context.Context) error {
			return dial(ctx, ports[0], func(c net.Conn) error {
				c.SetDeadline(time.Now().Add(time.Second))
				line, err := bufio.NewReader(c).ReadString('\n')
				if err == nil && !strings.HasPrefix(line, "@RSYNCD:") {
					err = fmt.Errorf("%q", line)
				}
				return err
			})
		}, err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, j.evidence)
	}
	defer thief.Close()
	defer d.close()
	if len(tried) != 2 || ports[0] != tried[1] {
		t.Errorf("tried %v, got %v", tried, ports)
	}
}

// TestCancelledWhileStarting cancels at moments when some of the servers already run.
func TestCancelledWhileStarting(t *testing.T) {
	moments := []time.Duration{30 * time.Millisecond, time.Millisecond, 100 * time.Millisecond}
	if testing.Short() {
		moments = moments[:1]
	}
	for _, k := range kinds() {
		for _, after := range moments {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			r := request(t, k.Name, "f", nil)
			if s, err := Serve(ctx, r); err == nil {
				s.Close()
			}
			cancel()
			nothingLeft(t, r)
		}
	}
}

// TestServerThatDies kills each server: its end must be reported, and closing must still leave nothing.
func TestServerThatDies(t *testing.T) {
	long(t)
	for _, name := range kindsWithPorts() {
		t.Run(name, func(t *testing.T) {
			usable(t, name)
			r := request(t, name, "f", nil)
			s := open(t, r)
			for _, line := range naming(t, r.Dir) {
				var pid int
				fmt.Sscanf(line, "/proc/%d/", &pid)
				if p, err := os.FindProcess(pid); err == nil {
					p.Kill()
				}
			}
			for end := time.Now().Add(patience); !strings.Contains(string(s.Diagnose()),
				"signal: killed"); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("nothing tells that the server was killed:\n%s", s.Diagnose())
				}
			}
		})
	}
}

// TestControllerKilled starts this test binary as a process that serves all kinds, and kills it: the servers must end
// with it.
func TestControllerKilled(t *testing.T) {
	const role = "TARE_MOUNT_TEST_KIND"
	if name := os.Getenv(role); name != "" {
		r := request(t, name, "f", nil)
		s, err := Serve(t.Context(), r)
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Printf("serving: %s\t%s\n", filepath.Dir(r.Dir), s.Mount.Server)
		time.Sleep(10 * time.Minute)
	}
	t.Setenv(markKey, t.TempDir())
	for _, k := range kinds() {
		t.Run(k.Name, func(t *testing.T) {
			usable(t, k.Name)
			cmd := exec.Command(os.Args[0], "-test.run=^TestControllerKilled$")
			cmd.Env = append(os.Environ(), role+"="+k.Name)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			base, _, _ := strings.Cut(strings.TrimPrefix(line, "serving: "), "\t")
			if !strings.HasPrefix(line, "serving: ") {
				cmd.Process.Kill()
				cmd.Wait()
				t.Fatalf("said %q", line)
			}
			defer os.RemoveAll(base)
			// virtiofsd restarts after its probe.
			for end := time.Now().Add(patience); k.Name != "9p" &&
				len(naming(t, base)) == 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Error("no server to be seen")
					break
				}
			}
			cmd.Process.Kill()
			cmd.Wait()
			var left []string
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if left = naming(t, base); len(left) == 0 {
					left = rpcbinds(t)
				}
				if len(left) == 0 {
					return
				}
			}
			t.Errorf("left: %q", left)
		})
	}
}

// TestPaths serves folders with unusual names; the table in docs/mounts.md says which of them work. A folder counts as
// served if the server has answered, which for most kinds means that it found the folder.
func TestPaths(t *testing.T) {
	long(t)
	const all = "9p c rust nfs smb sshfs rsync"
	for folder, carried := range map[string]string{
		awkward: all, `a"b`: "9p c rust sshfs rsync", "a%b": "9p c rust nfs sshfs", "a\nb": "9p c", "\xff": "9p c",
	} {
		for name := range strings.FieldsSeq(all) {
			t.Run(fmt.Sprintf("%s %q", name, folder), func(t *testing.T) {
				kind, settings := name, map[string]string(nil)
				if name == "c" || name == "rust" {
					v := daemons(t)[fmt.Sprintf("rust=%t", name == "rust")]
					if v == nil && name == "c" {
						t.Skip("no virtiofsd of C, which QEMU has had up to 7.2")
					} else if v == nil {
						lack(t, "no virtiofsd of that language; name a Rust one with %s=PATH, see scripts/deps.sh "+
							"virtiofsd", rustDaemon)
					}
					kind, settings = "virtiofs", map[string]string{"daemon": v.path}
				}
				usable(t, kind)
				if r := request(t, kind, folder, settings); slices.Contains(strings.Fields(carried), name) {
					open(t, r)
				} else if x := failing(t, t.Context(), r); !strings.Contains(x.Error(), "the path") ||
					x.Remedy != elsewhere {
					t.Error(x)
				}
			})
		}
	}
}

func TestSettingsThatExclude(t *testing.T) {
	for _, c := range []struct {
		kind, want string
		settings   map[string]string
	}{
		{"nfs", "does not run over UDP", map[string]string{"proto": "udp", "vers": "4.1"}},
		{"9p", "no setting", map[string]string{"colour": "red"}},
		{"smb", "not one of", map[string]string{"vers": "1.0"}},
	} {
		usable(t, c.kind)
		if x := failing(t, t.Context(), request(t, c.kind, "f", c.settings)); !strings.Contains(x.Error(), c.want) {
			t.Errorf("%v does not say %q", x, c.want)
		}
	}
	r := request(t, "9p", "f", nil)
	r.Folder = filepath.Join(r.Folder, "missing")
	if x := failing(t, t.Context(), r); !os.IsNotExist(x.Unwrap()) && !strings.Contains(x.Error(), "no such file") {
		t.Error(x)
	}
}

// The error of a server that ended contains its last line, and does not suggest to unlock an account.
func TestServersThatEndSayWhy(t *testing.T) {
	usable(t, "sshfs")
	x := failing(t, t.Context(), request(t, "sshfs", "f", map[string]string{"ciphers": "aes128-gmc"}))
	if !strings.Contains(x.Error(), "there is no cipher \"aes128-gmc\"") || strings.Contains(x.Remedy, "usermod") {
		t.Error(x)
	}
	if err := knownCiphers(t.Context(), "ssh", "aes256-ctr,aes128-gcm@openssh.com"); err != nil {
		t.Error(err)
	}
	d, err := launch([]string{"sh", "-c", "echo listening; echo Bad SSH2 cipher spec >&2; exit 255"}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	err = d.await(t.Context(), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(),
		"the server ended at its start: exit status 255: Bad SSH2 cipher spec") {
		t.Error(err)
	}
}
