package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

func TestParseAb(t *testing.T) {
	text := said(t, "ab-2.3.txt")
	rate, n, err := parseAb(text, 300)
	if err != nil || n != 300 || rate != 2020.95 {
		t.Errorf("got %v requests/s, %v requests, %v", rate, n, err)
	}
	for bad, want := range map[string]string{
		"": "no requests",
		strings.Replace(text, "Failed requests:        0", "Failed requests:        7", 1):          "Failed requests",
		strings.Replace(text, "Total transferred", "Non-2xx responses:      300\nTotal", 1):         "Non-2xx",
		strings.Replace(text, "Complete requests:      300", "Complete requests:      299", 1):      "not the same",
		strings.Replace(text, "Requests per second:    2020.95", "Requests per second:    0.00", 1): "not the same",
	} {
		if _, _, err := parseAb(bad, 300); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestVegetaLate(t *testing.T) {
	text := said(t, "vegeta-12.13.0.csv")
	late, made, err := vegetaLate(strings.NewReader(text), 1000, 20)
	if err != nil || made != 8 || late <= 0 || late > 1e6 {
		t.Errorf("got %v us, %v", late, err)
	}
	// In time, but for one that is 300 us late, whatever order they are told in.
	const at = "1000000000%s,200,1,0,0,,,,0,GET,u,h\n"
	var lines strings.Builder
	for _, ns := range []string{"002000000", "000000000", "001300000", "003000000"} {
		lines.WriteString(strings.Replace(at, "%s", ns, 1))
	}
	if late, _, err := vegetaLate(strings.NewReader(lines.String()), 1000, 4); err != nil || late != 300 {
		t.Errorf("got %v us, %v; want 300", late, err)
	}
	for bad, want := range map[string]string{
		"":                                       "not the same",
		strings.Replace(text, ",200,", ",0,", 1): "a request failed",
		"x" + text:                               "invalid syntax",
		"1,200\n":                                "a request failed",
	} {
		_, _, err := vegetaLate(strings.NewReader(bad), 1000, 20)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestOhaLate(t *testing.T) {
	text := said(t, "oha-1.16.0.csv")
	late, made, err := ohaLate(strings.NewReader(text), 1000, 20)
	if err != nil || made != 20 || late <= 0 || late > 1e6 {
		t.Errorf("got %v us of %d, %v", late, made, err)
	}
	// In time, but for one that is 300 us late, whatever order they are told in.
	const head = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n"
	some := head
	for _, s := range []string{"0.002001", "0.000001", "0.001301", "0.003001"} {
		some += s + ",0,0,0.0001,0.0002,1024,200\n"
	}
	if late, _, err := ohaLate(strings.NewReader(some), 1000, 4); err != nil || late != 300 {
		t.Errorf("got %v us, %v; want 300", late, err)
	}
	for bad, want := range map[string]string{
		"":               "names of its columns",
		some[len(head):]: "names of its columns",
		head:             "not the same",
		some:             "not the same",
		strings.Replace(text, ",200\n", ",502\n", 1): "a request failed",
		strings.Replace(text, "\n0.", "\nx0.", 1):    "invalid syntax",
		strings.Replace(text, "\n0.", "\n-1.", 1):    "sent after -1",
		strings.Replace(text, "\n0.", "\nNaN,", 1):   "wrong number of fields",
		text + "0.1\n": "wrong number of fields",
	} {
		if _, _, err := ohaLate(strings.NewReader(bad), 1000, 20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want an error with %q", bad, err, want)
		}
	}
}

// A row whose peer is not here is left out, and says how to get it.
func TestOhaMissing(t *testing.T) {
	t.Setenv("TARE_OHA", filepath.Join(t.TempDir(), "oha"))
	_, err := readyOha(t.Context(), nil, "", 1)
	if m, ok := errors.AsType[missing](err); !ok || !strings.Contains(m.what, "scripts/deps.sh oha") {
		t.Errorf("got %v", err)
	}
}

// The largest resident memory is that of the process that is looked at, and of the program that it has become.
func TestWatchMemory(t *testing.T) {
	if mb := statusMB(os.Getpid(), "VmHWM"); mb == 0 && runtime.GOOS == "linux" {
		t.Fatal("this process has no memory")
	} else if mb == 0 {
		t.Skip("this system has no /proc/PID/status")
	}
	stop := watchMemory(func() []int { return named(childrenOf(os.Getpid()), "sleep") })
	if _, err := program(t.Context(), "sh", "-c", "exec sleep 0.3"); err != nil {
		t.Fatal(err)
	}
	if mb := stop(); mb < 0.1 || mb > 100 {
		t.Errorf("sleep has had %v MB", mb)
	}
	if mb := statusMB(os.Getpid(), "NoSuchLine"); mb != 0 {
		t.Errorf("got %v MB", mb)
	}
}

// Only the limit of the child is raised.
func TestWithFiles(t *testing.T) {
	if got := withFiles(32, "wrk"); len(got) != 1 {
		t.Errorf("few connections: %q", got)
	}
	if err := mayOpen(files(1000)); err != nil {
		t.Skip(err)
	}
	argv := withFiles(1000, "sh", "-c", "ulimit -n")
	out, err := proc.Run(t.Context(), nil, argv...)
	if err != nil || strings.TrimSpace(string(out)) != "1256" {
		t.Errorf("%q: %s, %v", argv, out, err)
	}
}
