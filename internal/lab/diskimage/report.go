// Package diskimage is the image doctor: it finds what a virtual disk costs because of its image, and how to fix it.
//
// It is opinionated about three things. Every figure says whether it was read from the image, counted on the host, or
// expected from the layout. Space is measured in three ways: what the image stores, what the guest's file systems use,
// and what is zero. And every finding names a command that fixes it.
//
// Inspecting writes nothing, and needs little memory and time, whatever the image claims: see package image.
package diskimage

import (
	"slices"

	"tare/internal/lab/diskimage/image"
	"tare/internal/lab/diskimage/volume"
)

// Schema names the version of the JSON. The number increases when a field is removed or changes its meaning.
const Schema = "tare.disk/1"

// HostBlock is the smallest unit that the host writes, in bytes: a page of its cache, and a block of nearly every file
// system.
const HostBlock = 4096

// Report is the result of an inspection. Sizes and offsets are bytes.
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

// Problem is a problem of the image or its contents.
type Problem = image.Problem

// Space is what the image stores, in bytes.
type Space struct {
	Data        int64 `json:"data_bytes"`        // of the guest's disk, stored as it is
	Compressed  int64 `json:"compressed_bytes"`  // of the guest's disk, stored compressed
	Zero        int64 `json:"zero_bytes"`        // marked as zeros
	Unallocated int64 `json:"unallocated_bytes"` // in no layer
	Inherited   int64 `json:"inherited_bytes"`   // part of data and compressed that is stored in a parent
	Files       int64 `json:"file_bytes"`        // length of all files
	Host        int64 `json:"host_bytes"`        // space on the host's disk; -1 if the host does not report it
	Used        int64 `json:"used_bytes"`        // by the guest's file systems, as they report; -1 unless all report it
	// Zeros is the result of reading data.
	Zeros Zeros `json:"zeros_in_data"`
	// Reclaimable is approximately how much space on the host the guest does not need; -1 if that is not known.
	Reclaimable int64 `json:"reclaimable_bytes"`
}

// Zeros is how much of the stored data is only zeros.
type Zeros struct {
	How   string  `json:"how"`        // "sampled", "read" for all data, "none" if nothing was read
	Unit  int64   `json:"unit_bytes"` // a unit counts if all of it is zero
	Units int64   `json:"units"`      // units that were read
	Zero  int64   `json:"zero_units"`
	Share float64 `json:"share"` // of the data; 0 to 1
	Low   float64 `json:"share_low"`
	High  float64 `json:"share_high"` // bounds at 95 %; equal to share if everything was read
}

// Align says how many host blocks a guest's write of 4 KiB touches.
type Align struct {
	HostBlock  int64 `json:"host_block_bytes"`
	DataOffset int64 `json:"data_offset"` // of the first block in the file; -1 if the format does not fix it
	// DataRemainder is DataOffset modulo the host block; -1 if the format does not fix it.
	DataRemainder int64 `json:"data_offset_remainder"`
	// Touches is the mean over all parts, weighted by their data: 1 is aligned, 2 is misaligned.
	Touches float64     `json:"touches"`
	Parts   []AlignPart `json:"parts"`
}

// AlignPart is a partition, or the whole disk if it has none.
type AlignPart struct {
	Partition int   `json:"partition"`
	Start     int64 `json:"start"`
	Remainder int64 `json:"start_remainder"` // modulo the host block
	Data      int64 `json:"data_bytes"`
	// Aligned is the share of its data whose 4 KiB blocks lie on host blocks. Without data it is the expected share for
	// new blocks, from the layout of the format.
	Aligned   float64 `json:"aligned_share"`
	Predicted bool    `json:"predicted"` // expected from the layout: it has no data yet
	Touches   float64 `json:"touches"`
}

// Pieces is the number of pieces in which sequential reading of the disk finds its data.
type Pieces struct {
	Format int64 `json:"format_pieces"` // in the files, as the format orders its blocks
	// Of the files on the host's disk, skipping holes; -1 if the host does not report it.
	Host      int64   `json:"host_extents"`
	Product   int64   `json:"disk_pieces"` // both together: of the guest's data on the host's disk; -1 if not known
	FormatGiB float64 `json:"format_pieces_per_gib"`
	HostGiB   float64 `json:"host_extents_per_gib"`
	ProdGiB   float64 `json:"disk_pieces_per_gib"`
	Why       string  `json:"unknown_because"` // why Host or Product is -1
}

// Writes is the expected cost on the host of a guest's write of 4 KiB, from the layout; nothing is measured.
type Writes struct {
	// Again and First are bytes written on the host for each byte of the guest's: to existing data, and where the image
	// must allocate a block. They are 0 if the image is not written in place.
	Again float64 `json:"overwrite_factor"`
	First float64 `json:"first_write_factor"`
	Reads bool    `json:"reads_first"` // part of a host block must be read before it can be written
	Why   string  `json:"first_write_because"`
}

// Advice says what to do, and why.
type Advice struct {
	Code     string   `json:"code"`
	Severity string   `json:"severity"` // "damage", "speed", "space", "note"
	Text     string   `json:"text"`
	Commands []string `json:"commands"` // for a shell; the best one first
}

// Damaged tells whether the image itself is damaged, not only the contents of the guest's disk.
func (r *Report) Damaged() bool {
	return slices.ContainsFunc(r.Problem, func(p Problem) bool { return p.Code != "partitions" })
}
