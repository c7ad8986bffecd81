package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
)

// Names of the environments that tare finds by itself.
const (
	hereHost = env.Host
	hereVM   = "vm" // as the driver of micro-VMs says
	// hereUnsafe is the micro-VM with the one setting that makes its disk forget what it promised: the default run
	// shows what that setting is worth, and that a guest can be faster than its host by not waiting for the disk.
	hereUnsafe = "vm-unsafe"
)

// here lists the environments of a run without -e: those that need nothing from the user.
func (cat *catalog) here(ctx context.Context) []string {
	all, status := cat.drivers.All(), cat.probe(ctx)
	specs := []string{hereHost}
	for i, d := range all {
		if !status[i].OK {
			continue
		}
		switch d.Here {
		case "":
		case d.Name:
			specs = append(specs, d.Name)
		default:
			specs = append(specs, d.Here+"="+d.Name)
		}
	}
	return specs
}

// available lists the environments and mounts of this machine that can work. Each driver is asked once, and only when a
// plan wants to know.
func (cat *catalog) available(ctx context.Context) func(s env.Spec, mount *env.Spec) (bool, string) {
	ask := func(question func(context.Context) env.Status) env.Status {
		if question == nil {
			return env.Status{OK: true}
		}
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		return question(ctx)
	}
	asked := map[[2]string]env.Status{}
	return func(s env.Spec, mount *env.Spec) (bool, string) {
		info, ok := cat.drivers.Lookup(s.Driver)
		if !ok {
			return true, "" // the plan's own check has the better message
		}
		probe, key := info.Probe, [2]string{s.Driver}
		if mount != nil {
			kind, ok := info.MountKind(mount.Driver)
			if !ok {
				return true, ""
			}
			probe, key[1] = kind.Probe, mount.Driver
			if kind.ProbeSpec != nil {
				probe, key[1] = func(ctx context.Context) env.Status { return kind.ProbeSpec(ctx, *mount) },
					mount.String()
			}
		}
		got, ok := asked[key]
		if !ok {
			got = ask(probe)
			asked[key] = got
		}
		if got.OK && mount == nil && info.Has != nil {
			got = ask(func(ctx context.Context) env.Status { return info.Has(ctx, s) })
		}
		if got.Remedy != "" {
			got.Detail += "; " + got.Remedy
		}
		return got.OK, got.Detail
	}
}

// declared lists the mounts that an environment has by itself.
func (cat *catalog) declared(ctx context.Context, s env.Spec) ([]env.Spec, error) {
	info, ok := cat.drivers.Lookup(s.Driver)
	if !ok || info.Declared == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return info.Declared(ctx, s)
}

// probeTime bounds the question whether something can work here.
const probeTime = 10 * time.Second

// defaultPlan is the plan of `tare run` without workloads: a few minutes that touch every family. With environments
// given by flags it names none itself.
func defaultPlan(specs []string, given bool) (name string, src []byte) {
	var b strings.Builder
	disk := ""
	if !given {
		fmt.Fprintf(&b, "baseline: %s\nenvironments:\n", hereHost)
		names := []string{}
		for _, s := range specs {
			name, spec, ok := strings.Cut(s, "=")
			if !ok {
				spec = env.DriverNamed(name)
			}
			names = append(names, name)
			fmt.Fprintf(&b, "  %s: %s\n", name, spec)
		}
		if slices.Contains(names, hereVM) {
			fmt.Fprintf(&b, "  %s: {from: %s, cache: unsafe}\n", hereUnsafe, hereVM)
			// The CPU and memory of the two machines are the same: only the disk is worth a trial in both.
			disk = fmt.Sprintf(", targets: [%s]", strings.Join(names, ", "))
		}
	}
	b.WriteString("workloads:\n")
	for _, w := range []struct {
		line string
		disk bool
	}{
		{"kind: cpu.prime", false},
		{"kind: memory.copy, size: 32MiB", false},
		{"kind: memory.latency, label: memory.latency 32MiB, sizes: 16KiB+256KiB+4MiB+32MiB", false},
		{"kind: syscall, op: \"null\"", false},
		{"kind: syscall, op: switch", false},
		{"kind: syscall, op: forkexec", false},
		{"kind: syscall, op: fault", false},
		{"kind: fs.seqwrite, fsync: end", true},
		{"kind: fs.randread", false},
		{"kind: fs.randwrite, fsync: each", true},
		{"kind: fs.smallfiles", true},
	} {
		targets := disk
		if w.disk {
			targets = ""
		}
		fmt.Fprintf(&b, "  - {%s%s}\n", w.line, targets)
	}
	return "built-in plan", []byte(b.String())
}

// persistentTemp is the folder for temporary files that are on a disk on Linux, by the file system hierarchy standard.
// The other one, /tmp, is memory on many systems, and file workloads there would weigh memory.
const persistentTemp = "/var/tmp"

// scratchBase is the folder in which a run's private directory is made: TMPDIR, if the user set it, else one on a disk.
func (con *console) scratchBase() string {
	if dir := con.getenv("TMPDIR"); dir != "" {
		return dir
	}
	if info, err := os.Stat(persistentTemp); err == nil && info.IsDir() {
		return persistentTemp
	}
	return os.TempDir()
}
