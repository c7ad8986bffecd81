package virtualbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// session is a VirtualBox of tare's own for one environment: settings, registered machines and service are in a private
// directory and behind a socket of their own, so that no machine, disk or service of any user is met.
//
// In a root directory it also has namespaces of its own. They end with this process, and all that runs in them.
type session struct {
	product
	dir     string // private, with a short path, known to `tare clean`
	release func() error
	id      string // of the service's socket
	own     bool   // the service and its settings are the session's; else they are the user's
	binds   []bind // directories of this machine that a product in a root directory sees
	// holder keeps the namespaces; nil without a root directory.
	holder *proc.Stream
	end    context.CancelFunc
	once   sync.Once
	err    error
}

// bind is a directory that has another path in the product's root.
type bind struct{ host, inside string }

// homeName is the folder for VirtualBox's settings in a session's directory.
const homeName = "home"

// open starts a session. places are directories that VirtualBox has to reach.
func (p product) open(ctx context.Context, runID string, places ...string) (_ *session, err error) {
	s := &session{product: p, own: true}
	// Sockets are made in it, whose paths have at most 107 bytes.
	if s.dir, s.release, err = leftover.New(leftover.Short(maxBase), runID); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.id = ipcPrefix + filepath.Base(s.dir)
	if err := os.Mkdir(filepath.Join(s.dir, homeName), 0o700); err != nil {
		return nil, err
	}
	if p.root != "" {
		for i, dir := range append([]string{s.dir}, places...) {
			s.binds = append(s.binds, bind{dir, bindsAt + "/" + strconv.Itoa(i)})
		}
		err = s.enter(ctx)
	}
	return s, err
}

const (
	maxBase = 24 // as for other sockets: see package mount
	// ipcPrefix begins the name of a session's socket: /tmp/.vbox-NAME-ipc.
	ipcPrefix = "tare-"
	// bindsAt is where a product in a root directory sees directories of this machine.
	bindsAt = "/tmp/tare"
)

// holderScript makes the namespaces' mounts, says so, and lasts as long as its standard input.
const holderScript = `set -e
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tare "$root/tmp"
mkdir "$root` + bindsAt + `"
while [ $# -gt 0 ]; do
	mkdir "$root$2"
	mount --rbind "$1" "$root$2"
	shift 2
done
echo ready
exec cat >/dev/null`

// enter makes the namespaces.
func (s *session) enter(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	argv := []string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--",
		"sh", "-c", holderScript, "tare-" + filepath.Base(s.dir), s.root}
	for _, b := range s.binds {
		argv = append(argv, b.host, b.inside)
	}
	var err error
	if s.holder, err = proc.Start(proc.Command(life, argv...)); err != nil {
		return err
	}
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.holder).ReadString('\n')
		said <- strings.TrimSpace(line)
	}()
	select {
	case line := <-said:
		if line == "ready" {
			return nil
		}
		<-s.holder.Done()
		return fmt.Errorf("enter %s: %s", s.root, strings.TrimSpace(proc.Printable(s.holder.Stderr())))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// command prepares a program of the product to run in the session.
func (s *session) command(ctx context.Context, argv ...string) *proc.Cmd {
	if s.root != "" {
		ns := fmt.Sprintf("/proc/%d/ns/", s.holder.Pid())
		argv = append([]string{"nsenter", "--mount=" + ns + "mnt", "--pid=" + ns + "pid_for_children", "--",
			"chroot", s.root}, argv...)
	}
	cmd := proc.Command(ctx, argv...)
	cmd.Env = os.Environ()
	if s.own {
		cmd.Env = append(cmd.Env, "VBOX_USER_HOME="+s.inside(filepath.Join(s.dir, homeName)), "VBOX_IPC_SOCKETID="+s.id)
	}
	if s.root != "" {
		cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LC_ALL=C")
	}
	return cmd
}

// unserved is VBoxManage's message when it meets the product's own server, which ends a while after its last client, at
// its end. Nothing has been done then.
const unserved = "Failed to create the VirtualBox object"

// run runs VBoxManage and returns what it printed.
func (s *session) run(ctx context.Context, args ...string) (out []byte, err error) {
	ctx, cancel := proc.WithTimeout(ctx, askTime)
	defer cancel()
	for range 3 {
		out, err = proc.RunCmd(s.command(ctx, append([]string{s.manage}, args...)...), nil)
		if err == nil {
			return out, nil
		}
		if err = explain(args, err); !strings.Contains(err.Error(), unserved) {
			break
		}
	}
	return out, err
}

// inside is the path by which the product finds a file of this machine.
func (s *session) inside(path string) string {
	for _, b := range s.binds {
		if rest, ok := strings.CutPrefix(path, b.host); ok && (rest == "" || rest[0] == filepath.Separator) {
			return b.inside + rest
		}
	}
	return path
}

// hostPath is the path by which this process finds a file of the product's.
func (s *session) hostPath(path string) string {
	for _, b := range s.binds {
		if rest, ok := strings.CutPrefix(path, b.inside); ok && (rest == "" || rest[0] == '/') {
			return b.host + rest
		}
	}
	return s.outside(path)
}

// close ends the namespaces with all that runs in them, and removes the session's files.
func (s *session) close() error {
	s.once.Do(func() {
		if s.holder != nil {
			s.end()
			<-s.holder.Done()
			s.holder.Close()
		} else if s.own {
			s.err = removeIPC(s.id)
		}
		s.err = errors.Join(s.err, s.release())
	})
	return s.err
}
