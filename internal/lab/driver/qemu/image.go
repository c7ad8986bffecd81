package qemu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/vdisk"
)

const settingDiscard = "discard"

// imageSettings are the settings of a disk's image, for the scratch disk and for mounts. Most have no default of their
// own, because it depends on the format.
func imageSettings() []env.Setting {
	or := func(check func(string) error) func(string) error {
		return func(v string) error {
			if v == "" {
				return nil
			}
			return check(v)
		}
	}
	return []env.Setting{
		{Name: vdisk.SettingFormat, Default: "raw", Doc: "The disk's format: raw, qcow2, vdi, vmdk, vhd or vhdx.",
			Check: env.OneOf(vdisk.Formats()...)},
		{Name: vdisk.SettingSubformat, Default: "", Doc: "Its variant: dynamic or static (vdi), monolithicSparse, " +
			"monolithicFlat, streamOptimized (read only) or rawdisk (device=) (vmdk), dynamic or fixed (vhd, " +
			"vhdx); by default the first.", Check: or(env.OneOf(vdisk.Subformats("")...))},
		{Name: vdisk.SettingState, Default: vdisk.Fresh,
			Doc: "Its state: fresh, aged (written in a fixed random order, with gaps on the host) or compacted " +
				"(aged, then compacted by VBoxManage if possible and vdi, else converted by qemu-img).",
			Check: env.OneOf(vdisk.States()...)},
		{Name: vdisk.SettingPreallocation, Default: "",
			Doc: "Preallocation on the host: off, metadata (qcow2), falloc (reserved) or full (written); by " +
				"default falloc for static subformats, else off.", Check: or(env.OneOf(vdisk.Preallocations()...))},
		{Name: vdisk.SettingCluster, Default: "",
			Doc:   "Size of qcow2's clusters, a power of two from 512 to 2MiB; qemu-img's default is 64KiB.",
			Check: or(vdisk.CheckCluster)},
		{Name: vdisk.SettingExtendedL2, Default: "off",
			Doc:   "32 separately allocated parts in each of qcow2's clusters: on or off.",
			Check: env.OneOf("on", "off")},
		{Name: vdisk.SettingDevice, Default: "", Doc: "A block device in the place of a file: loop, for a file of " +
			"tare's own, or the path of a device that is OVERWRITTEN; repeat it in destroy=."},
		{Name: vdisk.SettingDestroy, Default: "",
			Doc: "The same device again: everything on it may be destroyed."},
		{Name: vdisk.SettingFill, Default: "", Doc: "Size of a file " + vdisk.FillName +
			" made with the disk, such as 64MiB, to be read by workloads with file=" + vdisk.FillName +
			", also from an image that cannot be written.", Check: or(vdisk.CheckFill)},
		{Name: vdisk.SettingFillData, Default: "",
			Doc:   "Its contents: random (incompressible, the default) or half (compresses to about a half).",
			Check: or(env.OneOf(vdisk.FillKinds()...))},
		{Name: settingDiscard, Default: "ignore", Doc: "What the guest's discards do: ignore, or unmap, which " +
			"frees space on the host (raw and qcow2).", Check: env.OneOf("ignore", "unmap")},
	}
}

// parseImage reads the settings of a disk's image and checks them against QEMU's settings. given returns "" for a
// setting that was not given. The resulting values are stored in shown.
func parseImage(given func(string) string, cache cacheMode, aio string, shown map[string]string) (vdisk.Shape, error) {
	for _, d := range imageSettings() {
		shown[d.Name] = d.Default
		if v := given(d.Name); v != "" {
			shown[d.Name] = v
		}
	}
	s, err := vdisk.Parse(given)
	if err != nil {
		return s, err
	}
	shown[vdisk.SettingSubformat], shown[vdisk.SettingPreallocation], shown[vdisk.SettingFillData] = s.Subformat,
		s.Preallocation, s.FillData
	switch {
	case aio == "native" && !cache.direct:
		return s, errors.New("aio=native needs cache=none or cache=directsync; QEMU refuses it on a buffered file")
	case aio != "threads" && s.Extents:
		return s, fmt.Errorf("aio=%s would affect only the descriptor of %s; QEMU opens the file with the data "+
			"itself; use aio=threads", aio, s.Name())
	case shown[settingDiscard] == "unmap" && !s.Discard:
		return s, fmt.Errorf("discard=unmap needs format=raw or format=qcow2, because QEMU's driver for %s ignores "+
			"discards", s.Format)
	}
	return s, nil
}

// given returns the settings of a spec in the form that parseImage needs.
func given(s *env.Spec) func(string) string {
	return func(name string) string { return s.Settings[name] }
}

// checkScratch says which settings of the scratch disk are wrong.
func (c *config) checkScratch(s *env.Spec) error {
	if c.image.ReadOnly {
		return fmt.Errorf("%s is written only once, when it is made, so it cannot be the scratch disk; use it for "+
			"a mount: -m %s:NAME=disk?format=%s&subformat=%s",
			c.image.Name(), s.Name, c.image.Format, c.image.Subformat)
	}
	if _, sized := s.Settings["disk"]; sized && c.image.Device != "" && c.image.Device != vdisk.LoopDevice &&
		c.disk > 0 {
		return fmt.Errorf("device=%s has its own size; leave out disk=", c.image.Device)
	}
	if c.disk > 0 {
		return fileSystems()[0].checkFill(&c.image, c.disk)
	}
	for _, d := range imageSettings() {
		if _, ok := s.Settings[d.Name]; ok {
			return fmt.Errorf("disk=none and %s= contradict each other; give the disk a size", d.Name)
		}
	}
	return nil
}

// scratch is the scratch disk in QEMU's command line.
func (c *config) scratch(path string) drive {
	return drive{id: scratchID, serial: scratchSerial, path: path, shape: c.image, cache: c.cache, aio: c.aio,
		discard: c.discard, iothread: c.iothread}
}

// mountOptions adds the mount options that the image needs in the guest.
func mountOptions(options string, s vdisk.Shape, discard string) string {
	words := strings.FieldsFunc(options, func(r rune) bool { return r == ',' })
	if s.ReadOnly && !slices.Contains(words, "ro") {
		words = append(words, "ro")
	}
	about := func(w string) bool { return strings.HasPrefix(w, "discard") || w == "nodiscard" }
	if discard == "unmap" && !slices.ContainsFunc(words, about) {
		words = append(words, "discard") // without it the guest frees blocks without a discard
	}
	return strings.Join(words, ",")
}

// prefixed returns facts with a prefix before their names.
func prefixed(prefix string, facts map[string]string) map[string]string {
	out := make(map[string]string, len(facts))
	for k, v := range facts {
		out[prefix+k] = v
	}
	return out
}
