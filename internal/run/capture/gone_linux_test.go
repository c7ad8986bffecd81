package capture

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/internal/measure/dbserver"
)

// begin starts a process that captures, and waits until the log is on.
func (b *bench) begin(o Options) (*exec.Cmd, *bufio.Reader) {
	b.Helper()
	cmd, lines := b.process(o, "")
	if line, err := lines.ReadString('\n'); line != "began\n" {
		b.Fatal(line, err)
	}
	return cmd, lines
}

// process starts a process that captures: with a decoy, see elsewhere, as if on another machine.
func (b *bench) process(o Options, decoy string) (*exec.Cmd, *bufio.Reader) {
	b.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TARE_CAPTURE_CHILD="+string(text), "TARE_CAPTURE_DECOY="+decoy)
	if decoy != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func TestKilled(t *testing.T) {
	const secret = "a pass'word"
	each(t, func(t *testing.T, b *bench) {
		file := filepath.Join(b.dir, "pass word")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		admin := b.target
		b.target.User, b.target.Secret = "keeper", Secret{PasswordFile, file}
		create, drop := "CREATE USER keeper IDENTIFIED BY "+quote(secret), "DROP USER keeper"
		grant := "GRANT ALL ON *.* TO keeper"
		if b.target.Product == dbserver.PostgreSQL {
			create, drop, grant = "CREATE USER keeper SUPERUSER PASSWORD "+quote(secret), "DROP ROLE keeper", "SELECT 1"
		}
		user := b.target
		b.target = admin
		b.do(create, grant)
		before := b.state()
		o := b.options()
		o.Target = user
		cmd, _ := b.begin(o)
		b.work("w", 3)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		changed := b.state()
		if changed == before {
			t.Error("nothing was changed")
		}
		notes := b.notes()
		if len(notes) != 1 || strings.Contains(notes[0], "word'") || !strings.Contains(notes[0], file) {
			t.Errorf("notes: %q", notes)
		}
		for _, dry := range []bool{true, false} {
			if now := b.state(); now != changed {
				t.Error("a look has changed something")
			}
			lines, err := Clean(t.Context(), dry, os.Getenv)
			if err != nil || len(lines) != 1 || !strings.Contains(lines[0], string(user.Product)) ||
				strings.Contains(lines[0], "left") {
				t.Errorf("%q, %v", lines, err)
			}
		}
		b.same(before)
		if lines, err := Clean(t.Context(), false, os.Getenv); err != nil || len(lines) > 0 {
			t.Errorf("%q, %v", lines, err)
		}
		b.do(drop)
	})
}

// A file that the server has made and that is not here is on another machine, and is named.
func TestKilledFarAway(t *testing.T) {
	b := newBench(t, dbserver.MariaDB)
	before := b.state()
	cmd, _ := b.begin(b.options())
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	files, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "tare-*.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Rename(files[0], files[0]+".far"); err != nil {
		t.Fatal(err)
	}
	lines, err := Clean(t.Context(), false, os.Getenv)
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], files[0]+" cannot be removed from here") {
		t.Errorf("%q, %v", lines, err)
	}
	if err := os.Remove(files[0] + ".far"); err != nil {
		t.Error(err)
	}
	b.same(before)
}

// What the server's command line says cannot be changed, which is said before anything is.
func TestCommandLine(t *testing.T) {
	b := ownBench(t, dbserver.PostgreSQL)
	b.stop()
	o := options(dbserver.PostgreSQL, filepath.Base(filepath.Dir(filepath.Dir(b.target.Address))))
	o.Settings = append(o.Settings, "log_min_duration_statement=1000")
	s, err := dbserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	const want = `log_min_duration_statement is "1000", set by the server's command line`
	if _, err = Prepare(t.Context(), b.options()); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func (b *bench) stop() {
	b.Helper()
	if err := b.server.Stop(context.Background()); err != nil {
		b.Error(err)
	}
}

func (b *bench) start() {
	b.Helper()
	dir := filepath.Dir(filepath.Dir(b.target.Address))
	s, err := launch(b.target.Product, filepath.Base(dir))
	if err != nil {
		b.Fatal(err)
	}
	b.server = s
}

func TestServerGone(t *testing.T) {
	for _, p := range products {
		t.Run(string(p), func(t *testing.T) { ownBench(t, p).gone() })
	}
}

// A server of another machine, whose files it has to read itself.
func TestRemoteServerGone(t *testing.T) {
	openFile = func(string) (part, error) { return part{}, fs.ErrNotExist }
	defer func() { openFile = openHere }()
	ownBench(t, dbserver.PostgreSQL).gone()
}

// gone captures while the server is restarted, and while it goes away.
func (b *bench) gone() {
	before := b.state()
	o := b.options()
	r, err := b.captured(o, func() bool {
		b.work("w", 5)
		b.stop()
		b.start()
		return false
	})
	if err != nil || r.Abandoned == nil || !strings.Contains(r.Why, "could not go on") {
		b.Fatal(r, err)
	}
	found, _ := b.read(o)
	b.whole(found)
	if len(found) != 5 {
		b.Errorf("%d sessions", len(found))
	}
	b.same(before)

	// Now it comes back only when the capture has given up.
	if err := os.Remove(o.Out); err != nil {
		b.Fatal(err)
	}
	cmd, lines := b.begin(o)
	b.stop()
	said, _ := io.ReadAll(lines)
	if cmd.Wait() == nil || !strings.Contains(string(said), "tare clean") {
		b.Errorf("it said %q", said)
	}
	if _, err := os.Stat(o.Out); strings.Contains(string(said), "written\n") != (err == nil) {
		b.Errorf("it said %q, and of its output: %v", said, err)
	}
	if lines, err := Clean(b.Context(), false, os.Getenv); err == nil || len(lines) > 0 || len(b.notes()) != 1 {
		b.Errorf("%q, %v", lines, err)
	}
	b.start()
	if lines, err := Clean(b.Context(), false, os.Getenv); err != nil || len(lines) != 1 {
		b.Errorf("%q, %v", lines, err)
	}
	b.same(before)
}
