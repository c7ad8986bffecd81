package semantics

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tare/internal/measure/fileops"
	"tare/internal/record"
)

// sides opens two views of one directory: a fresh one below in, seen from out.
func sides(t *testing.T, in, out string) (inside, host *fileops.Box) {
	t.Helper()
	inside, err := fileops.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inside.Close(); err != nil {
			t.Error(err)
		}
	})
	if out == "" {
		return inside, nil
	}
	if host, err = fileops.In(filepath.Join(out, inside.Base())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	return inside, host
}

// quickSide is a side that races a tenth of the time: how much faster several threads are is not asked here.
type quickSide struct{ fileops.Side }

func (b quickSide) Do(ctx context.Context, r fileops.Request) (fileops.Reply, error) {
	if r.Op == fileops.Race {
		r.TimeoutNS /= 10
	}
	return b.Side.Do(ctx, r)
}

// made makes a card and returns it by name.
func made(t *testing.T, in, out fileops.Side, o Options) map[string]record.Property {
	t.Helper()
	began := time.Now()
	list, err := Make(t.Context(), quickSide{in}, out, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 2*time.Minute {
		t.Errorf("the card took %v", d)
	}
	return byName(t, list)
}

// byName checks what holds of every card.
func byName(t *testing.T, list []record.Property) map[string]record.Property {
	t.Helper()
	card := map[string]record.Property{}
	for _, p := range list {
		t.Logf("%-20s %-8s %-22s %s", p.Name, p.Rating, p.Answer, p.Detail)
		if _, twice := card[p.Name]; twice {
			t.Errorf("%s is answered twice", p.Name)
		}
		card[p.Name] = p
		if p.Title == "" || p.Answer == "" || p.Detail == "" ||
			!slices.Contains([]string{good, bad, neutral}, p.Rating) || strings.Contains(p.Detail, "\n") {
			t.Errorf("%+v", p)
		}
	}
	return card
}

// want checks the answers of some lines.
func want(t *testing.T, card map[string]record.Property, answer string, names ...string) {
	t.Helper()
	for _, n := range names {
		if p, ok := card[n]; !ok || p.Answer != answer {
			t.Errorf("%s: %q (%s), want %q", n, p.Answer, p.Detail, answer)
		}
	}
}

// lines are the names of all properties of a folder.
func lines(across bool) (names []string) {
	for _, t := range trials() {
		for _, l := range t.lines {
			if across || !t.across {
				names = append(names, l.name)
			}
		}
	}
	return names
}

func TestFlushVerdictsNeverSayYes(t *testing.T) {
	for _, c := range []struct {
		fs              string
		inside, fastest time.Duration
		answer, rating  string
	}{
		{"virtiofs", 100 * time.Microsecond, 2 * time.Millisecond, no, bad},
		{"virtiofs", 1900 * time.Microsecond, 2 * time.Millisecond, untested, neutral},
		{"9p", 20 * time.Millisecond, 2 * time.Millisecond, untested, neutral},
		// too quick on the host to say anything
		{"ext4", 10 * time.Microsecond, 100 * time.Microsecond, untested, neutral},
		{"ext4", time.Millisecond, 0, untested, neutral},
		{"tmpfs", time.Microsecond, 0, no, neutral},
		{"vboxsf", time.Second, time.Millisecond, no, bad},
		{"fuse.vmhgfs-fuse", time.Second, 0, no, bad},
	} {
		answer, rating, why := flushVerdict(c.fs, c.inside, c.fastest)
		if answer != c.answer || rating != c.rating || why == "" {
			t.Errorf("%s %v against %v: %s, %s, %s", c.fs, c.inside, c.fastest, answer, rating, why)
		}
	}
}

func TestQuantilesCountWhatWasNotSeen(t *testing.T) {
	l := &lags{seen: []time.Duration{3, 1, 2}, unseen: 1, limit: 100}
	for _, c := range []struct {
		q    float64
		want time.Duration
		more bool
	}{{0, 1, false}, {0.5, 3, false}, {0.99, 100, true}} {
		if d, more := l.quantile(c.q); d != c.want || more != c.more {
			t.Errorf("quantile %v is %d, %v", c.q, d, more)
		}
	}
}

func TestLagsThatWereNotWaitedForAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		inside, host := sides(t, dir, dir)
		for left, answer := range map[time.Duration]string{2 * time.Second: untested, time.Minute: "more than 2.00 s"} {
			m := &maker{in: staleSide{inside}, out: host, end: time.Now().Add(left), budget: left}
			m.try(t.Context(), &lagTrials()[2])
			card := byName(t, m.properties)
			want(t, card, answer, "lag-create")
			if p := card["lag-create"]; answer == untested && !strings.Contains(p.Detail, "no time was left") ||
				answer != untested && p.Rating != bad {
				t.Errorf("%+v", p)
			}
		}
	})
}

// staleSide is a side that sees no change.
type staleSide struct{ fileops.Side }

func (d staleSide) Do(ctx context.Context, r fileops.Request) (fileops.Reply, error) {
	if r.Op == fileops.Wait {
		time.Sleep(time.Duration(r.TimeoutNS))
		return fileops.Reply{}, nil
	}
	return d.Side.Do(ctx, r)
}

// An sshfs tells of the blocks that the size would take.
func TestHolesAreCountedOnTheHost(t *testing.T) {
	dir := t.TempDir()
	inside, host := sides(t, dir, dir)
	for _, c := range []struct {
		out  fileops.Side
		want string
	}{{host, "takes 8 KiB on the host, and inside it appears to take 4096 KiB"},
		{unavailableSide{errors.New("no sight")}, "takes 4096 KiB"}, {nil, "takes 4096 KiB"}} {
		m := &maker{in: inventive{inside}, out: c.out, end: time.Now().Add(time.Minute)}
		m.try(t.Context(), &trial{lines: []line{{"sparse", "files may have holes"}}, run: trySparse})
		p := byName(t, m.properties)["sparse"]
		if !strings.Contains(p.Detail, c.want) || (p.Answer == no) != (c.out != fileops.Side(host)) {
			t.Errorf("%+v", p)
		}
	}
}

type inventive struct{ fileops.Side }

func (i inventive) Do(ctx context.Context, r fileops.Request) (fileops.Reply, error) {
	reply, err := i.Side.Do(ctx, r)
	if reply.Stat != nil {
		reply.Stat.Blocks = (reply.Stat.Size + 511) / 512
	}
	return reply, err
}

// hungSide is a side whose server stops answering at the first request of a kind.
type hungSide struct {
	fileops.Side
	at fileops.Op
}

func (h hungSide) Do(ctx context.Context, r fileops.Request) (fileops.Reply, error) {
	if r.Op == h.at {
		<-ctx.Done()
		return fileops.Reply{}, &fileops.StuckError{Op: r.Op}
	}
	return h.Side.Do(ctx, r)
}

// TestServersThatHangLeaveLinesUntested leaves out the races of threads, which need a clock that goes on beside them.
func TestServersThatHangLeaveLinesUntested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, host := sides(t, t.TempDir(), "")
		if host != nil {
			t.Fatal("there is a host")
		}
		m := &maker{in: hungSide{inside, fileops.Symlink}, end: time.Now().Add(defaultBudget), budget: defaultBudget}
		began := time.Now()
		lines := 0
		for _, trial := range append(nameTrials(), fileTrials()...) {
			m.try(t.Context(), &trial)
			lines += len(trial.lines)
		}
		if d := time.Since(began); d < defaultLimit || d > defaultBudget {
			t.Errorf("it took %v", d)
		}
		card := byName(t, m.properties)
		want(t, card, untested, "symlink")
		if d := card["symlink"].Detail; !strings.Contains(d, "no answer within 4s") ||
			!strings.Contains(d, "has not returned") {
			t.Errorf("detail %q", d)
		}
		want(t, card, yes, "hard-link", "rename-open")
		if len(card) != lines {
			t.Errorf("%d of %d lines", len(card), lines)
		}
	})
}

func TestBudgetsAreKept(t *testing.T) {
	inside, _ := sides(t, t.TempDir(), "")
	began := time.Now()
	card := made(t, hungSide{inside, fileops.Mkdir}, nil, Options{Budget: 600 * time.Millisecond})
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	want(t, card, untested, "parallel-stat", "mmap")
	if d := card["parallel-stat"].Detail; !strings.Contains(d, "600ms, was used up") {
		t.Errorf("detail %q", d)
	}
}

func TestTheEndOfTheContextEndsACard(t *testing.T) {
	inside, _ := sides(t, t.TempDir(), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(ctx, inside, nil, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHostsThatSeeNothingLeaveAcrossUntested(t *testing.T) {
	t.Parallel() // most of it is a wait
	inside, _ := sides(t, t.TempDir(), "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	card := made(t, inside, hostSide(ctx, filepath.Join(t.TempDir(), "nothing")), Options{})
	want(t, card, untested, "flock-across", "inotify-from-host", "inotify-to-host", "attr-cache", "lag-create",
		"close-to-open")
	if d := card["flock-across"].Detail; !strings.Contains(d, "no such file") {
		t.Errorf("detail %q", d)
	}
	want(t, card, yes, "symlink", "o-excl", "rename-open")
}

func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	box, err := fileops.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	made(t, box, nil, Options{})
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
