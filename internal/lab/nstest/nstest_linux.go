package nstest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare/internal/sys/proc"
)

// Space is a mount, a PID and a network namespace. The network has a loopback only.
type Space struct {
	holder *proc.Stream // PID 1; when it ends, all processes end
}

// hold is PID 1. Mounts made in the space are not visible outside, those made outside later are visible in it, and
// /proc shows the processes inside. It reaps children, because a daemon does not restart while its dead helper is still
// a zombie.
const hold = "mount --make-rslave / && mount -t proc proc /proc && ip link set lo up && { %s; } && echo held && " +
	"{ sleep 2147483647 & while :; do wait; done; }"

// New makes a space. setup is a line for sh that runs in it first, such as "mount ..." or ":".
func New(setup string) (*Space, error) {
	cmd := proc.Command(context.Background(), "sh", "-c", fmt.Sprintf(hold, setup))
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	holder, err := proc.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	if _, err := holder.Read(make([]byte, 16)); err != nil {
		holder.Close()
		return nil, fmt.Errorf("make namespaces: %w: %s", err, holder.Stderr())
	}
	return &Space{holder}, nil
}

// Network is the argv prefix that runs a program in the network of the space, with this machine's files.
func (s *Space) Network() []string {
	return []string{"nsenter", "--target", strconv.Itoa(s.holder.Pid()), "--net", "--"}
}

// Inside returns the command argv in all namespaces of the space.
func (s *Space) Inside(argv ...string) *proc.Cmd {
	return proc.Command(context.Background(), append([]string{"nsenter", "--target", strconv.Itoa(s.holder.Pid()),
		"--mount", "--pid", "--net", "--"}, argv...)...)
}

// Start starts a daemon in the space, which appends what it says to the file log.
func (s *Space) Start(log string, argv ...string) (*proc.Stream, error) {
	return proc.Start(s.Inside(append([]string{"sh", "-c", `log=$1; shift; exec "$@" >>"$log" 2>&1`, "sh", log},
		argv...)...))
}

// Await returns when a daemon answers, as answers says, or with the end of its log if it ended or says nothing for
// three minutes.
func Await(daemon *proc.Stream, log string, answers func(context.Context) error) error {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err := answers(ctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-daemon.Done():
			return fmt.Errorf("it ended: %v\n%s", daemon.Err(), Log(log))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within three minutes: %w\n%s", err, Log(log))
		}
	}
}

// Log is the end of a log.
func Log(file string) string {
	text, _ := os.ReadFile(file)
	return proc.Printable(text[max(0, len(text)-8<<10):])
}

// Signal sends a daemon of the space a signal (KILL, TERM) and returns when it has ended. pidFile has its process id,
// which is valid only in the space; it is removed.
func (s *Space) Signal(daemon *proc.Stream, pidFile, name string) error {
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if _, err := proc.RunCmd(s.Inside("sh", "-c", "kill -"+name+" "+strings.TrimSpace(string(pid))), nil); err != nil {
		return err
	}
	select {
	case <-daemon.Done():
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("the daemon survived SIG%s for two minutes", name)
	}
	if err := os.Remove(pidFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Close ends all processes of the space.
func (s *Space) Close() error {
	// SIGKILL from outside is the only signal that PID 1 of a namespace cannot ignore.
	if err := syscall.Kill(s.holder.Pid(), syscall.SIGKILL); err != nil {
		return err
	}
	<-s.holder.Done()
	s.holder.Close()
	return nil
}
