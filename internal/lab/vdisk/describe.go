package vdisk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"tare/internal/lab/diskimage"
	"tare/internal/record"
)

// Describe reads back what the image is, by dotted names. qemu-img reports the format, and package diskimage the rest.
// It is an error if the image is not what was requested. Figures that the host does not provide are left out.
//
//	format, subformat, state, preallocation
//	virtual_bytes, allocated_bytes   of the guest's disk; on the host's disk
//	block_bytes                      unit of allocation; absent if every block has a fixed place
//	guest_blocks_per_write           blocks of the host that a 4 KiB write touches, 1 to 2
//	format_pieces, host_extents      number of pieces of the data in the file; of the file on the host's disk
//	disk_pieces                      both together
//	zero_share                       part of the stored data that is zeros, 0 to 1, from samples: what
//	                                 compacting can free
//	device, device.direct            of a block device
//	aged.seed, aged.piece_bytes      order and unit of the first writes
//	aged.host_piece_bytes            length of the pieces on the host; aged.host_pieces says why there are none
//	compacted_by, compacted_note     the program that compacted it; why not the format's own tool
func (i *Image) Describe(ctx context.Context) (map[string]string, error) {
	facts := map[string]string{"format": i.Format, "state": i.State, "preallocation": i.Preallocation}
	maps.Copy(facts, i.facts)
	if i.Subformat != "" {
		facts["subformat"] = i.Subformat
	}
	if err := i.askTool(ctx); err != nil {
		return nil, fmt.Errorf("read back image: %w", err)
	}
	path := i.Path
	if i.Device == LoopDevice && i.Subformat != rawDisk {
		path = i.Places[len(i.Places)-1] // the file behind it has extents; the device has none
	}
	r, err := diskimage.Inspect(ctx, path, diskimage.Options{})
	if err != nil {
		return nil, fmt.Errorf("read back image: %w", err)
	}
	top := &r.Layers[0]
	if top.Format != i.Format || top.Variant != i.variant || r.Size != i.Size {
		return nil, fmt.Errorf("read back image: it is %s %s of %d bytes, not %s of %d", top.Format, top.Variant,
			r.Size, i.Name(), i.Size)
	}
	if r.Damaged() {
		return nil, fmt.Errorf("read back image: it is damaged: %s", r.Problem[0].Text)
	}
	number := func(name string, n int64) {
		if n >= 0 {
			facts[name] = strconv.FormatInt(n, 10)
		}
	}
	number("virtual_bytes", r.Size)
	number("allocated_bytes", r.Space.Host)
	number("block_bytes", cmp.Or(top.Block, -1))
	number("format_pieces", r.Pieces.Format)
	number("host_extents", r.Pieces.Host)
	number("disk_pieces", r.Pieces.Product)
	if z := r.Space.Zeros; z.How != "none" {
		facts["zero_share"] = strconv.FormatFloat(z.Share, 'f', 2, 64)
	}
	i.picture = picture(i, r)
	facts["guest_blocks_per_write"] = strconv.FormatFloat(r.Align.Touches, 'g', 4, 64)
	if i.loop != nil {
		direct, err := loopDirect(i.loop)
		if err != nil {
			return nil, fmt.Errorf("read back loop device: %w", err)
		}
		facts["device.direct"] = strconv.FormatBool(direct)
	}
	return facts, nil
}

// Picture returns the image's map, which Describe makes: nil before that, and for an image without one.
func (i *Image) Picture() *record.DiskMap { return i.picture }

func picture(i *Image, r *diskimage.Report) *record.DiskMap {
	if r.Map == nil {
		return nil
	}
	m := record.NewDiskMap(r.Size, r.Map.Bucket, r.Map.Buckets)
	if m == nil {
		return nil
	}
	m.Format, m.State = i.Name(), i.State
	if r.Pieces.Format >= 0 && r.Pieces.Host >= 0 {
		m.Text = fmt.Sprintf("%d pieces in the image, %d on the host's disk", r.Pieces.Format, r.Pieces.Host)
	}
	return m
}

// askTool checks that qemu-img reports the requested format and size.
func (i *Image) askTool(ctx context.Context) error {
	if i.Format == "raw" {
		return nil // it has no header, and needs no other QEMU program than QEMU
	}
	out, err := runTool(ctx, "qemu-img", "info", "-f", i.Driver, "--output=json", i.Path)
	if err != nil {
		return err
	}
	var info struct {
		Format string `json:"format"`
		Size   int64  `json:"virtual-size"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return fmt.Errorf("read the output of qemu-img: %w", err)
	}
	if info.Format != i.Driver || info.Size != i.Size {
		return fmt.Errorf("qemu-img reports %s of %d bytes, not %s of %d", info.Format, info.Size, i.Driver, i.Size)
	}
	return nil
}
