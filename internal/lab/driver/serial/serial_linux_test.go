package serial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
)

func TestMain(m *testing.M) {
	defer removeShared()
	envtest.Main(m, Infos())
}

func spec(arg string, settings ...string) env.Spec {
	s := env.Spec{Name: "vm", Driver: name, Arg: arg, Settings: map[string]string{"wait": "4m"}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

// TestContract has one machine for all tests of the suite: it stays when a controller goes, or is killed. Its medium is
// a CD, its firmware a BIOS.
func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("boots virtual machines")
	}
	path := filepath.Join(shared(t), "contract")
	m := start(t, nil, append(asCD(media(t, "iso")), onSocket(path)...)...)
	await(t, "the socket", func() bool { return exists(path) })
	file := filepath.Join(shared(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	envtest.Run(t, driver{}, envtest.Options{
		Spec: spec(path), OS: "linux", Arch: "amd64", Patience: patience,
		Kill: func(t testing.TB, _ env.Env, _ wire.Hello) {
			m.kill()
			os.Remove(path)
			m.boot()
			await(t, "the socket", func() bool { return exists(path) })
		},
		Leaks: func(t testing.TB, _ string) (left []string) {
			if n := connected(t, path); n > 0 {
				left = append(left, fmt.Sprintf("%d connections to %s", n, path))
			}
			return left
		},
		Impossible: []env.Spec{
			spec(filepath.Join(shared(t), "nothing")), spec(file), spec("/dev/null"), spec("tcp:127.0.0.1:1"),
			spec("tcp:192.0.2.1:4000"), spec("tcp:nonsense"), spec(""),
		},
	})
	t.Run("LineWithFaults", func(t *testing.T) { faults(t, path) })
}

var opened atomic.Int64

func options(t testing.TB, s env.Spec) env.Options {
	return env.Options{Spec: s, RunID: fmt.Sprintf("s%d-%d", os.Getpid(), opened.Add(1)), Dir: t.TempDir(),
		Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)}
}

// works opens an environment and does some work in it. It returns the file system for files.
func works(t *testing.T, s env.Spec) (workFS string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := options(t, s)
	began := time.Now()
	e, err := driver{}.Open(ctx, o)
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence)
		}
		t.Fatal(err)
	}
	defer e.Close()
	t.Logf("open after %v", time.Since(began))
	conn, err := deploy.Attach(ctx, e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.Work(t, conn, wire.Job{Kind: "null", Cell: "c", Seed: 1}, 1000); err != nil {
		t.Error(err)
	}
	inside, err := conn.Facts(ctx)
	if err != nil {
		t.Error(err)
	}
	facts := e.Facts().Extra
	t.Logf("%v", facts)
	for _, name := range []string{"line.round_trip_us", "line.to_guest_bytes_per_second",
		"line.from_guest_bytes_per_second"} {
		// A line that loses frames may have no figures.
		if v, err := strconv.Atoi(facts[name]); (err != nil || v <= 0) && facts["line.damaged_frames"] == "0" {
			t.Errorf("%s is %q", name, facts[name])
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	return inside.WorkFS
}

// TestMediumBootsEverywhere boots the medium where TestContract does not, and reaches it in the other ways.
func TestMediumBootsEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("boots virtual machines")
	}
	if !exists(firmware) {
		lacking(t, "%s, of the package ovmf, is not there", firmware)
	}
	t.Run("BIOS disk TCP", func(t *testing.T) {
		t.Parallel()
		address, give := loopback(t)
		start(t, give, slices.Concat(asDisk(media(t, "vdi"), "vdi", "pc", "ide-hd"), withScratch(t, "ide-hd"),
			onListener())...)
		if fs := works(t, spec("tcp:"+address)); !strings.HasPrefix(fs, "ext4 ") {
			t.Errorf("files are on %s", fs)
		}
	})
	t.Run("UEFI CD terminal", func(t *testing.T) {
		t.Parallel()
		m := start(t, nil, append(asCD(media(t, "iso")), "-bios", firmware, "-chardev", "pty,id=s", "-serial",
			"chardev:s")...)
		said := make([]byte, 200)
		n, err := m.qemu.Read(said)
		tty := regexp.MustCompile(`/dev/pts/\d+`).FindString(string(said[:n]))
		if tty == "" {
			t.Fatalf("%q %v", said[:n], err)
		}
		if fs := works(t, spec(tty, "baud", "115200")); !strings.HasPrefix(fs, "tmpfs ") {
			t.Errorf("files are on %s", fs)
		}
	})
	t.Run("UEFI disk pipes", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(shared(t), "pipes")
		for _, end := range []string{".in", ".out"} {
			if err := syscall.Mkfifo(path+end, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start(t, nil, slices.Concat(asDisk(media(t, "vhdx"), "vhdx", "q35", "nvme,serial=medium"),
			withScratch(t, "nvme"), []string{"-bios", firmware, "-chardev", "pipe,id=s,path=" + path,
				"-serial", "chardev:s"})...)
		if fs := works(t, spec(path)); !strings.HasPrefix(fs, "ext4 ") {
			t.Errorf("files are on %s", fs)
		}
	})
	t.Run("no medium", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(shared(t), "empty")
		start(t, nil, append([]string{"-machine", "q35", "-bios", firmware}, onSocket(path)...)...)
		await(t, "the socket", func() bool { return exists(path) })
		// Its firmware prints to the serial port in the end.
		_, err := driver{}.Open(t.Context(), options(t, spec(path, "wait", "20s")))
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || !strings.Contains(err.Error(), "no guest within 20s") ||
			!strings.Contains(x.Remedy, "tare guest media") {
			t.Fatal(err)
		}
		t.Logf("%v\n%s", err, x.Evidence)
		// Before it has printed, there is no evidence; what is there is the firmware's.
		if len(x.Evidence) == 0 && !strings.Contains(err.Error(), "not a single byte") {
			t.Errorf("evidence %q", x.Evidence)
		}
	})
}

// faults reaches a running guest over a line that is as slow as a real one, on which the guest's kernel prints and
// which returns an echo.
func faults(t *testing.T, path string) {
	l, err := net.Listen("unix", path+"-line")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		controller, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer controller.Close()
		guest, err := net.Dial("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		defer guest.Close()
		out := &slowConn{w: controller}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			carry(out, guest, "\r\n[   12.3] a kernel prints {this} ~\r\n", nil)
			controller.Close()
		}()
		carry(&slowConn{w: guest}, controller, "", out)
		guest.Close()
		<-ended
	})
	works(t, spec(path+"-line"))
}

// carry copies a direction of a line, puts text between the bytes now and then, and returns an echo of some.
func carry(to io.Writer, from io.Reader, text string, echo io.Writer) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 64)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		if r.IntN(50) == 0 {
			io.WriteString(to, text)
		}
		if echo != nil && r.IntN(10) == 0 {
			echo.Write(b[:n])
		}
	}
}

// slowConn writes at 115,200 baud.
type slowConn struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *slowConn) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(time.Duration(len(b)) * time.Second * 10 / 115200)
	return s.w.Write(b)
}
