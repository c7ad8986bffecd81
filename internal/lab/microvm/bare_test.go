package microvm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bootable is an image with a kernel of two parts, which are loaded in the other order, and its unpacked form.
func bootable(t testing.TB, change func(image []byte, entry *uint64, second *elf.Prog64)) []byte {
	t.Helper()
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
			byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Entry: 0x1000010,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3,
	}
	first := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 240, Paddr: 0x1004000, Filesz: 8, Memsz: 0x3000}
	second := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: 248, Paddr: 0x1000000, Filesz: 32, Memsz: 32}
	image := bzImage(nil)
	binary.LittleEndian.PutUint64(image[bootPreferred:], 0x1000000)
	binary.LittleEndian.PutUint32(image[bootHandover:], 0x190)
	image[bootMoves], image[bootWays] = 1, 0x7f
	if change != nil {
		change(image, &h.Entry, &second)
	}
	var b bytes.Buffer
	for _, x := range []any{h, first, second, elf.Prog64{Type: uint32(elf.PT_NOTE)}, make([]byte, 240-64-3*56),
		[]byte("the last"), []byte("the first, of thirty-two bytes..")} {
		if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	payload := compressions(t, b.Bytes())["lz4"]
	binary.LittleEndian.PutUint32(image[bootPayload+4:], uint32(len(payload)))
	return append(append(image[:2*512+100:2*512+100], payload...), 0)
}

func TestBareLaysTheKernelOut(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, bootable(t, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := Bare(dir, image)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	if size := int(le.Uint32(b[bootSize:])) * 16; size != len(b)-2*512 {
		t.Errorf("%d bytes follow the code for real mode, and the header says %d", len(b)-2*512, size)
	}
	if b[bootMoves] != 0 || b[bootWays] != 0 || le.Uint32(b[bootHandover:]) != 0 {
		t.Error("the header promises other ways to load or to enter it")
	}
	if used := le.Uint32(b[bootMemory:]); used != 0x7000+tableBytes {
		t.Errorf("it says that it needs %#x bytes", used)
	}
	kernel := b[2*512+pageBytes:]
	if !bytes.HasPrefix(kernel, []byte("the first, of thirty-two bytes..\x00")) ||
		!bytes.Equal(kernel[0x4000:], []byte("the last\x00\x00\x00\x00\x00\x00\x00\x00")) {
		t.Errorf("the kernel: %q", kernel)
	}
}

func TestBareSaysWhyThereIsNone(t *testing.T) {
	for why, change := range map[string]func(image []byte, entry *uint64, second *elf.Prog64){
		"2.10":               func(image []byte, _ *uint64, _ *elf.Prog64) { image[bootMagic+4] = 9 },
		"runs at 0x80":       func(image []byte, _ *uint64, _ *elf.Prog64) { image[bootPreferred+3] = 0x80 },
		"begins at 0x900000": func(_ []byte, entry *uint64, _ *elf.Prog64) { *entry = 0x900000 },
		"belong to 0xf00000": func(_ []byte, _ *uint64, second *elf.Prog64) { second.Paddr = 0xf00000 },
		"read 33 bytes":      func(_ []byte, _ *uint64, second *elf.Prog64) { second.Filesz, second.Memsz = 33, 33 },
	} {
		if _, err := bareImage(bootable(t, change)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
	if _, err := bareImage(kernelFile(t, entryNote, 10)); err == nil || !strings.Contains(err.Error(), "real mode") {
		t.Errorf("a kernel that is unpacked already: %v", err)
	}
}

func FuzzBareImage(f *testing.F) {
	f.Add(bootable(f, nil))
	f.Add(kernelFile(f, entryNote, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		if out, err := bareImage(b); err == nil && len(out) < setupBytes(b)+pageBytes {
			t.Errorf("%d bytes", len(out))
		}
	})
}
