package image

import "fmt"

// flat maps guest bytes one to one to a file: a raw disk, a fixed VHD, a flat extent.
type flat struct {
	f    *file
	host int64 // offset of the guest's byte 0
	size int64
}

// at distinguishes data from holes if the file system reports holes.
func (m *flat) at(off int64) (Run, error) {
	r := Run{Offset: off, Length: m.size - off, State: Data, File: m.f.id, Host: m.host + off}
	if r.Host >= m.f.size { // like qemu-img, treat the missing end of a file as a hole
		r.State = Unallocated
		return r, nil
	}
	data, length, err := nextData(m.f.f, r.Host, m.f.size)
	if err != nil {
		return Run{}, fmt.Errorf("find holes at %d: %w", r.Host, err)
	}
	if !data {
		r.State = Unallocated
	}
	if r.Host+length < m.f.size {
		r.Length = min(r.Length, length)
	} else if data {
		r.Length = min(r.Length, m.f.size-r.Host)
	}
	return r, nil
}

func parseRaw(_ *store, f *file) (*layer, parent, error) {
	size := (f.size + 511) &^ 511 // a guest sees only whole sectors
	return &layer{info: Info{Format: "raw", Variant: "flat", Size: size}, m: &flat{f: f, size: size}}, parent{}, nil
}
