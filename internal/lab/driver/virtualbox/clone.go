package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/vdisk"
	"tare/internal/unit"
)

// A linked clone of a machine of the user's is made in a VirtualBox of tare's own, from a copy of the machine's
// settings. In the user's VirtualBox the clone's disks would be written into the settings of the machine that it is
// cloned from, and a killed run would leave them there. So the machine is only asked about, and may run meanwhile; what
// a clone writes is in the run's own directory.

const linked = "linked"

// currentSnapshot is the default of snapshot=.
const currentSnapshot = "the current one"

func cloneSettings() []env.Setting {
	return []env.Setting{
		{Name: "clone", Default: none, Doc: "Of a machine of yours: linked works in a linked clone of a snapshot, " +
			"removed after the run, whether the machine runs or not: none or linked.",
			Check: env.OneOf(none, linked)},
		{Name: "snapshot", Default: currentSnapshot, Doc: "With clone=linked: the snapshot's name or UUID."},
	}
}

// source is the machine that is cloned.
type source struct {
	user     *session // in which it is registered
	info     map[string]string
	vbox     *vbox
	folder   string // of its settings file, as its product sees it
	snapshot string // UUID
	called   string // the snapshot's name
}

// openClone opens a linked clone of a machine that is registered in a session.
func (b *boot) openClone(ctx context.Context, user *session) (*vm, error) {
	if err := b.readClone(); err != nil {
		return nil, err
	}
	b.op, b.remedy = "find the machine", listRemedy
	var err error
	if b.version, err = user.version(ctx); err != nil {
		b.remedy = installRemedy
		return nil, err
	}
	b.extra["virtualbox.version"] = b.version
	src := &source{user: user}
	if src.info, err = user.info(ctx, b.Arg); err != nil {
		return nil, err
	}
	if err := b.findSnapshot(src); err != nil {
		return nil, err
	}
	if err := b.fits(src); err != nil {
		return nil, err
	}
	b.op, b.remedy = "read the machine's settings", "they must be readable for this user"
	file := src.info["CfgFile"]
	src.folder = filepath.Dir(file)
	if src.vbox, err = readVbox(user.hostPath(file)); err != nil {
		return nil, err
	}
	if err := b.canStart(user.product); err != nil {
		return nil, err
	}
	b.op, b.remedy = "make the clone's files", spaceRemedy
	if b.dir, err = os.MkdirTemp(b.Dir, "vbox-"); err != nil {
		return nil, err
	}
	free, err := vdisk.FreeSpace(b.dir)
	if err == nil && free >= 0 && free < reserve {
		return nil, fmt.Errorf("%s has %s free, but a clone needs %s for its guest's first writes", b.dir,
			unit.FormatSize(free&^(1<<20-1)), unit.FormatSize(reserve))
	}
	b.op, b.remedy = "start VirtualBox's service", ""
	if b.session, err = user.product.open(ctx, b.RunID, append([]string{b.dir}, src.folders()...)...); err != nil {
		return nil, err
	}
	if err := b.makeClone(ctx, src); err != nil {
		return nil, err
	}
	b.op = "boot the clone"
	b.remedy = "the machine must boot what tare guest media writes; the evidence has the guest's console and " +
		"VirtualBox's log; boot= sets a longer deadline"
	began := time.Now()
	if err := b.vm.start(ctx, b.config.engine); err != nil {
		return nil, err
	}
	w, err := b.vm.connect(ctx, b.config.boot)
	if err != nil {
		return nil, err
	}
	b.vm.wire.Keep(w)
	b.booted(began)
	return b.vm, b.learnClone(ctx, src)
}

// readClone reads the settings: the machine has most of them already.
func (b *boot) readClone() (err error) {
	b.op, b.remedy = "read settings", "leave it out"
	for _, k := range slices.Sorted(maps.Keys(b.Settings)) {
		if !slices.Contains([]string{"clone", "snapshot", "engine", "boot"}, k) {
			return fmt.Errorf("the machine %s has its settings already, so %s= is not possible", b.Arg, k)
		}
	}
	if len(b.Mounts) > 0 {
		b.remedy = "leave out the mounts, or let tare make a machine: -e vb=virtualbox"
		return errors.New("a clone gets no disks and folders")
	}
	b.remedy = "tare list environments shows the settings and their values"
	b.config, err = parse(&b.Spec)
	return err
}

// findSnapshot chooses the snapshot.
func (b *boot) findSnapshot(src *source) error {
	src.snapshot, src.called = src.info["CurrentSnapshotUUID"], src.info["CurrentSnapshotName"]
	if src.snapshot == "" {
		b.remedy = fmt.Sprintf("make one: VBoxManage snapshot %q take tare", b.Arg)
		return errors.New("it has no snapshot, and a linked clone is made from one")
	}
	wanted, given := b.Settings["snapshot"]
	if !given {
		return nil
	}
	var names []string
	for _, k := range slices.Sorted(maps.Keys(src.info)) {
		place, ok := strings.CutPrefix(k, "SnapshotName")
		if !ok {
			continue
		}
		name, id := src.info[k], src.info["SnapshotUUID"+place]
		if names = append(names, name); wanted == name || wanted == id {
			src.snapshot, src.called = id, name
			return nil
		}
	}
	b.remedy = "use one of them, or leave snapshot= out for the current one"
	return fmt.Errorf("it has no snapshot %q; there are: %s", wanted, strings.Join(names, ", "))
}

// fits says what the machine has that the engine cannot run.
func (b *boot) fits(src *source) error {
	if n := src.info["cpus"]; b.config.engine == interpreter && n != "1" {
		b.remedy = driverRemedy + "; or clone a machine with one CPU"
		return fmt.Errorf("it has %s CPUs, and engine=interpreter runs one only", n)
	}
	return nil
}

// folders are the directories with the machine's files, on this machine.
func (src *source) folders() (all []string) {
	for _, p := range src.vbox.places(src.folder) {
		if dir := filepath.Dir(src.user.hostPath(p)); !slices.Contains(all, dir) && exists(dir) {
			all = append(all, dir)
		}
	}
	return all
}

// makeClone makes the clone, with its first serial port on a socket of the session's.
func (b *boot) makeClone(ctx context.Context, src *source) error {
	dir := filepath.Join(b.dir, "source")
	copied := filepath.Join(dir, "source.vbox")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	here := func(name string) string { return b.session.inside(src.user.hostPath(name)) }
	if err := os.WriteFile(copied, src.vbox.moved(src.folder, here), 0o600); err != nil {
		return err
	}
	m := &machine{session: b.session, name: "tare-" + b.RunID + "-" + filepath.Base(b.dir),
		machines: filepath.Join(b.dir, "machines")}
	b.vm = newVM(m, b.dir)
	b.vm.reach = errors.New(b.Name + " cannot reach this machine's loopback: a clone keeps its original's network")
	b.op, b.remedy = "clone the machine", "the evidence is VBoxManage's output; "+spaceRemedy
	argv := []string{"clonevm", src.info["UUID"], "--snapshot", src.snapshot, "--options", "link", "--name", m.name,
		"--register", "--basefolder", m.inside(m.machines)}
	b.vm.facts.Command = append([]string{m.manage}, argv...)
	for _, args := range [][]string{{"registervm", m.inside(copied)}, argv} {
		if _, err := m.run(ctx, args...); err != nil {
			return err
		}
	}
	info, err := m.info(ctx, m.name)
	if err != nil {
		return err
	}
	after, err := readVbox(copied)
	if err != nil {
		return err
	}
	if err := b.checkDisks(info, after); err != nil {
		return err
	}
	modify := []string{"modifyvm", m.name, "--uart1", "0x3f8", "4", "--uart-mode1", "server", m.inside(m.socket())}
	if b.config.engine == interpreter {
		modify = append(modify, "--vm-execution-engine", interpreter, "--paravirt-provider", none)
	}
	steps := [][]string{modify, powerOffInsteadOfReset(m.name)}
	if info["VMState"] == "saved" {
		steps = append(steps, []string{"discardstate", m.name}) // of a snapshot of a machine that ran
	}
	for _, args := range steps {
		if _, err := m.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// checkDisks sees to it that the clone writes to no disk of the user's, and notes which files are read.
func (b *boot) checkDisks(info map[string]string, after *vbox) error {
	for _, k := range slices.Sorted(maps.Keys(info)) {
		chain := after.find(info[k])
		if chain == nil {
			continue
		}
		file := b.session.hostPath(info[k])
		own := strings.HasPrefix(file, b.vm.machines+string(filepath.Separator))
		if !own && chain[0].Type != "Readonly" {
			b.remedy = "detach it, take a snapshot without it and clone that, or make it a disk of type normal"
			return fmt.Errorf("its disk %s is of type %s, which snapshots leave out: a clone would write to it", file,
				strings.ToLower(chain[0].Type))
		}
		for _, d := range chain {
			if file := b.session.hostPath(d.Location); !slices.Contains(b.vm.images, file) {
				b.vm.images = append(b.vm.images, file)
			}
		}
	}
	return nil
}

// learnClone completes the facts of a clone that runs.
func (b *boot) learnClone(ctx context.Context, src *source) error {
	if b.config.engine == interpreter && !driverLoaded() {
		b.extra["virtualbox.launcher"] = launcherFact
	}
	info, err := b.session.info(ctx, b.vm.name)
	if err != nil {
		return err
	}
	b.extra["virtualbox.clone.of"], b.extra["virtualbox.clone.snapshot"] = src.info["name"], src.called
	b.vm.retries = b.retries
	f := existingFacts(b.session, info)
	maps.Copy(b.extra, f.Extra)
	f.OS, f.Arch, f.Extra, f.Command = "linux", "amd64", b.extra, b.vm.facts.Command
	f.Emulated = f.Emulated || b.config.engine == interpreter
	f.Settings = map[string]string{"clone": linked, "snapshot": src.called, "engine": b.config.engine,
		"boot": b.config.boot.String()}
	b.vm.facts = f
	return nil
}
