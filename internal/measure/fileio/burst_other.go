//go:build !linux || !(amd64 || arm64)

package fileio

func (b *Burst) do(h *Handle, n int) (done, got int, err error) {
	for ; done < n; done++ {
		if len(b.Offsets) > 0 {
			if _, err := h.Seek(b.Offsets[min(done, len(b.Offsets)-1)], b.Whence); err != nil {
				return done, 0, err
			}
		}
		if got, err = b.one(h); err != nil || got != len(b.Buf) {
			return done, got, err
		}
	}
	return done, 0, nil
}
