package vdisk

import (
	"bytes"
	"strings"
	"testing"
)

func settings(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestShapesThatCannotBeAreRefusedWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		settings string // "name=value name=value"
		want     string
	}{
		{"format=dmg", "is not one of raw, qcow2, vdi, vmdk, vhd, vhdx"},
		{"format=raw subformat=dynamic", "has no subformats"},
		{"format=vdi subformat=fixed", "there are: dynamic, static"},
		{"state=old", "fresh, aged, compacted"},
		{"preallocation=some", "off, metadata, falloc, full"},
		{"format=vdi preallocation=full", "use subformat=static"},
		{"format=vmdk preallocation=full", "use subformat=monolithicFlat"},
		{"format=vdi subformat=static preallocation=metadata", "format=qcow2"},
		{"format=vdi subformat=static preallocation=full state=aged", "preallocation=off"},
		{"format=vmdk subformat=streamOptimized state=aged", "only once"},
		{"format=raw cluster_size=64KiB", "format=qcow2"},
		{"format=qcow2 cluster_size=3KiB", "power of two"},
		{"format=qcow2 cluster_size=4MiB", "power of two"},
		{"format=vdi extended_l2=on", "format=qcow2"},
		{"format=qcow2 extended_l2=on cluster_size=4KiB", "16KiB"},
		{"format=vmdk subformat=rawdisk", "name it with device="},
		{"device=/dev/sda", "destroy=/dev/sda"},
		{"device=/dev/sda destroy=/dev/sdb", "nothing was written"},
		{"destroy=/dev/sda", "there is no device="},
		{"device=sda destroy=sda", "absolute path"},
		{"device=/dev/a\"b destroy=/dev/a\"b", "absolute path"},
		{"device=loop destroy=loop", "leave out destroy="},
		{"device=loop format=qcow2", "subformat=rawdisk"},
		{"device=loop state=aged", "only with image files"},
		{"device=loop preallocation=full", "needs no allocation"},
		{"fill=3KiB", "a multiple of 4KiB"},
		{"fill=5000", "a multiple of 4KiB"},
		{"fill=much", "such as 64MiB"},
		{"fill=4MiB fill_data=zero", "random, half"},
		{"fill_data=half", "set its size, too"},
	} {
		var pairs []string
		for w := range strings.FieldsSeq(c.settings) {
			k, v, _ := strings.Cut(w, "=")
			pairs = append(pairs, k, v)
		}
		if s, err := Parse(settings(pairs...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s gives %+v and %v, want %q", c.settings, s, err, c.want)
		}
	}
}

func TestWhatIsNotSaidIsDecidedByTheFormat(t *testing.T) {
	for _, c := range []struct{ format, subformat, state, want, prealloc string }{
		{"", "", "", "raw", PreallocOff},
		{"vdi", "", "", "vdi dynamic", PreallocOff},
		{"vdi", "static", "", "vdi static", PreallocFalloc},
		{"vdi", "static", Aged, "vdi static", PreallocOff},
		{"vmdk", "", "", "vmdk monolithicSparse", PreallocOff},
		{"vhdx", "fixed", Fresh, "vhdx fixed", PreallocFalloc},
	} {
		s, err := Parse(settings(SettingFormat, c.format, SettingSubformat, c.subformat, SettingState, c.state))
		if err != nil || s.Name() != c.want || s.Preallocation != c.prealloc {
			t.Errorf("%+v gives %+v, %v", c, s, err)
		}
	}
}

// FuzzParse: whatever a plan contains, the result is a shape that can be made, or an error with a message; and nothing
// is overwritten that was not named twice.
func FuzzParse(f *testing.F) {
	f.Add("vdi", "static", "aged", "off", "", "off", "", "", "", "")
	f.Add("raw", "", "fresh", "", "", "", "/dev/sda", "/dev/sda", "4MiB", "half")
	f.Add("qcow2", "", "", "metadata", "64KiB", "on", "", "", "9EiB", "random")
	f.Fuzz(func(t *testing.T, format, subformat, state, prealloc, cluster, extended, device, destroy, fill,
		data string) {
		s, err := Parse(settings(SettingFormat, format, SettingSubformat, subformat, SettingState, state,
			SettingPreallocation, prealloc,
			SettingCluster, cluster, SettingExtendedL2, extended, SettingDevice, device, SettingDestroy, destroy,
			SettingFill, fill, SettingFillData, data))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if s.Device != "" && s.Device != LoopDevice && destroy != s.Device {
			t.Errorf("%q would be overwritten, and destroy=%q", s.Device, destroy)
		}
		if s.Filled() != (fill != "") || s.FillBytes < 0 {
			t.Errorf("fill=%q fills with %d bytes", fill, s.FillBytes)
		}
		if strings.ContainsAny(s.creation(), " \n") || s.Driver == "" {
			t.Errorf("%+v gives qemu-img %q", s, s.creation())
		}
	})
}

func TestDescriptorNamesItsDevice(t *testing.T) {
	d := Descriptor("/dev/loop9", 64<<20)
	for _, want := range []string{"RW 131072 FLAT \"/dev/loop9\" 0\n", "createType=\"monolithicFlat\"\n",
		"ddb.geometry.cylinders = \"130\"\n"} {
		if !bytes.Contains([]byte(d), []byte(want)) {
			t.Errorf("%q is missing in\n%s", want, d)
		}
	}
}
