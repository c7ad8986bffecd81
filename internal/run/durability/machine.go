package durability

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/nbd"
	"tare/internal/sys/proc"
)

// bootTime bounds a boot, retries included.
const bootTime = 3 * time.Minute

// imageSize is the disk's size in bytes: room for roundsPerImage rounds of all classes.
const (
	imageSize      = 256 << 20
	roundsPerImage = 8
)

// UnmountableError is a disk that the guest's kernel did not mount after a cut.
type UnmountableError struct{ Err error }

func (e *UnmountableError) Error() string {
	return "the guest cannot mount the disk after the power cut: " + e.Err.Error()
}

func (e *UnmountableError) Unwrap() error { return e.Err }

// machine is a virtual machine whose disk tare serves.
type machine struct {
	*Options
	spec   env.Spec // the test's, or a control's
	target string   // what it is
	plug   env.Plug
	image  string
	disk   *nbd.Server
	file   *bridge
	env    env.Env
	agent  *deploy.Conn
	dir    string // of this boot
	// declared is the declaration of a flush by the machine's configuration, once it has booted.
	declared *record.Durability
}

// format makes a fresh disk.
func (m *machine) format(ctx context.Context) error {
	mkfs, err := proc.LookPath("mke2fs")
	if err != nil {
		return errors.New("make disk: mke2fs is not installed; install it: apt-get install e2fsprogs")
	}
	f, err := os.OpenFile(m.image, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	var header []byte
	if m.plug.Header != nil {
		header = m.plug.Header(imageSize)
	}
	_, err = f.Write(header)
	if err := errors.Join(err, f.Truncate(int64(len(header))+imageSize), f.Close()); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = proc.Run(ctx, nil, mkfs, "-q", "-F", "-t", "ext4", "-m", "0", "-L", m.plug.Label, "-E",
		fmt.Sprintf("lazy_itable_init=0,lazy_journal_init=0,nodiscard,offset=%d", len(header)), m.image,
		fmt.Sprintf("%dk", imageSize>>10))
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return nil
}

// boot serves the disk and boots the machine with it.
func (m *machine) boot(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.Info.Patience(m.spec, bootTime))
	defer cancel()
	dir, err := os.MkdirTemp(m.Dir, "boot-")
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	m.dir = dir
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	socket := filepath.Join(dir, "disk")
	if m.disk, err = nbd.Start(ctx, nbd.Options{Disk: m.image, Socket: socket, Volatile: true}); err != nil {
		return err
	}
	if m.file, err = openBridge(ctx, dir, socket); err != nil {
		return err
	}
	if m.env, err = m.Info.Driver.Open(ctx, env.Options{Spec: m.spec, Scratch: m.file.path, RunID: m.RunID, Dir: dir,
		Agents: m.Agents, Log: m.Log}); err != nil {
		if o, ok := errors.AsType[*env.OpenError](err); ok &&
			strings.Contains(string(o.Evidence), "mount scratch disk") {
			return &UnmountableError{err}
		}
		return err
	}
	if m.agent, err = deploy.Attach(ctx, m.env, m.RunID); err != nil {
		return err
	}
	if err := m.mount(ctx); err != nil {
		return err
	}
	return m.declare(ctx)
}

// mount has the agent mount the disk where the machine has not.
func (m *machine) mount(ctx context.Context) error {
	if m.plug.Label == "" {
		return nil
	}
	_, err := m.agent.Mount(ctx, &guestabi.Mount{Name: "disk", Dir: guestabi.Scratch, Type: "ext4",
		Source: guestabi.ByLabel + m.plug.Label})
	// No cut takes the label away, so without a disk of that label nothing is said of the disk.
	if f, refused := errors.AsType[*record.Failure](err); refused && ctx.Err() == nil &&
		!strings.Contains(f.Message, guestabi.NoDisk) {
		return &UnmountableError{err}
	}
	return err
}

// declare reads the configuration of the tested machine, once.
func (m *machine) declare(ctx context.Context) error {
	if m.declared != nil || m.target != Test {
		return nil
	}
	inside, err := m.agent.FactsAt(ctx, guestabi.Scratch)
	if err != nil {
		return err
	}
	d := Declared(m.spec.Driver, &record.Environment{Target: record.Target{Outside: m.env.Facts(), Inside: inside}})
	m.declared = &d
	return nil
}

// close ends the machine without a word to the guest, and then its disk.
func (m *machine) close() error {
	var errs []error
	if m.env != nil {
		errs = append(errs, m.env.Close())
	}
	if m.agent != nil {
		m.agent.Close() // its other end is gone, which is no news
	}
	if m.file != nil {
		errs = append(errs, m.file.close())
	}
	if m.disk != nil {
		errs = append(errs, m.disk.Close())
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	m.dir = ""
	m.env, m.agent, m.file, m.disk = nil, nil, nil, nil
	return errors.Join(errs...)
}

// round is the directory of a round in the guest.
func round(n int) string { return fmt.Sprintf("%s/tare-round-%d", guestabi.Scratch, n) }
