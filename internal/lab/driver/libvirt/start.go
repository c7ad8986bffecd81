package libvirt

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// manager runs micro-VMs as domains of libvirt. It implements qemu.Manager.
type manager struct {
	virsh
	firmware string            // "" or "efi"
	bus      string            // of the disks
	given    map[string]string // settings, as the user wrote them
	logs     string            // folder of libvirt's logs; "" for where it usually is
}

// maxBase bounds the path of the folder for sockets, whose own paths have at most 107 bytes.
const maxBase = 24

// startTime bounds the time from the order to libvirtd until QEMU runs.
const startTime = 2 * time.Minute

// Find asks libvirtd for its versions.
func (m *manager) Find(ctx context.Context, _ string) (string, map[string]string, error) {
	libvirt, hypervisor, err := m.version(ctx)
	if err != nil {
		return "", nil, m.explain("ask libvirtd", err)
	}
	return "libvirt " + libvirt + ", QEMU " + hypervisor,
		map[string]string{"libvirt.version": libvirt, "libvirt.uri": m.uri, "qemu.version": hypervisor}, nil
}

// Start makes a transient domain that ends with tare: libvirtd destroys it when the connection of virsh ends that made
// it, and virsh ends with tare.
func (m *manager) Start(ctx context.Context, machine *qemu.Machine) (_ *qemu.Running, err error) {
	d := &domain{virsh: m.virsh, logs: m.logs, name: machine.Name, uuid: newUUID(), ended: make(chan struct{}),
		release: func() error { return nil }}
	defer func() {
		if err == nil {
			return
		}
		d.Close()
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			x.Evidence = append(x.Evidence, d.Stderr()...)
		}
		d.clear()
	}()
	dir, release, err := leftover.New(leftover.Short(maxBase), machine.RunID)
	if err != nil {
		return nil, err
	}
	d.release = release
	s := sockets{filepath.Join(dir, "console"), filepath.Join(dir, "wire")}
	text, err := domainXML(machine, thisProcess(machine.RunID), d.uuid, s, shape{m.firmware, m.bus, system(m.uri)})
	if err != nil {
		return nil, &env.OpenError{Op: "describe domain", Err: err,
			Remedy: "tare list environments shows the settings and their values"}
	}
	console, err := listen(s.console)
	if err != nil {
		return nil, err
	}
	wire, err := listen(s.wire)
	if err != nil {
		console.Close()
		return nil, err
	}
	argv, err := d.create(ctx, text)
	if err == nil {
		err = d.connect(ctx, console, wire)
	}
	console.Close()
	wire.Close()
	if err != nil {
		return nil, err
	}
	d.pid = peer(d.wire)
	r := &qemu.Running{Process: d, Wire: d.wire, Console: consoleStream{d}, Command: argv, Ask: d.ask, Quit: d.quit,
		Release: d.clear}
	if r.Facts, err = d.facts(ctx); absent(err) {
		return nil, &env.OpenError{Op: "start domain", Err: d.died(),
			Remedy: "the evidence is libvirt's log of the domain"}
	}
	if err != nil {
		return nil, m.explain("read domain", err)
	}
	return r, nil
}

// died says why QEMU ended as soon as it was started, as far as libvirt's log can be read.
func (d *domain) died() error {
	log, err := tail(d.logFile(), 16<<10)
	if err == nil {
		lines := strings.Split(strings.TrimSpace(proc.Printable(log)), "\n")
		for _, l := range slices.Backward(lines) {
			if strings.Contains(l, "qemu-system-") && strings.Contains(l, ": ") && !strings.Contains(l, "starting up") {
				return errors.New("QEMU ended at once: " + proc.Line(l))
			}
		}
	}
	return errors.New("QEMU ended at once")
}

func listen(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// domain is a running domain that tare has made. It implements qemu.Process.
type domain struct {
	virsh
	name, uuid string
	logs       string
	end        context.CancelFunc
	session    *proc.Stream // virsh, whose connection the domain lives with
	console    *net.UnixConn
	wire       *net.UnixConn
	pid        int // of QEMU; 0 if it is not known
	once       sync.Once
	ended      chan struct{}
	release    func() error // of the sockets' folder
}

// create starts virsh, which makes the domain and stays for its events.
func (d *domain) create(ctx context.Context, text []byte) (argv []string, err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	d.end = end
	// A fixed text: the shell of virsh has its own quotes. The domain comes on standard input.
	cmd := d.command(life, "create /dev/stdin --autodestroy; event --domain "+d.uuid+" --event lifecycle --loop")
	if d.session, err = proc.Start(cmd); err != nil {
		return nil, d.explain("start virsh", err)
	}
	go io.Copy(io.Discard, d.session)
	_, err = io.Copy(d.session, bytes.NewReader(text))
	if err = errors.Join(err, d.session.CloseWrite()); err != nil {
		return nil, d.explain("make domain", d.failed(err))
	}
	return cmd.Args, nil
}

// failed is why virsh failed, as far as it says so.
func (d *domain) failed(err error) error {
	select {
	case <-d.session.Done():
	case <-time.After(time.Second):
		return err
	}
	var said strings.Builder
	for line := range strings.Lines(proc.Printable(d.session.Stderr())) {
		if !strings.Contains(line, d.uuid) { // that the domain is not there is no reason
			said.WriteString(line)
		}
	}
	return &proc.ExitError{Argv: []string{"virsh"}, Code: 1, Stderr: said.String(), Err: d.session.How()}
}

// connect waits until QEMU has called at both sockets.
func (d *domain) connect(ctx context.Context, console, wire *net.UnixListener) error {
	ctx, cancel := proc.WithTimeout(ctx, startTime)
	defer cancel()
	type call struct {
		to   **net.UnixConn
		conn *net.UnixConn
	}
	calls := make(chan call, 2)
	for to, l := range map[**net.UnixConn]*net.UnixListener{&d.console: console, &d.wire: wire} {
		go func() {
			if c, err := l.AcceptUnix(); err == nil { // it ends with the listener
				calls <- call{to, c}
			}
		}()
	}
	for range 2 {
		select {
		case c := <-calls:
			*c.to = c.conn
		case <-d.session.Done():
			return d.explain("make domain", d.failed(d.session.How()))
		case <-ctx.Done():
			return d.explain("make domain", fmt.Errorf("QEMU was not started: %w", ctx.Err()))
		}
	}
	return nil
}

// consoleStream is the console. Its end is QEMU's.
type consoleStream struct{ d *domain }

func (w consoleStream) Read(p []byte) (int, error) {
	n, err := w.d.console.Read(p)
	if err != nil {
		w.d.once.Do(func() { close(w.d.ended) })
	}
	return n, err
}

func (d *domain) Done() <-chan struct{} { return d.ended }

// Err is nil: that a machine has ended is for its reader to judge.
func (d *domain) Err() error { return nil }

func (d *domain) How() error { return errors.New("the domain has ended") }

func (d *domain) Pid() int { return d.pid }

// Stderr returns the messages of virsh and QEMU's log.
func (d *domain) Stderr() []byte {
	var said []byte
	if d.session != nil {
		said = d.session.Stderr()
	}
	if log, err := tail(d.logFile(), 16<<10); err == nil {
		said = append(append(said, "\n[log of libvirt] "...), log...)
	}
	return said
}

// quit destroys the domain: for the guest, a power cut.
func (d *domain) quit() {
	d.run(context.Background(), "destroy", d.uuid) // if it is refused, Close goes on
}

// Close ends the domain. Where libvirtd does not answer any more, QEMU is killed; libvirtd will find it gone.
func (d *domain) Close() error {
	if d.session == nil {
		return nil
	}
	var err error
	if !d.over(0) {
		if _, err = d.run(context.Background(), "destroy", d.uuid); absent(err) {
			err = nil
		}
		if !d.over(5*time.Second) && d.pid > 0 {
			if p, e := os.FindProcess(d.pid); e == nil && p.Kill() == nil && d.over(5*time.Second) {
				err = nil
			}
		}
	}
	d.end()
	d.session.Close()
	for _, c := range []*net.UnixConn{d.console, d.wire} {
		if c != nil {
			c.Close()
		}
	}
	return err
}

// over tells whether QEMU ends within a time. Without a console nobody knows.
func (d *domain) over(within time.Duration) bool {
	if d.console == nil {
		return false
	}
	select {
	case <-d.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// clear removes the sockets, and libvirt's log of the domain, which would stay for ever: no other domain has its name.
func (d *domain) clear() {
	d.release()
	if log := d.logFile(); log != "" {
		os.Remove(log)
	}
}

// logFile is libvirt's log of the domain.
func (d *domain) logFile() string {
	if d.logs != "" {
		return filepath.Join(d.logs, d.name+".log")
	}
	if system(d.uri) {
		return filepath.Join(systemLogs, d.name+".log")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "libvirt", "qemu", "log", d.name+".log")
}

const systemLogs = "/var/log/libvirt/qemu"

// tail is the end of a file.
func tail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		f.Seek(-most, io.SeekEnd)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// ask asks QEMU's monitor through libvirtd.
func (d *domain) ask(command string, limit time.Duration, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	name, arguments, ok := strings.Cut(command, " ") // as JSON
	asked := map[string]any{"execute": name}
	if ok {
		asked["arguments"] = json.RawMessage(arguments)
	}
	question, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	out, err := d.run(ctx, "qemu-monitor-command", d.uuid, string(question))
	if err != nil {
		return fmt.Errorf("ask QEMU to %s: %w", command, err)
	}
	var answer struct {
		Return json.RawMessage `json:"return"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return fmt.Errorf("ask QEMU to %s: read answer: %w", command, err)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Return, result)
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
