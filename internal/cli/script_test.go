package cli_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/bundle"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/sys/cgroup"
)

// tareBinary is the real program that the scripts run: the one that TARE_BIN names, or one built for this test.
var tareBinary string

// docs is the folder of the manual, by its full path.
var docs string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	// Most of what these tests do is wait: more of them at once than there are processors.
	flag.Parse()
	if n := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(n) {
		flag.Set("test.parallel", strconv.Itoa(2*n))
	}
	dir, err := os.MkdirTemp("", "tare-script-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Some tests run it as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if docs, err = filepath.Abs("../../docs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tareBinary = filepath.Join(dir, "tare")
	switch built := os.Getenv("TARE_BIN"); {
	case raced && testing.Short(): // see otherProcess
	case built != "":
		err = os.Symlink(built, tareBinary)
	default:
		err = buildTare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return agenttest.Main(m)
}

// buildTare builds the program as users have it: with an agent inside and one that traces, of this platform only. A
// virtual machine boots such a one sooner than the whole program, an interpreted one by minutes.
func buildTare(dir string) error {
	agents, err := filepath.Abs("../lab/deploy/agents")
	if err != nil {
		return err
	}
	// Those that "make build" made, of another build, are left out.
	replace := map[string]string{}
	others, _ := filepath.Glob(filepath.Join(agents, "*.gz"))
	for _, name := range others {
		replace[name] = ""
	}
	for _, command := range []string{"tare-agent", "tare-tracer"} {
		packed := command + "_" + runtime.GOOS + "_" + runtime.GOARCH + ".gz"
		if err := buildAgent(command, filepath.Join(dir, packed)); err != nil {
			return err
		}
		replace[filepath.Join(agents, packed)] = filepath.Join(dir, packed)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	return goBuild("-tags", "bundle", "-overlay", file, "-o", tareBinary, "tare/cmd/tare")
}

// buildAgent builds a command that goes into environments, and packs it.
func buildAgent(command, packed string) error {
	if err := goBuild("-ldflags", "-s -w", "-o", packed+".tmp", "tare/cmd/"+command); err != nil {
		return err
	}
	text, err := os.ReadFile(packed + ".tmp")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is a constant
	if _, err := z.Write(text); err != nil {
		return err
	}
	return errors.Join(z.Close(), os.WriteFile(packed, b.Bytes(), 0o600), os.Remove(packed+".tmp"))
}

func goBuild(args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// otherProcess leaves a test of the program itself out of the race detector's short run: it sees this process only.
func otherProcess(t *testing.T) {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("the race detector does not see into another process")
	}
}

// scripts lists the scripts. The one that takes longest begins first: it boots an interpreted machine, and by its name
// was at work for minutes after all others had ended.
func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/script/*.txtar")
	longest := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == "virtualbox.txtar" })
	if err != nil || longest < 0 {
		t.Fatalf("there are no scripts, or not the longest: %d, %v", len(files), err)
	}
	return slices.Insert(slices.Delete(files, longest, longest+1), 0, "../../testdata/script/virtualbox.txtar")
}

// TestScripts runs testdata/script/*.txtar against the real binary and real environments.
func TestScripts(t *testing.T) {
	otherProcess(t)
	testscript.Run(t, testscript.Params{
		Files: scripts(t),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(tareBinary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			// Guest kernels are cached outside the tree; the scripts use the cache of whoever runs the tests.
			if cache, err := os.UserCacheDir(); err == nil {
				e.Setenv("XDG_CACHE_HOME", cache)
			}
			if bundles, err := filepath.Abs("../../testdata/bundles"); err == nil {
				e.Setenv("BUNDLES", bundles)
			}
			for _, name := range []string{"TARE_VIRTUALBOX_ROOT", "TARE_VBOXSF_MODULES"} {
				e.Setenv(name, os.Getenv(name))
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch {
			case cond == "root":
				return os.Getuid() == 0, nil
			case cond == "require":
				return os.Getenv("TARE_REQUIRE") != "", nil
			case cond == "virtualbox":
				return os.Getenv("TARE_VIRTUALBOX_ROOT") != "" && os.Getenv("TARE_VBOXSF_MODULES") != "", nil
			case cond == "limits":
				disk, err := cgroup.DiskBelow(os.TempDir())
				return err == nil && cgroup.Check(&cgroup.Limits{Quota: 0.5,
					Rates: []cgroup.Rate{{Disk: disk, Write: true, Ops: true, Limit: 1000}}}) == nil, nil
			case cond == "full":
				return !testing.Short(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"interrupt": interrupt,
			"flip":      flip,
			"truncate":  truncate,
			"gone":      gone,
			"valid":     valid,
		},
	})
}

// exits runs a command and checks its exit code: exits CODE COMMAND... Its streams can be looked at as after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		got = x.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("%v exited with %d, want %d", args[1:], got, want)
	}
}

// interrupt starts tare, waits until a bundle holds a number of trials, sends a signal and waits for the end:
// interrupt INT|KILL BUNDLE TRIALS ARG... Its exit code does not matter; what it said is in the file said.txt.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt INT|KILL BUNDLE TRIALS ARG...")
	}
	sig, ok := map[string]os.Signal{"INT": os.Interrupt, "KILL": os.Kill}[args[0]]
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	if !ok {
		ts.Fatalf("no signal is called %s", args[0])
	}
	cmd := exec.Command(tareBinary, args[3:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), "XDG_CACHE_HOME="+ts.Getenv("XDG_CACHE_HOME"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Minute
	ts.Check(cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	trials := filepath.Join(ts.MkAbs(args[1]), bundle.TrialsFile)
	deadline := time.After(5 * time.Minute)
	for waiting := true; waiting; {
		select {
		case <-ended:
			ts.Fatalf("tare %v ended before there were %d trials:\n%s", args[3:], want, said.String())
		case <-deadline:
			cmd.Process.Kill()
			<-ended
			ts.Fatalf("%s never had %d trials:\n%s", args[1], want, said.String())
		case <-time.After(5 * time.Millisecond):
			b, _ := os.ReadFile(trials) // it is not there at first
			waiting = bytes.Count(b, []byte("\n")) < want
		}
	}
	ts.Check(cmd.Process.Signal(sig))
	<-ended
	ts.Check(os.WriteFile(ts.MkAbs("said.txt"), said.Bytes(), 0o644))
}

// flip changes one digit in the middle of a file, as a person with an editor would: flip FILE.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	for i := len(b) / 2; i < len(b); i++ {
		if b[i] >= '1' && b[i] <= '8' {
			b[i]++
			ts.Check(os.WriteFile(name, b, 0o644))
			return
		}
	}
	ts.Fatalf("no digit in %s", name)
}

// truncate cuts the last bytes off a file: truncate FILE BYTES.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()-int64(n)))
}

// gone waits until nothing of a run is to be seen any more: no process, no mount, no file, nothing that tare clean
// knows of: gone BUNDLE. With the word "directories" behind it, those may still be there.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: gone BUNDLE [directories]")
	}
	b, err := bundle.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	id, allowed := b.Manifest.RunID, len(args) > 1
	var left []string
	for range 1200 { // two minutes, for a busy machine
		left = traces(id)
		if entries, err := os.ReadDir(ts.Getenv("TMPDIR")); err == nil && !allowed {
			for _, e := range entries {
				left = append(left, "file "+e.Name())
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if len(left) > 0 {
		ts.Fatalf("left behind: %v", left)
	}
	ts.Check(ts.Exec("tare", "clean", "--dry-run"))
	if out := ts.ReadFile("stdout"); strings.Contains(out, id) != allowed {
		ts.Fatalf("clean --dry-run says of run %s: %s", id, out)
	}
}

// traces returns the processes and mounts of this machine that carry a run's id. Only Linux lists them in a form to be
// read here.
func traces(id string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		if line := strings.ReplaceAll(string(b), "\x00", " "); err == nil && strings.Contains(line, id) {
			found = append(found, "process "+filepath.Base(d)+" "+line)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for m := range strings.Lines(string(mounts)) {
		if strings.Contains(m, id) {
			found = append(found, "mount "+m)
		}
	}
	return found
}

// valid checks a JSON file against a schema of docs: valid SCHEMA FILE. The word stdout stands for the last output.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: valid SCHEMA FILE")
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(docs, args[0]))
	ts.Check(err)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(schema.Validate(document))
}
