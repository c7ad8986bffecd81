package medium

import (
	"bytes"
	"debug/pe"
	"os"
	"testing"
)

func FuzzAddSections(f *testing.F) {
	if stub, err := os.ReadFile("/usr/lib/systemd/boot/efi/linuxx64.efi.stub"); err == nil {
		f.Add(stub, []byte("quiet"))
	}
	f.Add([]byte("MZ"), []byte{})
	f.Fuzz(func(t *testing.T, program, data []byte) {
		before, err := pe.NewFile(bytes.NewReader(program))
		if err != nil {
			before = nil
		}
		out, err := addSections(program, []section{{".cmdline", data}, {".linux", data}})
		if err != nil || before == nil {
			return
		}
		after, err := pe.NewFile(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("what was a program is none: %v", err)
		}
		s := after.Section(".linux")
		if len(after.Sections) != len(before.Sections)+2 || s == nil {
			t.Fatalf("%d sections, of %d", len(after.Sections), len(before.Sections))
		}
		if got, err := s.Data(); err == nil && !bytes.HasPrefix(got, data) {
			t.Errorf("%q, not %q", got, data)
		}
	})
}
