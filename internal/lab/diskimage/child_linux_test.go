package diskimage

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// The limits of an inspection, for every image: the required one for memory, and one for time that only a hang exceeds.
const (
	maxPeak = 64 << 20 // resident bytes of a process that does nothing else
	maxTime = 3 * time.Minute
)

// childEnv makes the test's executable an inspector.
const childEnv = "TARE_DISK_INSPECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := serveInspections(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inspectorAnswer is the inspector's answer.
type inspectorAnswer struct {
	Refused string  // why the image was not read; "" if it was
	Damaged bool    // problems were found
	Report  *Report // without its map
	Peak    int64   // largest resident memory of the process so far, bytes
	Took    time.Duration
}

// serveInspections inspects the images whose names it reads, one per line, and writes the whole of each report, like
// the command, to nowhere.
func serveInspections(in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var s inspectorAnswer
		ctx, cancel := context.WithTimeout(context.Background(), maxTime)
		began := time.Now()
		r, err := Inspect(ctx, lines.Text(), Options{})
		s.Took = time.Since(began)
		timeout := ctx.Err()
		cancel()
		if timeout != nil {
			return fmt.Errorf("inspect %s: it does not end", lines.Text())
		}
		if err != nil {
			s.Refused = err.Error()
		} else {
			if err := json.NewEncoder(io.Discard).Encode(r); err != nil {
				return err
			}
			if err := Text(io.Discard, r, 100); err != nil {
				return err
			}
			s.Damaged = r.Damaged()
			r.Map = nil
			s.Report = r
		}
		if s.Peak, err = peak(); err != nil {
			return err
		}
		if err := answers.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// peak is the largest resident memory of this process since its start, as counted by the kernel.
func peak() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0, fmt.Errorf("read VmHWM: %w", err)
	}
	return kib << 10, nil
}

// inspector is a separate process that inspects images.
type inspector struct {
	child   *proc.Stream
	answers *json.Decoder
	peak    int64
	slowest time.Duration
	refused int
	damaged int
	sound   int
}

// newInspector starts one with the garbage collector's settings of `tare disk inspect`.
func newInspector(t *testing.T) *inspector {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := proc.Command(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"=1", "GOGC=800", "GOMEMLIMIT=32MiB")
	child, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Close() })
	return &inspector{child: child, answers: json.NewDecoder(child)}
}

// look makes it inspect an image; what says how the image was damaged. A crash, a hang or too much memory fails the
// test.
func (i *inspector) look(t *testing.T, path, what string) inspectorAnswer {
	t.Helper()
	var s inspectorAnswer
	_, err := fmt.Fprintln(i.child, path)
	if err == nil {
		err = i.answers.Decode(&s)
	}
	if err != nil {
		i.child.Close()
		t.Fatalf("%s: the inspection ended with %v\n%s", what, err, i.child.Stderr())
	}
	if s.Peak > maxPeak {
		t.Fatalf("%s: the inspection took %d KiB, and may take %d", what, s.Peak>>10, maxPeak>>10)
	}
	i.peak, i.slowest = max(i.peak, s.Peak), max(i.slowest, s.Took)
	switch {
	case s.Refused != "":
		i.refused++
	case s.Damaged:
		i.damaged++
	default:
		i.sound++
	}
	return s
}

// tell logs the figures for the documentation's table.
func (i *inspector) tell(t *testing.T, what string) {
	t.Logf("%-12s peak %4.1f MiB, slowest %6.1f ms; %d refused, %d told as damaged, %d read", what,
		float64(i.peak)/(1<<20), float64(i.slowest)/1e6, i.refused, i.damaged, i.sound)
}
