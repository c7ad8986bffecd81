package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/nfsd"
	"tare/internal/sys/proc"
)

// The kernel of the test machine may have no NFS server. So the parts of server=kernel are tested separately: a
// machine's network card in a namespace of this host, and the namespace's server in a machine whose kernel has one. One
// machine does both.
func TestServerOfTheHostInParts(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "memory", "512MiB", "kernel",
		microvm.Generic))
	o.Mounts = mountSpecs(t, "p=9p")
	const hardware, address = guestabi.LinkHardware + ":07:02", "10.64.7.2"
	ns, tap := cardInNetNS(t, hardware)
	v, s := openBoot(t, &boot{
		Options: o, broken: map[string]*env.OpenError{},
		second: &serverSettings{modules: []string{"nfsd", "nfs", "nfsv3", "nfsv4", "virtio_net", "tun"}, link: tap},
	})
	t.Run("card", func(t *testing.T) {
		if ns == nil {
			return // cardInNetNS has checked that it is rejected
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		asked := refuseMounts(t, ns)
		_, err := s.Mount(ctx, &guestabi.Mount{
			Name: "x", Dir: "/mnt/x", Type: "nfs", Source: "10.64.7.1:/",
			Link:    &guestabi.Link{Hardware: hardware, Address: address},
			Options: "vers=3,proto=tcp,addr=10.64.7.1,port=2049,mountvers=3,mountproto=tcp,mountport=2050,nolock",
		})
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("a mount that is refused: %v", err)
		}
		select {
		case who := <-asked:
			if who != address {
				t.Errorf("the namespace is asked by %s", who)
			}
		default:
			t.Errorf("nobody has asked in the namespace: %v\n%s", err, v.Diagnose())
		}
	})
	t.Run("server", func(t *testing.T) {
		repeats(t) // all of it is in the guest
		m := mounted(t, v, "p")
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
		const program = "nfsd.test"
		build(t, filepath.Join(m.Mount.HostDir, program), "tare/internal/sys/nfsd")
		inGuest(t, s, filepath.Join(m.Mount.Dir, program)+" -test.v -test.run=^TestNetNS",
			`served:s:lower:re:PASS: TestNetNSServes \(([0-9.]+)s\)`, "TARE_NFSD_HERE=1", "TARE_REQUIRE=1",
			"TMPDIR="+guestabi.Scratch)
	})
}

// cardInNetNS opens a namespace of this host with a network card and returns the machine's end of it. If this host has
// no driver for such cards, it returns any link.
func cardInNetNS(t *testing.T, hardware string) (*nfsd.NetNS, *link) {
	t.Helper()
	if os.Geteuid() != 0 {
		lacking(t, "network namespaces need root")
	}
	ns, err := nfsd.OpenNetNS(nfsd.NetNSOptions{Folder: t.TempDir(), Address: "10.64.7.1"})
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "/dev/net/tun") {
		a, b, err := newLink(hardware, hardware)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.close(); b.close() })
		return nil, a
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	return ns, newTapLink(hardware, ns.Tap())
}

// refuseMounts answers mount requests of version 3 in a namespace with an error, and reports who asked.
func refuseMounts(t *testing.T, ns *nfsd.NetNS) <-chan string {
	t.Helper()
	var l net.Listener
	if err := ns.Do(func() (err error) { l, err = net.Listen("tcp4", ":2050"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				call := make([]byte, 1024)
				for {
					var mark [4]byte
					if _, err := io.ReadFull(c, mark[:]); err != nil {
						return
					}
					n := int(binary.BigEndian.Uint32(mark[:]) &^ (1 << 31))
					if n < 24 || n > len(call) {
						return
					}
					if _, err := io.ReadFull(c, call[:n]); err != nil {
						return
					}
					reply := append(call[:4:4], make([]byte, 20)...) // accepted, success
					reply[7] = 1
					if procedure := call[23]; procedure == 1 {
						reply = append(reply, 0, 0, 0, 13) // MNT3ERR_ACCES
						host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
						select {
						case asked <- host:
						default:
						}
					}
					c.Write(append([]byte{0x80, 0, 0, byte(len(reply))}, reply...))
				}
			}()
		}
	}()
	return asked
}

// openBoot is open for a boot that is not made by the driver.
func openBoot(t *testing.T, b *boot) (*vm, *deploy.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v, err := b.run(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.evidence)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := deploy.Attach(ctx, v, b.RunID)
	if err != nil {
		t.Fatalf("%v\n%s", err, v.Diagnose())
	}
	t.Cleanup(func() { s.Close() })
	return v, s
}

// build makes a static test binary of a package.
func build(t *testing.T, file, pkg string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := proc.Command(ctx, "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", file, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := proc.RunCmd(cmd, nil); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// inGuest runs a command in a machine. It must succeed and print what the metric extracts.
func inGuest(t *testing.T, s *deploy.Conn, command, metric string, env ...string) {
	t.Helper()
	kind, ok := all.Lookup("command")
	if !ok {
		t.Fatal("there is no workload command")
	}
	params, err := kind.Resolve(map[string]string{"command": command, "shell": "none", "metric": metric})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "in", Seed: 1, Env: env},
		Work: 1})
	switch {
	case err != nil:
		t.Fatalf("%s: %v", command, err)
	case got.Result.Error != nil:
		t.Fatalf("%v\n%s", got.Result.Error, got.Result.Error.Evidence)
	}
	t.Logf("%s took %v", command, time.Duration(got.Result.ElapsedNS))
}
