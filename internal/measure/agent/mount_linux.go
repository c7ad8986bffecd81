package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/nfsd"
	"tare/internal/sys/proc"
)

// How long the steps of a mount may take. If the server does not answer, mount(2) blocks for much longer.
const (
	mountTime = 45 * time.Second
	fillTime  = 10 * time.Minute // for a program that copies
)

// kindMount is the kind of failure of a folder that could not be put in.
const kindMount = "mount"

// mounts are the folders that the agent put into its system.
type mounts struct {
	networkUp bool
	dirs      []string                // mounted by mount(2) or by a program, in that order
	programs  map[string]*proc.Stream // of programs that serve a mount, by name
	nfs       *nfsd.Server            // nil unless this system serves a folder
	secrets   []string
	root      string          // of the workers; "" when it is the agent's own
	shown     map[string]bool // directories that were made visible there
}

// add carries out an order. A failure says what is missing, if the kernel reports it.
func (ms *mounts) add(ctx context.Context, m *guestabi.Mount) (got wire.Mounted, f *record.Failure) {
	if m.Secret != "" {
		ms.secrets = append(ms.secrets, m.Secret)
	}
	fail := func(op string, err error, evidence []byte) (wire.Mounted, *record.Failure) {
		return got, &record.Failure{
			Kind: kindMount, Message: ms.hide(fmt.Sprintf("mount %s: %s: %v", m.Name, op, err)),
			Evidence: ms.hide(proc.Printable(evidence)),
		}
	}
	if !filepath.IsAbs(m.Dir) || filepath.Clean(m.Dir) == "/" {
		return fail("check mount point", fmt.Errorf("%q is not an absolute path below /", m.Dir), nil)
	}
	if m.Network && !ms.networkUp {
		if err := NetworkUp(); err != nil {
			return fail("bring up the network", err, nil)
		}
		ms.networkUp = true
	}
	if m.Link != nil {
		if err := linkUp(m.Link); err != nil {
			return fail("bring up the link", err, nil)
		}
	}
	for _, file := range m.Files {
		if err := writeFile(file); err != nil {
			return fail("write file", err, nil)
		}
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return fail("make mount point", err, nil)
	}
	switch {
	case m.Serve != nil:
		if err := ms.export(ctx, m); err != nil {
			return fail("serve", err, kernelLog())
		}
	case len(m.Command) == 0:
		if err := bounded(ctx, mountTime, func() error { return mountCall(m) }); err != nil {
			return fail("mount -t "+m.Type, explainMount(m, err), kernelLog())
		}
		ms.dirs = append(ms.dirs, m.Dir)
	case m.Once:
		ctx, cancel := context.WithTimeout(ctx, fillTime)
		defer cancel()
		cmd := proc.Command(ctx, m.Command...)
		cmd.Env = append(os.Environ(), m.Env...)
		if out, err := proc.RunCmd(cmd, nil); err != nil {
			return fail("run "+filepath.Base(m.Command[0]), err, out)
		}
	default:
		if evidence, err := ms.serve(ctx, m); err != nil {
			return fail("run "+filepath.Base(m.Command[0]), err, evidence)
		}
		ms.dirs = append(ms.dirs, m.Dir)
	}
	point, kind, source, options, ok := sysinfo.MountAt(m.Dir)
	if !ok || !m.Once && m.Serve == nil && point != filepath.Clean(m.Dir) {
		return fail("read back", fmt.Errorf("the kernel does not show a mount at %s", m.Dir), nil)
	}
	if err := ms.show(filepath.Clean(m.Dir)); err != nil {
		return fail("make it visible to the workers", err, nil)
	}
	got.Type, got.Source, got.Options = kind, ms.hide(source), ms.hide(options)
	return got, nil
}

// hide takes secrets out of text.
func (ms *mounts) hide(s string) string {
	for _, secret := range ms.secrets {
		for o := range strings.SplitSeq(secret, ",") {
			if _, v, ok := strings.Cut(o, "="); ok && v != "" {
				s = strings.ReplaceAll(s, v, "(hidden)")
			}
		}
	}
	return s
}

// serve starts a program that mounts m.Dir and waits until it has.
func (ms *mounts) serve(ctx context.Context, m *guestabi.Mount) (evidence []byte, err error) {
	cmd := proc.Command(context.WithoutCancel(ctx), m.Command...)
	cmd.Env = append(os.Environ(), m.Env...)
	program, err := proc.Start(cmd)
	if err != nil {
		return nil, err
	}
	if ms.programs == nil {
		ms.programs = map[string]*proc.Stream{}
	}
	for end := time.Now().Add(mountTime); ; {
		if point, _, _, _, ok := sysinfo.MountAt(m.Dir); ok && point == filepath.Clean(m.Dir) {
			ms.programs[m.Name] = program
			return nil, nil
		}
		select {
		case <-program.Done():
			err = errors.New("it ended before the folder was mounted")
			if e := program.Err(); e != nil {
				err = fmt.Errorf("%w: %w", err, e)
			}
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(5 * time.Millisecond):
			if time.Now().After(end) {
				err = fmt.Errorf("the folder was not mounted after %v", mountTime)
			}
		}
		if err != nil {
			program.Close()
			return program.Stderr(), err
		}
	}
}

// close unmounts everything, the last first. The system ends with the agent, so a mount whose server is dead is only
// detached.
func (ms *mounts) close() {
	for dir := range ms.shown {
		unix.Unmount(filepath.Join(ms.root, dir), unix.MNT_DETACH)
	}
	for _, dir := range slices.Backward(ms.dirs) {
		unix.Unmount(dir, unix.MNT_DETACH)
	}
	for _, p := range ms.programs {
		p.Close()
	}
	if ms.nfs != nil {
		ms.nfs.Close()
	}
	ms.nfs = nil
	ms.dirs, ms.programs, ms.shown = nil, nil, nil
}

// serves tells whether a process belongs to the program that serves a mount: the ssh of sshfs becomes an orphan.
func (ms *mounts) serves(pid int) bool {
	group, err := unix.Getpgid(pid)
	if err != nil {
		return false
	}
	for _, p := range ms.programs {
		if p.Pid() == group {
			return true
		}
	}
	return false
}

// bounded runs a call that may hang in the kernel and gives up waiting for it.
func bounded(ctx context.Context, limit time.Duration, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v; check that the server runs and can be reached", limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mountFlags are the mount options that are flags of mount(2).
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "rw": 0, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"sync":    unix.MS_SYNCHRONOUS,
	"dirsync": unix.MS_DIRSYNC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME,
	"relatime":    unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "lazytime": unix.MS_LAZYTIME, "bind": unix.MS_BIND,
}

func mountCall(m *guestabi.Mount) error {
	source, err := awaitDevice(m.Source)
	if err != nil {
		return err
	}
	var flags uintptr
	var data []string
	for _, o := range []string{m.Options, m.Secret} {
		for word := range strings.SplitSeq(o, ",") {
			if flag, ok := mountFlags[word]; ok {
				flags |= flag
			} else if word != "" {
				data = append(data, word)
			}
		}
	}
	// A signal, such as the one by which Go's runtime preempts, ends the wait for a server's answer with EINTR: nothing
	// is mounted then, and the call is made again.
	for tries := 0; ; tries++ {
		err := unix.Mount(source, m.Dir, m.Type, flags, strings.Join(data, ","))
		if !errors.Is(err, unix.EINTR) || tries == mountTries {
			return err
		}
	}
}

// mountTries bounds how often an interrupted mount is begun again.
const mountTries = 10

// explainMount adds what the bare error number of mount(2) does not say.
func explainMount(m *guestabi.Mount, err error) error {
	switch {
	case m.Refused != "" && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT)):
		return fmt.Errorf("%s (%w)", m.Refused, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("the guest's kernel does not support the file system %s (%w)", m.Type, err)
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("the guest's kernel does not support that protocol (%w)", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the guest's kernel does not accept the options %q (%w)", m.Options, err)
	}
	return err
}

// kernelLog returns the end of the kernel's messages, where file systems report why they refuse.
func kernelLog() []byte {
	b := make([]byte, 64<<10)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
	return []byte(strings.Join(lines[max(0, len(lines)-12):], "\n"))
}

func writeFile(f guestabi.File) error {
	if !filepath.IsAbs(f.Path) {
		return fmt.Errorf("%q is not an absolute path", f.Path)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, os.FileMode(f.Mode).Perm())
	if err != nil {
		return err
	}
	if _, err := file.Write(f.Data); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
