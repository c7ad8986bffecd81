package vdisk

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/unit"
)

// The states of an image.
const (
	Fresh = "fresh" // as it was made
	// Aged is an image as after long use: it allocated its blocks in a random order, and its file lies in pieces with
	// gaps on the host's disk. Blocks that are free in the guest are still stored, as zeros.
	Aged = "aged"
	// Compacted is an aged image that the format's tool has compacted.
	Compacted = "compacted"
)

// LoopDevice, as the device, means a loop device for a file of tare's own.
const LoopDevice = "loop"

// Ways to allocate an image's space on the host.
const (
	PreallocOff      = "off"
	PreallocMetadata = "metadata" // qcow2's tables
	PreallocFalloc   = "falloc"   // fallocate(2): reserved, not written
	PreallocFull     = "full"     // written
)

// Shape is the form of an image.
type Shape struct {
	Kind
	State         string
	Preallocation string
	ClusterBytes  int64  // of qcow2; 0 for qemu-img's default
	ExtendedL2    bool   // of qcow2: subclusters
	Device        string // a block device instead of a file, or LoopDevice; "" for a file
	FillBytes     int64  // length of FillName on the disk; 0 for none
	FillData      string // contents of FillName: FillRandom or FillHalf
}

// The settings of a shape, by name. States, Preallocations and Clusters are their values.
const (
	SettingFormat        = "format"
	SettingSubformat     = "subformat"
	SettingState         = "state"
	SettingPreallocation = "preallocation"
	SettingCluster       = "cluster_size"
	SettingExtendedL2    = "extended_l2"
	SettingDevice        = "device"
	SettingDestroy       = "destroy"
	SettingFill          = "fill"
	SettingFillData      = "fill_data"
)

// States lists the states of an image.
func States() []string { return []string{Fresh, Aged, Compacted} }

// Preallocations lists the ways to allocate an image's space.
func Preallocations() []string {
	return []string{PreallocOff, PreallocMetadata, PreallocFalloc, PreallocFull}
}

const (
	minCluster = 512
	maxCluster = 2 << 20
)

// CheckCluster returns an error for a wrong size of qcow2's clusters.
func CheckCluster(v string) error {
	n, err := unit.ParseSize(v)
	if err != nil || n < minCluster || n > maxCluster || n&(n-1) != 0 {
		return fmt.Errorf("%q is not a power of two from %d to %s", v, minCluster, unit.FormatSize(maxCluster))
	}
	return nil
}

// Parse reads a shape from settings; get returns "" for a setting that was not given. The error says which settings
// contradict each other and what to do.
func Parse(get func(name string) string) (Shape, error) {
	var s Shape
	var err error
	if s.Kind, err = lookup(get(SettingFormat), get(SettingSubformat)); err != nil {
		return s, err
	}
	s.State = cmp.Or(get(SettingState), Fresh)
	s.Device = get(SettingDevice)
	if s.Preallocation = get(SettingPreallocation); s.Preallocation == "" {
		// People choose a static image because its space is allocated. QEMU's programs make it a sparse file unless
		// told otherwise.
		s.Preallocation = PreallocOff
		if s.Flat && s.Format != "raw" && s.State == Fresh && s.Device == "" {
			s.Preallocation = PreallocFalloc
		}
	}
	if v := get(SettingCluster); v != "" {
		if err := CheckCluster(v); err != nil {
			return s, fmt.Errorf("setting %s: %w", SettingCluster, err)
		}
		s.ClusterBytes, _ = unit.ParseSize(v)
	}
	s.ExtendedL2 = get(SettingExtendedL2) == "on"
	if !slices.Contains(States(), s.State) {
		return s, fmt.Errorf("state=%s is not one of %s", s.State, strings.Join(States(), ", "))
	}
	if err := s.checkDevice(get(SettingDestroy)); err != nil {
		return s, err
	}
	if err := s.checkFill(get(SettingFill), get(SettingFillData)); err != nil {
		return s, err
	}
	return s, s.consistent()
}

// minExtended is the smallest cluster that QEMU divides into subclusters, in bytes.
const minExtended = 16 << 10

func (s *Shape) consistent() error {
	name := s.Name()
	switch {
	case s.Format != "qcow2" && s.ClusterBytes != 0:
		return fmt.Errorf("%s= works only with format=qcow2, not with %s", SettingCluster, name)
	case s.Format != "qcow2" && s.ExtendedL2:
		return fmt.Errorf("%s=on works only with format=qcow2, not with %s", SettingExtendedL2, name)
	case s.ExtendedL2 && s.ClusterBytes != 0 && s.ClusterBytes < minExtended:
		return fmt.Errorf("%s=on needs %s=16KiB or more", SettingExtendedL2, SettingCluster)
	case !slices.Contains(Preallocations(), s.Preallocation):
		return fmt.Errorf("%s=%s is not one of %s", SettingPreallocation, s.Preallocation,
			strings.Join(Preallocations(), ", "))
	case s.Preallocation == PreallocMetadata && s.Format != "qcow2":
		return fmt.Errorf("%s=metadata works only with format=qcow2; %s has no tables to preallocate",
			SettingPreallocation, name)
	case s.Preallocation != PreallocOff && s.Format != "qcow2" && !s.Flat:
		return fmt.Errorf("%s=%s does not work with %s, which grows when written to; %s", SettingPreallocation,
			s.Preallocation, name, s.flatInstead())
	case s.Preallocation != PreallocOff && s.State != Fresh:
		return fmt.Errorf("state=%s needs %s=off, because a preallocated image does not get scattered by use", s.State,
			SettingPreallocation)
	case s.Preallocation != PreallocOff && s.Device != "":
		return fmt.Errorf("a device needs no allocation: leave out %s=%s", SettingPreallocation, s.Preallocation)
	case s.ReadOnly && s.State != Fresh:
		return fmt.Errorf("state=%s needs a writable image, but QEMU writes %s only once; leave out "+
			"state=", s.State, name)
	}
	return nil
}

// flatInstead suggests the subformat of the same format whose blocks have fixed places.
func (s *Shape) flatInstead() string {
	for _, k := range kinds() {
		if k.Format == s.Format && k.Flat && k.Subformat != rawDisk {
			return "use subformat=" + k.Subformat
		}
	}
	return "leave it out"
}

// rawDisk is the subformat that only refers to a device.
const rawDisk = "rawdisk"

// checkDevice checks that the device settings fit together, and that a device that will be overwritten is named twice.
func (s *Shape) checkDevice(destroy string) error {
	switch {
	case s.Device == "" && destroy != "":
		return fmt.Errorf("%s=%s names a device that may be overwritten, but there is no %s=; write %s=%s too",
			SettingDestroy, destroy, SettingDevice, SettingDevice, destroy)
	case s.Device == "" && s.Subformat == rawDisk:
		return fmt.Errorf("subformat=%s refers to a device; name it with %s=", rawDisk, SettingDevice)
	case s.Device == "":
		return nil
	case s.Format != "raw" && s.Subformat != rawDisk:
		return fmt.Errorf("%s=%s is a disk without a format; leave out format=%s, or use format=vmdk with subformat=%s",
			SettingDevice, s.Device, s.Format, rawDisk)
	case s.State != Fresh:
		return fmt.Errorf("state=%s works only with image files, not with devices", s.State)
	case s.Device == LoopDevice && destroy != "":
		return fmt.Errorf("%s=%s overwrites none of your devices; leave out %s=", SettingDevice, LoopDevice,
			SettingDestroy)
	case s.Device == LoopDevice:
		return nil
	case !filepath.IsAbs(s.Device) || strings.ContainsAny(s.Device, "\"\n\r"):
		return fmt.Errorf("%s=%q is not the absolute path of a block device, nor %s", SettingDevice, s.Device,
			LoopDevice)
	case destroy == "":
		return fmt.Errorf("everything on %s will be overwritten; to confirm, name it again: %s=%s", s.Device,
			SettingDestroy, s.Device)
	case destroy != s.Device:
		return errors.New("device=" + s.Device + " and destroy=" + destroy + " differ; nothing was written")
	}
	return nil
}

// Name is a short name of the kind: "vdi static".
func (k Kind) Name() string { return strings.TrimSpace(k.Format + " " + k.Subformat) }

// Protocol is QEMU's driver below the format: for a file or for a device.
func (s *Shape) Protocol() string {
	if s.Device != "" && s.Subformat != rawDisk {
		return "host_device"
	}
	return "file"
}

// creation is qemu-img's argument for -o; "" for none.
func (s *Shape) creation() string {
	o := slices.Clone(s.options)
	if s.ClusterBytes > 0 {
		o = append(o, fmt.Sprintf("cluster_size=%d", s.ClusterBytes))
	}
	if s.ExtendedL2 {
		o = append(o, "extended_l2=on")
	}
	if s.Preallocation != PreallocOff && s.byTool() {
		o = append(o, "preallocation="+s.Preallocation)
	}
	return strings.Join(o, ",")
}

// byTool tells whether qemu-img itself allocates the image's space. For the static forms of other formats it only sets
// the length and leaves a sparse file.
func (s *Shape) byTool() bool { return s.Format == "raw" || s.Format == "qcow2" }
