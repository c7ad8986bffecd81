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
	"tare/internal/sys/sock"
)

// nginx is a server of this trial: one process with its own configuration, folders and port.
type nginx struct {
	program     string
	version     string          // "nginx/1.22.1"
	without     map[string]bool // modules that it was built without
	log         bool            // it has an option for its log before it reads its configuration
	home        string          // folder of its configuration and of its files
	root        string          // folder of the page
	connections int             // concurrent connections to it
	two         bool            // it speaks HTTP/2 only
	at          netip.Addr      // where it listens; without one, on the loopback
	page        string          // the page's file
	size        int64
	seed        uint64
	digest      string
	addr        netip.AddrPort
	process     *proc.Stream
}

// pagePath is the path of the page on the server.
const pagePath = "/page.bin"

// spare is the number of extra connections of a server: for checks, and its own.
const spare = 64

// places is the number of connections in nginx's configuration for so many clients. It closes connections that wait for
// a request while less than a sixteenth of the places is free.
func places(connections int) int { return connections + connections/8 + spare }

// starts bounds the starts of a server whose port another program takes first.
const starts = 5

// findNginx looks for the environment's nginx and asks it how it was built.
func findNginx(ctx context.Context) (*nginx, error) {
	program, err := proc.LookPath("nginx")
	if err != nil {
		return nil, &record.Failure{Kind: "refused",
			Message: "http: there is no nginx in this environment (neither in PATH nor in an sbin folder); install " +
				"it there (Debian: apt-get install nginx-light), use a root image with it in a micro-VM (tare guest " +
				"build --packages nginx-light, then vm=qemu?root=debian&packages=nginx-light), or name your own " +
				"server with url="}
	}
	n := &nginx{program: program}
	cmd := proc.Command(ctx, program, "-V")
	said := proc.NewTail(32 << 10)
	cmd.Env, cmd.Stderr = environ(), said
	if err := proc.Wait(cmd); err != nil {
		return nil, &record.Failure{Kind: "refused",
			Message:  fmt.Sprintf("http: %s -V does not report how nginx was built: %v", program, err),
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

// furnish makes the folders, and the page unless an earlier trial of this cell made it.
func (n *nginx) furnish(b *workload.Bench, size int64) error {
	home := b.Home
	if home == "" {
		home = b.Dir
	}
	n.home, n.root, n.size = filepath.Join(home, "nginx"), filepath.Join(b.Dir, "www"), size
	n.page = filepath.Join(n.root, pagePath)
	for _, text := range []string{n.home, n.root} {
		// nginx cannot quote these characters, and takes $ for a variable.
		if strings.ContainsAny(text, "\"\\$\n;{}") {
			return &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("http: nginx's configuration cannot contain the folder name %q; use another "+
					"work directory", text)}
		}
	}
	if err := removeAll(n.home); err != nil { // left by a trial that was killed
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

// renew replaces the page's file by a new one, to which no buffer in the system refers.
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

// writeSynced writes a file and flushes it, so that its pages can be dropped.
func writeSynced(path string, p []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Sync(), f.Close())
}

// configuration is nginx's, with the settings of Debian's that matter for a static page. A single process does
// everything: its CPU time is read, and nothing is left of it when tare is killed. Requests write nothing.
func (n *nginx) configuration() string {
	var temps strings.Builder
	fmt.Fprintf(&temps, "\tclient_body_temp_path \"%s/temp\";\n", n.home)
	for _, m := range []string{"proxy", "fastcgi", "uwsgi", "scgi"} {
		if !n.without[m] {
			fmt.Fprintf(&temps, "\t%s_temp_path \"%s/temp\";\n", m, n.home)
		}
	}
	workers, version, sendfile := places(n.connections), "", "on"
	if n.two {
		// Over HTTP/2 without TLS, it would hold the end of each part of a body back until the client has acknowledged
		// what came before, 40 ms later.
		sendfile = "off"
		workers, version = places(2*n.connections), " http2"
		fmt.Fprintf(&temps, "\thttp2_max_concurrent_streams %d;\n", maxStreams)
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
	sendfile %[8]s;
	tcp_nopush on;
	default_type application/octet-stream;
	keepalive_timeout 1h;
	keepalive_requests 1000000000;
	server {
		listen %[3]s%[7]s backlog=%[5]d;
		root "%[4]s";
	}
}
`, n.home, temps.String(), n.addr, n.root, workers, sameUser(), version, sendfile)
}

// sameUser keeps a server that root starts from giving its folders to nginx's default user, which an environment may
// not have. The process itself always runs as the user that started it.
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

// start starts the server and waits until it listens. The first request checks that it serves pages.
func (n *nginx) start(ctx context.Context) error {
	at := n.at
	if !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	var err error
	for range starts {
		var port uint16
		if port, err = freePortAt(at); err != nil {
			return fmt.Errorf("http: %w", err)
		}
		n.addr = netip.AddrPortFrom(at, port)
		if err = n.launch(ctx); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
	return err
}

// startIn is start in a network. The server ends with the thread that has started it, which waits there.
func (n *nginx) startIn(ctx context.Context, space string) error {
	started := make(chan error, 2)
	go func() {
		started <- sock.In(space, func() error {
			err := n.start(ctx)
			if process := n.process; err == nil {
				started <- nil
				<-process.Done()
			}
			return err
		})
	}()
	return <-started
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
	// It outlives the context, so that it is stopped in one place only.
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
			return n.given("http: nginx ended during its start")
		case <-ctx.Done():
			n.stop()
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return n.given(fmt.Sprintf("http: nginx did not start within %v", startTime))
}

// given gives up a server that does not start.
func (n *nginx) given(why string) error {
	err := n.failed("setup", errors.New(why))
	n.stop()
	return err
}

// waits tells whether the server sleeps, that is, has finished its start; true if the system does not report it.
func (n *nginx) waits() bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(n.process.Pid()) + "/stat")
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(text, ')')
	return i < 0 || i+2 >= len(text) || text[i+2] == 'S'
}

// failed adds the server's log, and how it ended if it has.
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

// reason finds the worst line in nginx's log, or else how it ended.
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

// stopTime bounds the time in which a server stops: it has nothing to finish.
const stopTime = 2 * time.Second

// stop stops the server and waits for its end.
func (n *nginx) stop() {
	if n.process == nil {
		return
	}
	process := n.process
	n.process = nil
	defer process.Close()
	_ = process.Signal(os.Interrupt) // fails when it has ended
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
	return proc.CPUTime(n.process.Pid())
}

// remove removes the server's files. The page is kept for the next trial.
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
