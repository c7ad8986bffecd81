package virtualbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/lab/env"
)

// servedLabel is that of a disk that the caller serves. It is not mounted as the machine boots, so that a saved state
// knows nothing of its content.
const servedLabel = "tare-served"

// plug is for tests that cut the power: controller and format decide what a flush is worth, and two settings of
// VirtualBox's.
func plug(s env.Spec) (env.Plug, error) {
	c, err := parse(&s)
	switch {
	case s.Arg != "":
		return env.Plug{}, errors.New("tare does not change a machine that it did not make; leave out its name")
	case err != nil:
		return env.Plug{}, err
	}
	d := c.drive
	if d.controller != "ide" && !d.cache {
		return env.Plug{}, fmt.Errorf("with controller=%s VirtualBox has several writes under way at once, which the "+
			"program that shows tare's disk as a file garbles (QEMU's storage daemon, seen with 7.2); use "+
			"hostiocache=on, with which it has one", d.controller)
	}
	p := env.Plug{
		Shown:   "controller=" + d.controller,
		Ignored: map[string]string{"ignore_flush": "on"}, Passed: d.passing(),
		Label: servedLabel, PowerOff: powerOff,
	}
	if d.format == formatRaw {
		p.Shown += " format=raw"
	} else {
		p.Header = func(size int64) []byte { return vdiHeader(size, d.format == formatFixed) }
	}
	if d.ignoreFlush != byDefault {
		p.Shown += " ignore_flush=" + d.ignoreFlush
	}
	return p, nil
}

// passing are settings by which flushes are passed on, and which are not the disk's own: IDE's, of which no cut has
// lost anything yet.
func (d drive) passing() map[string]string {
	controller := "ide"
	if d.controller == "ide" && d.format != formatRaw && d.ignoreFlush == "off" {
		controller = "virtio-scsi"
	}
	return map[string]string{"controller": controller, "format": formatFixed, "ignore_flush": "off",
		"hostiocache": "on"}
}

// sizeServed looks how large the disk is that the caller serves.
func (b *boot) sizeServed() error {
	if b.Scratch == "" {
		return nil
	}
	info, err := os.Stat(b.Scratch)
	if err != nil {
		return err
	}
	if b.servedSize = info.Size(); b.config.drive.format != formatRaw {
		b.servedSize -= vdiData
	}
	return nil
}

// places are the directories that VirtualBox has to reach.
func (b *boot) places() []string {
	if b.Scratch == "" {
		return []string{b.dir}
	}
	return []string{b.dir, filepath.Dir(b.Scratch)}
}

// powerOff switches a machine off.
func powerOff(ctx context.Context, e env.Env) error {
	v, ok := e.(*vm)
	if !ok {
		return errors.New("switch the machine off: tare did not make it")
	}
	if _, err := v.run(ctx, "controlvm", v.name, "poweroff"); err != nil {
		return fmt.Errorf("switch the machine off: %w", err)
	}
	select {
	case <-v.process.Done():
		return nil
	case <-time.After(askTime):
		return errors.New("switch the machine off: VirtualBox's process did not end")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Where the parts of such a VDI are, in bytes.
const (
	vdiMap   = 512     // the map of the blocks
	vdiData  = 1 << 20 // the first block
	vdiBlock = 1 << 20 // a block's size
)

// vdiID is a UUID of the random kind.
const vdiID = "tare-di\x40\x80served1"

// vdiHeader is the header before the guest's blocks in a VDI that has all of them, in their order: the file does not
// grow, whether VirtualBox knows it as fixed or not. That suffices for disks of up to 255 GiB.
func vdiHeader(size int64, fixed bool) []byte {
	b, le := make([]byte, vdiData), binary.LittleEndian
	blocks := uint32((size + vdiBlock - 1) / vdiBlock)
	kind := uint32(1)
	if fixed {
		kind = 2
	}
	copy(b, "<<< Oracle VM VirtualBox Disk Image >>>\n")
	put := func(at int, values ...uint32) {
		for i, v := range values {
			le.PutUint32(b[at+4*i:], v)
		}
	}
	put(0x40, 0xbeda107f, 0x00010001, 0x190, kind) // signature, version, length of what follows
	put(0x154, vdiMap, vdiData)
	put(0x168, 512) // bytes in a sector, of a geometry that is not given
	put(0x1d4, 512) // and of another one: without it, VirtualBox does not take this for a VDI
	le.PutUint64(b[0x170:], uint64(size))
	put(0x178, vdiBlock, 0, blocks, blocks)
	// The disk's identity is always the same, because its serial number is made of it, which a saved state knows.
	copy(b[0x188:], vdiID)
	copy(b[0x198:], vdiID) // of its contents
	for i := range blocks {
		put(vdiMap+4*int(i), i)
	}
	return b
}
