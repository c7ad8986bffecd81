package qemu

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// TestExitsOfQEMU asks a real QEMU whose firmware a real KVM runs.
func TestExitsOfQEMU(t *testing.T) {
	const program = "qemu-system-x86_64"
	if _, err := proc.LookPath(program); err != nil {
		lacking(t, "%s is not installed", program)
	}
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		t.Skipf("there is no KVM here: %v", err)
	} else {
		f.Close()
	}
	socket := filepath.Join(t.TempDir(), "qmp")
	q, err := proc.Start(proc.Command(context.Background(), program, "-accel", "kvm", "-m", "64", "-display", "none",
		"-nodefaults", "-qmp", "unix:"+socket+",server=on,wait=off"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	conn := dial(t, q, socket)
	m := &monitor{conn: conn}
	v := &vm{ask: m.ask}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		exits, err := v.Exits()
		if err != nil && strings.Contains(err.Error(), "query-stats") && !strings.Contains(err.Error(), "timeout") {
			t.Skipf("this QEMU does not tell its exits: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := exits["io_exits"]; exits["exits"] > 0 && ok {
			t.Log(exits)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a machine that works left its processor never: %v", exits)
		}
	}
}

// dial connects to a socket that a program is about to make.
func dial(t *testing.T, q *proc.Stream, socket string) net.Conn {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		select {
		case <-q.Done():
			said := string(q.Stderr())
			// The device refuses, or it is that of another processor.
			if strings.Contains(said, "failed to initialize kvm") || strings.Contains(said, "invalid accelerator kvm") {
				t.Skipf("QEMU does not start with KVM here: %s", said)
			}
			t.Fatalf("QEMU does not start: %s", said)
		default:
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestExitsThatQEMUTells reads the forms that its answer has.
func TestExitsThatQEMUTells(t *testing.T) {
	const stats = `{"return":[{"provider":"kvm","stats":[{"name":"guest_mode","value":false},{"name":"exits","value":300},` +
		`{"name":"halt_exits","value":7},{"name":"halt_wait_hist","value":[0,1]}]},` +
		`{"provider":"kvm","stats":[{"name":"exits","value":40}]}]}`
	of := func(answer string) (map[string]int64, error) {
		m := &monitor{conn: speak(t, `{"return":{}}`, answer)}
		return (&vm{ask: m.ask}).Exits()
	}
	got, err := of(stats)
	if err != nil || len(got) != 2 || got["exits"] != 340 || got["halt_exits"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	for answer, says := range map[string]string{
		`{"return":[]}`: "tells no exits",
		`{"return":[{"provider":"kvm","stats":[{"name":"exits","value":"many"}]}]}`: "many",
		`{"return":[{"provider":"kvm","stats":[{"name":"exits","value":-1}]}]}`:     "-1",
		`{"return":{"exits":1}}`: "read answer",
		`{"error":{"class":"CommandNotFound","desc":"The command query-stats has not been found"}}`: "not been found",
	} {
		if got, err := of(answer); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want %q", answer, got, err, says)
		}
	}
}
