package diskimage

import (
	"fmt"

	"tare/internal/lab/diskimage/image"
)

// writes returns the expected cost of a write of 4 KiB. Over existing data, that is the host blocks that it touches. If
// a block must be allocated, it is in addition one host block for each updated table, and what the format writes or
// copies to fill the block.
func writes(r *Report) Writes {
	top := &r.Layers[0]
	if top.Variant == "streamOptimized" || r.Space.Compressed > 0 && r.Space.Data == 0 {
		return Writes{Why: "its blocks are compressed: they cannot be written in place"}
	}
	w := Writes{Again: r.Align.Touches, First: r.Align.Touches, Reads: r.Align.Touches > 1}
	w.Why = "everything is allocated already"
	if top.Block == 0 || top.Updates == 0 {
		return w
	}
	filled, why := int64(0), ""
	unit := top.Block
	if top.SubBlock > 0 {
		unit = top.SubBlock
	}
	switch shared := len(r.Layers) > 1 || len(top.Snapshots) > 0; {
	case top.Fills:
		filled, why = top.Block, fmt.Sprintf("a new block of %s is written whole", size(top.Block))
	case shared && copiesBlocks(top):
		filled, why = unit, fmt.Sprintf("data shared with a parent or a snapshot is copied first, %s at a time",
			size(unit))
	}
	w.First = max(float64(filled)/HostBlock, w.Again) + float64(top.Updates)
	w.Why = fmt.Sprintf("a new block needs %d updates of tables", top.Updates)
	if why != "" {
		w.Why += ", and " + why
	}
	return w
}

// copiesBlocks tells whether the format copies the rest of a block from the parent. VHD and VHDX mark sectors instead.
func copiesBlocks(i *image.Info) bool { return i.Format == "qcow2" || i.Format == "vmdk" }
