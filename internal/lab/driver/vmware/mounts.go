package vmware

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// kindHGFS is VMware's shared folder.
const kindHGFS = "hgfs"

// fuseProgram mounts shared folders. It is the host's own, copied into the guest with its libraries.
const fuseProgram = "vmhgfs-fuse"

const hgfsRemedy = "install it on this machine: apt-get install open-vm-tools"

func mountKinds() []env.MountKind {
	return []env.MountKind{{
		Name: kindHGFS, Shared: true,
		Doc: "VMware's shared folder (HGFS), mounted by vmhgfs-fuse of open-vm-tools: fsync does nothing, attributes " +
			"are cached for a second.",
		Settings: []env.Setting{
			{Name: "big_writes", Default: "on", Doc: "off makes the guest send its writes in pieces of 4 KiB.",
				Check: env.OneOf("on", "off")},
		},
		Probe: probeHGFS,
	}}
}

func probeHGFS(context.Context) env.Status {
	p, err := proc.LookPath(fuseProgram)
	if err != nil {
		return env.Status{Detail: fuseProgram + " is not installed", Remedy: hgfsRemedy}
	}
	return env.Status{OK: true, Detail: p}
}

// machineMount is one of Options.Mounts on its way into the machine.
type machineMount struct {
	env.Mounted
	folder string // on this machine; "" if the mount failed
	share  string // its name in VMware
}

// makeMounts makes the mounts' folders, and describes each mount. One that fails does not stop the others.
func (b *boot) makeMounts() error {
	for i, s := range b.Mounts {
		m := machineMount{share: fmt.Sprintf("tare%d", i)}
		m.Name = s.Name
		m.Mount = record.Mount{Kind: s.Driver, Dir: path.Join(guestabi.Mounts, s.Name), Settings: map[string]string{}}
		fail := func(op string, err error, remedy string) {
			m.Err = &env.OpenError{Env: b.Name + ":" + s.Name, Op: op, Err: err, Remedy: remedy}
		}
		shown, err := env.ResolveMount(mountKinds(), &s)
		program, missing := proc.LookPath(fuseProgram)
		switch {
		case err != nil:
			fail("read settings of mount", err, "tare list mounts shows the settings and their values")
		case missing != nil:
			fail("find "+fuseProgram, fmt.Errorf("%s is not installed", fuseProgram), hgfsRemedy)
		default:
			m.Mount.Settings = shown
		}
		if m.Err == nil {
			m.folder = filepath.Join(b.dir, "folders", m.share)
			if err := os.MkdirAll(m.folder, 0o700); err != nil {
				return err
			}
			options := "allow_other"
			if m.Mount.Settings["big_writes"] == "on" {
				options += ",big_writes"
			}
			m.Mount.HostDir, m.Mount.Server = m.folder, "VMware, vmrun "+b.version
			m.Order = &guestabi.Mount{Name: s.Name, Dir: m.Mount.Dir,
				Command: []string{program, "-f", "-o", options, ".host:/" + m.share, m.Mount.Dir}}
			m.Mount.Command = m.Order.Command
		}
		b.mounts = append(b.mounts, m)
	}
	return nil
}

// programs are the files that the mounts need in the guest.
func (b *boot) programs() ([]microvm.File, error) {
	for _, m := range b.mounts {
		if m.folder == "" {
			continue
		}
		return microvm.Programs("amd64", m.Order.Command[0])
	}
	return nil, nil
}
