//go:build unix

package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// nginx is a server of this trial's own: one process, whose configuration, folders and port are nobody else's.
type nginx struct {
	program     string
	version     string          // "nginx/1.22.1"
	without     map[string]bool // modules that it was built without
	log         bool            // it can be told where its log goes before it reads its configuration
	home        string          // folder of its configuration and of what it writes
	root        string          // folder of the page
	connections int             // that are made to it at a time
	page        string          // the page's file
	size        int64
	seed        uint64
	digest      string
	addr        netip.AddrPort
	process     *proc.Stream
}

// pagePath is where the page is found on the server.
const pagePath = "/page.bin"

// spare is how many connections a server may have besides: those of checks, and its own.
const spare = 64

// starts is how often a server is started whose port another program takes first.
const starts = 5

// findNginx looks for the environment's nginx and asks it how it was built.
func findNginx(ctx context.Context) (*nginx, error) {
	program, err := proc.LookPath("nginx")
	if err != nil {
		return nil, &record.Failure{Kind: "refused",
			Message: "http: there is no nginx in this environment (not in PATH, nor in an sbin folder); install it " +
				"there (Debian: apt-get install nginx-light), " +
				"give a micro-VM an image with it (tare guest build --packages nginx-light, then " +
				"vm=qemu?root=debian&packages=nginx-light), or name a server of your own with url="}
	}
	n := &nginx{program: program}
	cmd := proc.Command(ctx, program, "-V")
	said := proc.NewTail(32 << 10)
	cmd.Env, cmd.Stderr = environ(), said
	if err := proc.Wait(cmd); err != nil {
		return nil, &record.Failure{Kind: "refused",
			Message:  fmt.Sprintf("http: %s -V does not say how it was built: %v", program, err),
			Evidence: proc.Printable(said.Bytes())}
	}
	n.built(string(said.Bytes()))
	return n, nil
}

// built reads what nginx -V says.
func (n *nginx) built(text string) {
	n.without, n.version = map[string]bool{}, "unknown"
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "nginx version: "); ok {
			n.version, _, _ = strings.Cut(v, " ")
		}
	}
	for _, word := range strings.Fields(text) {
		if m, ok := strings.CutPrefix(word, "--without-http_"); ok {
			n.without[strings.TrimSuffix(m, "_module")] = true
		}
	}
	_, v, _ := strings.Cut(n.version, "/")
	var major, minor, patch int
	if k, _ := fmt.Sscanf(v, "%d.%d.%d", &major, &minor, &patch); k == 3 {
		n.log = major > 1 || minor > 19 || minor == 19 && patch >= 5
	}
}

func environ() []string { return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC"} }

// furnish makes the folders, and the page unless an earlier trial of this cell has.
func (n *nginx) furnish(b *workload.Bench, size int64) error {
	home := b.Home
	if home == "" {
		home = b.Dir
	}
	n.home, n.root, n.size = filepath.Join(home, "nginx"), filepath.Join(b.Dir, "www"), size
	n.page = filepath.Join(n.root, pagePath)
	for _, text := range []string{n.home, n.root} {
		// nginx puts no other word in quotes than one without these, and takes $ for a variable.
		if strings.ContainsAny(text, "\"\\$\n;{}") {
			return &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("http: nginx cannot be told of a folder with the name %q; give the environment "+
					"another work directory", text)}
		}
	}
	if err := removeAll(n.home); err != nil { // of a trial that was killed
		return err
	}
	for _, dir := range []string{n.home, filepath.Join(n.home, "temp"), n.root} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fileio.Explain("create", dir, err)
		}
	}
	n.seed = b.Seed
	want := n.content()
	sum := sha256.Sum256(want)
	n.digest = hex.EncodeToString(sum[:])
	if st, err := os.Stat(n.page); err == nil && st.Size() == size {
		if have, err := os.ReadFile(n.page); err == nil && bytes.Equal(have, want) {
			return nil
		}
	}
	if err := fileio.CheckFreeSpace(n.root, space(size), 10); err != nil {
		return err
	}
	return n.renew()
}

// content is the page's: incompressible, and the same everywhere.
func (n *nginx) content() []byte {
	p := make([]byte, n.size)
	fileio.FillRandom(p, n.seed)
	return p
}

// renew makes the page's file anew. Its name then is another file's, of which no buffer in the system has a part.
func (n *nginx) renew() error {
	next := n.page + ".new"
	err := writeSynced(next, n.content())
	if err == nil {
		err = os.Rename(next, n.page)
	}
	if err != nil {
		return fileio.Explain("write", n.page, err)
	}
	return nil
}

// writeSynced writes a file and brings it to stable storage, so that its pages can be dropped.
func writeSynced(path string, p []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Sync(), f.Close())
}

// configuration is nginx's, with what Debian's has that matters to a page from a file. One process does all: it is the
// one whose processor time is read, and nothing is left of it when tare is killed. Nothing is written for a request.
func (n *nginx) configuration() string {
	var temps strings.Builder
	fmt.Fprintf(&temps, "\tclient_body_temp_path \"%s/temp\";\n", n.home)
	for _, m := range []string{"proxy", "fastcgi", "uwsgi", "scgi"} {
		if !n.without[m] {
			fmt.Fprintf(&temps, "\t%s_temp_path \"%s/temp\";\n", m, n.home)
		}
	}
	return fmt.Sprintf(`%[6]sdaemon off;
master_process off;
pid "%[1]s/pid";
lock_file "%[1]s/lock";
error_log stderr warn;
events {
	worker_connections %[5]d;
}
http {
%[2]s	access_log off;
	sendfile on;
	tcp_nopush on;
	default_type application/octet-stream;
	keepalive_timeout 1h;
	keepalive_requests 1000000000;
	server {
		listen %[3]s;
		root "%[4]s";
	}
}
`, n.home, temps.String(), n.addr, n.root, n.connections+spare, sameUser())
}

// sameUser keeps a server that root starts from giving its folders to the user that it was built for, which an
// environment need not have. One process runs as who started it, whatever is said here.
func sameUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	u, err := user.LookupId("0")
	if err != nil {
		return ""
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("user %s %s;\n", u.Username, g.Name)
}

// start starts the server and waits until it listens. Whether the pages come is for the first request to see.
func (n *nginx) start(ctx context.Context) error {
	var err error
	for range starts {
		var port uint16
		if port, err = freePort(); err != nil {
			return fmt.Errorf("http: %w", err)
		}
		n.addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		if err = n.launch(ctx); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
	return err
}

func (n *nginx) launch(ctx context.Context) error {
	config, pid := filepath.Join(n.home, "nginx.conf"), filepath.Join(n.home, "pid")
	if err := os.Remove(pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileio.Explain("remove", pid, err)
	}
	if err := os.WriteFile(config, []byte(n.configuration()), 0o600); err != nil {
		return fileio.Explain("write", config, err)
	}
	argv := []string{n.program, "-p", n.home + "/", "-c", config}
	if n.log {
		argv = append(argv, "-e", "stderr")
	}
	// It outlives the context, so that it is ended in one place only.
	cmd := proc.Command(context.WithoutCancel(ctx), argv...)
	cmd.Dir, cmd.Env = "/", environ()
	process, err := proc.Start(cmd)
	if err != nil {
		return fmt.Errorf("http: start nginx: %w", err)
	}
	n.process = process
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		// It writes the file after it has bound its port.
		if st, err := os.Stat(pid); err == nil && st.Size() > 0 && n.waits() {
			return nil
		}
		select {
		case <-process.Done():
			return n.given("http: nginx ended instead of starting")
		case <-ctx.Done():
			n.stop()
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return n.given(fmt.Sprintf("http: nginx did not start within %v", startTime))
}

// given gives a server up that does not start.
func (n *nginx) given(why string) error {
	err := n.failed("setup", errors.New(why))
	n.stop()
	return err
}

// waits tells whether the server sleeps, which it does when it has nothing more to prepare; true where the system does
// not tell.
func (n *nginx) waits() bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(n.process.Pid()) + "/stat")
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(text, ')')
	return i < 0 || i+2 >= len(text) || text[i+2] == 'S'
}

// failed adds what the server said, and how it ended if it has.
func (n *nginx) failed(kind string, err error) error {
	msg, log := err.Error(), ""
	if n.process != nil {
		log = proc.Printable(n.process.Diagnose())
		if why := reason(log); why != "" {
			msg += "; its log says: " + why
		}
	}
	return &record.Failure{Kind: kind, Message: msg, Evidence: log}
}

// reason finds in nginx's words the worst of them, or else how it ended.
func reason(log string) string {
	for _, word := range []string{"[emerg]", "[alert]", "[crit]", "[error]", "[nginx: "} {
		for line := range strings.Lines(log) {
			if i := strings.Index(line, word); i >= 0 {
				return strings.TrimSpace(line[i:])
			}
		}
	}
	return ""
}

// stopTime is how long a server may take to leave: it has nothing to finish.
const stopTime = 2 * time.Second

// stop ends the server and waits for its end.
func (n *nginx) stop() {
	if n.process == nil {
		return
	}
	process := n.process
	n.process = nil
	defer process.Close()
	if p, err := os.FindProcess(process.Pid()); err == nil {
		_ = p.Signal(os.Interrupt)
	}
	select {
	case <-process.Done():
	case <-time.After(stopTime):
		_ = process.Kill() // fails when it has just ended
		<-process.Done()
	}
}

func (n *nginx) cpu() (time.Duration, bool) {
	if n.process == nil {
		return 0, false
	}
	return cpuTime(n.process.Pid())
}

// remove removes what the server had. The page stays for the next trial.
func (n *nginx) remove() error { return removeAll(n.home) }

func removeAll(path string) error {
	if path == "" {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return fileio.Explain("remove", path, err)
	}
	return nil
}
