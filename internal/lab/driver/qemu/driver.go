// Package qemu boots micro-VMs: a stock distribution kernel and an initramfs with the agent as the only program.
//
// It is opinionated about evidence. The wire has its own virtio-serial port. The serial console is separate and is part
// of every error. An accelerator counts as working if a guest booted with it, not if its device file can be opened. A
// boot has a deadline and one retry, and the retry is recorded. Facts.Emulated says whether the CPU is emulated, so
// that nobody has to guess its effect on figures.
//
// QEMU runs without defaults and user configuration, so the recorded command line describes the whole machine.
package qemu

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

const name = "qemu"

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name:      name,
		Doc:       "A micro-VM with the agent as its first process, booted from a distribution's kernel.",
		Settings:  settings(),
		Mounts:    mountKinds(),
		Driver:    driver{},
		Nature:    env.Nature{Files: env.FilesQEMU, HostName: true},
		Here:      "vm",
		Probe:     probe,
		Has:       has,
		OpenTime:  openTime,
		Reach:     reach,
		FreeSpace: ownDiskSpace,
		Plug:      plug,
	}}
}

// plug is for tests that cut the power: the cache mode decides what a flush is worth.
func plug(s env.Spec) (env.Plug, error) {
	if aio := s.Get("aio", s.Get("io", "threads")); aio != "threads" { // the second is libvirt's
		return env.Plug{}, fmt.Errorf("with %s QEMU has several writes under way at once, and qemu-storage-daemon, "+
			"which exports tare's disk as a file, corrupts those (7.2); leave the setting out", aio)
	}
	cache, passed := s.Get("cache", "writeback"), "none"
	if cache == passed {
		passed = "writethrough"
	}
	return env.Plug{
		Shown:   "cache=" + cache,
		Ignored: map[string]string{"cache": "unsafe"},
		Passed:  map[string]string{"cache": passed},
	}, nil
}

// driver opens micro-VMs. Its fields are for tests; empty fields mean the user's own folders.
type driver struct {
	kernels string // cache folder of guest kernels
	memory  string // file that records which accelerators work
	// programs is a folder whose programs replace QEMU's.
	programs string
	// manager runs QEMU; nil if tare does.
	manager Manager
	packed  bool     // boot the compressed kernel image
	drivers []string // more kernel modules
}

// probe tells whether a guest of this machine's architecture can be booted.
func probe(ctx context.Context) env.Status {
	t, err := targetOf(runtime.GOARCH)
	if err != nil {
		t, _ = targetOf("amd64")
	}
	version, err := qemuVersion(ctx, t.program)
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: t.remedy()}
	}
	kernels, err := microvm.Find("", t.arch, "")
	if err != nil {
		return env.Status{Detail: "QEMU " + version + ", but no kernel for a guest", Remedy: microvm.Remedy(t.arch, "")}
	}
	if _, err := proc.LookPath("mke2fs"); err != nil {
		return env.Status{Detail: "QEMU " + version + ", but no mke2fs for the scratch disk", Remedy: mkfsRemedy}
	}
	return env.Status{OK: true, Detail: fmt.Sprintf("QEMU %s, kernel %s", version, kernels[0].Release)}
}

// qemuVersion asks QEMU for its version: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".
func qemuVersion(ctx context.Context, program string) (string, error) {
	path, err := proc.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", program)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := proc.Run(ctx, nil, path, "--version")
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	line, _, _ := strings.Cut(proc.Printable(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "QEMU emulator version ")), nil
}
