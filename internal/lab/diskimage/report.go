// Package diskimage is the image doctor: what a virtual disk costs because of how its image is made, and what mends it.
//
// It is opinionated about three things. A figure is either read from the image, or counted on the host, or expected
// from the layout, and says which. Space is weighed three ways: what the image holds, what the guest's file systems
// use, and what is zero. And a finding without a command that mends it is not finished.
//
// Looking writes nothing, and needs neither much memory nor much time, whatever the image claims: see package image.
package diskimage

import (
	"slices"

	"tare/internal/lab/diskimage/image"
	"tare/internal/lab/diskimage/volume"
)

// Schema names the form of the JSON; the number rises when a field changes its meaning or goes.
const Schema = "tare.disk/1"

// HostBlock is what the host writes at least, in bytes: a page of its cache, and a block of nearly every file system.
const HostBlock = 4096

// Report is everything that is known of an image. Sizes and offsets are bytes.
type Report struct {
	Schema  string       `json:"schema"`
	Path    string       `json:"path"`
	Size    int64        `json:"virtual_bytes"`
	Layers  []image.Info `json:"layers"` // the image, then its parents
	Disk    volume.Table `json:"disk"`
	Space   Space        `json:"space"`
	Align   Align        `json:"alignment"`
	Pieces  Pieces       `json:"fragmentation"`
	Writes  Writes       `json:"writes"`
	Map     *Map         `json:"map"`
	Problem []Problem    `json:"problems"`
	Advice  []Advice     `json:"advice"`
}

// Problem is something wrong with the image or its contents.
type Problem = image.Problem

// Space weighs what the image holds.
type Space struct {
	Data        int64 `json:"data_bytes"`        // of the guest's disk, stored as it is
	Compressed  int64 `json:"compressed_bytes"`  // of the guest's disk, stored compressed
	Zero        int64 `json:"zero_bytes"`        // marked as zeros
	Unallocated int64 `json:"unallocated_bytes"` // in no layer
	Inherited   int64 `json:"inherited_bytes"`   // data and compressed that lie in a parent
	Files       int64 `json:"file_bytes"`        // length of all files
	Host        int64 `json:"host_bytes"`        // room they take on the host's disk; -1 when the host does not say
	Used        int64 `json:"used_bytes"`        // by the guest's file systems, as they say; -1 unless all say it
	// Zeros is what was found by reading.
	Zeros Zeros `json:"zeros_in_data"`
	// Reclaimable is about how much of the room on the host the guest does not need; -1 when that is not known.
	Reclaimable int64 `json:"reclaimable_bytes"`
}

// Zeros is how much of what is stored holds only zeros.
type Zeros struct {
	How   string  `json:"how"`        // "sampled", "read" for all of it, "none" when nothing was looked at
	Unit  int64   `json:"unit_bytes"` // a unit counts when all of it is zero
	Units int64   `json:"units"`      // looked at
	Zero  int64   `json:"zero_units"`
	Share float64 `json:"share"` // of the data; 0 to 1
	Low   float64 `json:"share_low"`
	High  float64 `json:"share_high"` // bounds at 95 %; equal to share when all was read
}

// Align says how many host blocks a guest's write of 4 KiB touches.
type Align struct {
	HostBlock  int64 `json:"host_block_bytes"`
	DataOffset int64 `json:"data_offset"` // of the first block in the file; -1 when the format fixes none
	// DataRemainder is DataOffset modulo the host block; -1 when the format fixes none.
	DataRemainder int64 `json:"data_offset_remainder"`
	// Touches is the mean over all parts, weighted by their data: 1 is right, 2 is misaligned.
	Touches float64     `json:"touches"`
	Parts   []AlignPart `json:"parts"`
}

// AlignPart is a partition, or the disk as a whole when it has none.
type AlignPart struct {
	Partition int   `json:"partition"`
	Start     int64 `json:"start"`
	Remainder int64 `json:"start_remainder"` // modulo the host block
	Data      int64 `json:"data_bytes"`
	// Aligned is the share of its data whose blocks of 4 KiB lie on host blocks; without data it is what the layout of
	// the format promises for new blocks.
	Aligned   float64 `json:"aligned_share"`
	Predicted bool    `json:"predicted"` // from the layout: it has no data yet
	Touches   float64 `json:"touches"`
}

// Pieces counts in how many pieces reading the disk in order finds its data.
type Pieces struct {
	Format int64 `json:"format_pieces"` // in the files, as the format orders its blocks
	// of the files on the host's disk, holes passed over; -1 when the host does not say
	Host      int64   `json:"host_extents"`
	Product   int64   `json:"disk_pieces"` // both together: of the guest's data on the host's disk; -1 likewise
	FormatGiB float64 `json:"format_pieces_per_gib"`
	HostGiB   float64 `json:"host_extents_per_gib"`
	ProdGiB   float64 `json:"disk_pieces_per_gib"`
	Why       string  `json:"unknown_because"` // why Host or Product is -1
}

// Writes is what a guest's write of 4 KiB is expected to cost on the host, from the layout; nothing is measured.
type Writes struct {
	// Again and First are bytes written for each byte of the guest's: over data that is there, and where the image has
	// to be given a new block. 0 when the image is not written in place.
	Again float64 `json:"overwrite_factor"`
	First float64 `json:"first_write_factor"`
	Reads bool    `json:"reads_first"` // part of a host block has to be read before it can be written
	Why   string  `json:"first_write_because"`
}

// Advice is what to do, and why.
type Advice struct {
	Code     string   `json:"code"`
	Severity string   `json:"severity"` // "damage", "speed", "space", "note"
	Text     string   `json:"text"`
	Commands []string `json:"commands"` // for a shell; the first one suits best
}

// Damaged tells whether something in the image, and not only on the guest's disk, is broken.
func (r *Report) Damaged() bool {
	return slices.ContainsFunc(r.Problem, func(p Problem) bool { return p.Code != "partitions" })
}
