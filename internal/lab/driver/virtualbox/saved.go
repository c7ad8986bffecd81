package virtualbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/lab/microvm"
	"tare/internal/measure/line"
	"tare/internal/sys/proc"
)

// A boot of an interpreted CPU takes most of a minute. So the state of the first machine of a kind, before any session
// of its agent, is kept in the user's cache with its scratch disk, and later machines of that kind go on from there.
// What a state depends on is in its name: the product and its release, the medium with its kernel and agent, every
// setting of the machine, and the processor.

// savedKept is the number of states that stay in the cache. Each has up to the size of its guest's memory.
const savedKept = 4

// savedState is the place of a saved state in the cache.
type savedState struct{ dir string }

const stateName = "machine.sav"

// findSaved returns the place of this machine's saved state.
func (b *boot) findSaved() (savedState, error) {
	if !b.config.saved {
		return savedState{}, nil
	}
	cache := b.kernels
	if cache == "" {
		var err error
		if cache, err = microvm.DefaultCache(); err != nil {
			return savedState{}, err
		}
	}
	// The medium's own file has the time in it.
	var medium []string
	for _, k := range []string{"guest.kernel.package", "guest.kernel.arguments", "guest.initramfs.sha256"} {
		medium = append(medium, b.written.Facts[k])
	}
	// What the guest sees of its disks, and the form of the one that is kept.
	var disks []string
	for _, d := range b.disks() {
		shape := fmt.Sprint(d.controller, d.lun, d.size)
		if d == b.scratch() {
			shape += d.label + d.format
		}
		disks = append(disks, shape)
	}
	text, err := json.Marshal(map[string]any{
		"format": 1, "version": b.version, "root": b.config.root, "medium": medium,
		"hardware": b.config.hardware(b.major()),
		"disks":    disks, "processor": processor(),
	})
	if err != nil {
		return savedState{}, err
	}
	sum := sha256.Sum256(text)
	return savedState{filepath.Join(cache, "virtualbox", hex.EncodeToString(sum[:16]))}, nil
}

// processor names what the guest's processor is made after.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	first, _, _ := bytes.Cut(text, []byte("\n\n"))
	var kept []byte
	for line := range bytes.Lines(first) {
		for _, name := range []string{"vendor_id", "cpu family", "model", "stepping", "flags"} {
			if bytes.HasPrefix(line, []byte(name)) {
				kept = append(kept, line...)
				break
			}
		}
	}
	return string(kept)
}

// wanted tells whether a state is to be kept.
func (s savedState) wanted() bool { return s.dir != "" }

// there tells whether there is a state.
func (s savedState) there() bool { return s.wanted() && exists(filepath.Join(s.dir, stateName)) }

func (s savedState) remove() error { return os.RemoveAll(s.dir) }

// save saves the state of a machine that has just booted, keeps it, and goes on from it.
func (b *boot) save(ctx context.Context, s savedState) error {
	b.op, b.remedy = "save the machine's state", "saved=off does without"
	if err := b.vm.wire.HangUp(); err != nil {
		return err
	}
	if _, err := b.session.run(ctx, "controlvm", b.vm.name, "savestate"); err != nil {
		return err
	}
	select {
	case <-b.vm.process.Done():
	case <-time.After(time.Minute):
		return errors.New("VirtualBox's process did not end after it saved the machine's state")
	case <-ctx.Done():
		return ctx.Err()
	}
	b.vm.kill()
	found, err := filepath.Glob(filepath.Join(b.vm.machines, b.vm.name, "Snapshots", "*.sav"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("VirtualBox left %d saved states: %w", len(found), err)
	}
	if err := b.keep(ctx, s, found[0]); err != nil {
		// The machine works without: a full disk is no reason to fail.
		b.Log.Warn("saved state not kept", "env", b.Name, "error", err)
	}
	return b.goOn(ctx)
}

// keep copies a state and the scratch disk into the cache. Another process may do so at the same time.
func (b *boot) keep(ctx context.Context, s savedState, state string) (err error) {
	parent := filepath.Dir(s.dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	microvm.Prune(parent, savedKept-1, func(name string) bool { return exists(filepath.Join(parent, name, stateName)) })
	tmp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if d := b.scratch(); d != nil {
		if err := copyFile(ctx, d.data, filepath.Join(tmp, filepath.Base(d.data))); err != nil {
			return err
		}
	}
	if err := copyFile(ctx, state, filepath.Join(tmp, stateName)); err != nil {
		return err
	}
	if err := os.Rename(tmp, s.dir); err != nil && !s.there() {
		return err
	}
	return nil
}

// resume makes a machine that goes on from a saved state.
func (b *boot) resume(ctx context.Context, s savedState) error {
	now := time.Now()
	_ = os.Chtimes(s.dir, now, now) // for prune
	if d := b.scratch(); d != nil {
		data := filepath.Join(b.dir, d.dataName())
		if err := copyFile(ctx, filepath.Join(s.dir, filepath.Base(data)), data); err != nil {
			return err
		}
		if err := d.found(b.session, data, b.dir); err != nil {
			return err
		}
	}
	if err := b.assemble(ctx); err != nil {
		return err
	}
	b.op, b.remedy = "go on from the saved state", "saved=off does without"
	// VirtualBox may remove a state that it has gone on from.
	state := filepath.Join(b.dir, stateName)
	if err := copyFile(ctx, filepath.Join(s.dir, stateName), state); err != nil {
		return err
	}
	if _, err := b.session.run(ctx, "adoptstate", b.vm.name, b.session.inside(state)); err != nil {
		return err
	}
	return b.goOn(ctx)
}

// goOn starts a machine that has a saved state.
func (b *boot) goOn(ctx context.Context) error {
	if err := b.vm.start(ctx, b.config.engine); err != nil {
		return err
	}
	b.vm.resumed = true
	var err error
	for range resumeTries {
		if err = b.vm.reconnectLine(ctx); err != nil {
			return err
		}
		var c *line.Conn
		if c, err = b.vm.connect(ctx, resumeTime); err == nil {
			b.vm.wire.Keep(c)
			b.extra["virtualbox.resumed"] = "from the saved state of a machine that had just booted"
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return err
}

// How often and how long an agent is waited for in a machine that goes on.
const (
	resumeTries = 2
	resumeTime  = time.Minute
)

// reconnectLine unplugs the serial port of a machine that goes on, and plugs it in again. Before that it may be mute:
// VirtualBox waits no more for what comes in ("Polling failed with VERR_POLL_HANDLE_ID_EXISTS" in its log). Asked
// before the machine runs, VBoxManage and the machine would wait for each other.
func (v *vm) reconnectLine(ctx context.Context) error {
	patience, cancel := proc.WithTimeout(ctx, resumeTime)
	defer cancel()
	for !v.readLog().Running {
		select {
		case <-v.process.Done():
			return v.died()
		case <-patience.Done():
			return fmt.Errorf("the machine did not go on: %w", context.Cause(patience))
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, mode := range [][]string{{"disconnected"}, {"server", v.inside(v.socket())}} {
		if _, err := v.run(ctx, append([]string{"controlvm", v.name, "changeuartmode1"}, mode...)...); err != nil {
			return err
		}
	}
	return nil
}

// discard ends a machine that could not go on, so that a new one can be made.
func (b *boot) discard(ctx context.Context) error {
	b.vm.kill()
	b.session.run(ctx, "discardstate", b.vm.name) // it may have none
	for _, d := range b.disks() {
		if d.given != "" { // else it would be deleted with the machine
			b.session.run(ctx, append(append([]string{"storageattach", b.vm.name}, d.place()...), "--medium", none)...)
		}
	}
	_, err := b.session.run(ctx, "unregistervm", b.vm.name, "--delete")
	for _, d := range b.disks() {
		d.path, d.data = "", ""
	}
	return err
}

// copyFile copies a file with its holes.
func copyFile(ctx context.Context, from, to string) error {
	_, err := proc.Run(ctx, nil, "cp", "--sparse=always", "--reflink=auto", "--", from, to)
	return err
}
