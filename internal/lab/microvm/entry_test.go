package microvm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"tare/internal/sys/proc"
)

// kernelFile makes an ELF file with one segment of notes.
func kernelFile(t testing.TB, notes []byte, words int) []byte {
	var b bytes.Buffer
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
			byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	p := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: uint64(len(notes)), Memsz: uint64(len(notes))}
	for _, x := range []any{h, p, notes, bytes.Repeat([]byte("kernel "), words)} {
		if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func note(name string, kind uint32, desc []byte) []byte {
	var b []byte
	for _, n := range []uint32{uint32(len(name)), uint32(len(desc)), kind} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, s := range [][]byte{[]byte(name), desc} {
		b = append(b, s...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

// bzImage wraps a compressed kernel in the form that boot loaders expect.
func bzImage(payload []byte) []byte {
	b := make([]byte, 2*512+100)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], 100)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	return append(append(b, payload...), make([]byte, 300)...)
}

// packed is data in the format of each compressor.
func packed(t testing.TB, data []byte) map[string][]byte {
	t.Helper()
	var gz, zst, lz bytes.Buffer
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	l := lz4.NewWriter(&lz)
	if err := l.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gz), z, l} {
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return map[string][]byte{"gzip": gz.Bytes(), "xz": packXZ(t, data), "zstd": zst.Bytes(), "lz4": lz.Bytes()}
}

// packXZ compresses like a kernel's build (scripts/xz_wrap.sh).
func packXZ(t testing.TB, data []byte) []byte {
	t.Helper()
	path, err := proc.LookPath("xz")
	if err != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("xz is not installed (apt-get install xz-utils)")
	} else if err != nil {
		t.Skip("xz is not installed (apt-get install xz-utils)")
	}
	b, err := proc.Run(t.Context(), bytes.NewReader(data), path, "--check=crc32", "--x86", "--lzma2=dict=32MiB",
		"--stdout")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compressions are a kernel in the format of each compressor, with its size appended if the kernel's build does so.
func compressions(t testing.TB, kernel []byte) map[string][]byte {
	all := packed(t, kernel)
	for name, b := range all {
		if name != "gzip" {
			all[name] = binary.LittleEndian.AppendUint32(b, uint32(len(kernel)))
		}
	}
	return all
}

var entryNote = note("Xen\x00", 18, []byte{0x50, 8, 0, 1, 0, 0, 0, 0})

func TestUnpackedFindsTheKernelInEachKindOfImage(t *testing.T) {
	kernel := kernelFile(t, append(note("GNU\x00", 3, make([]byte, 20)), entryNote...), 20000)
	dir := t.TempDir()
	for name, payload := range compressions(t, kernel) {
		image := filepath.Join(dir, name)
		if err := os.WriteFile(image, bzImage(payload), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := Unpacked(dir, image)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := os.WriteFile(image, bzImage(payload[:len(payload)/2]), 0o600); err != nil {
			t.Fatal(err)
		}
		if path, err := Unpacked(dir, image); err == nil {
			t.Errorf("half of a kernel in %s gives %s", name, path)
		}
	}
}

func TestUnpackedSaysWhyThereIsNone(t *testing.T) {
	dir := t.TempDir()
	images := compressions(t, kernelFile(t, entryNote, 10))
	cut := bzImage(images["gzip"])
	old := bzImage(images["gzip"])
	old[0x206] = 7
	other := kernelFile(t, entryNote, 10)
	binary.LittleEndian.PutUint16(other[18:], uint16(elf.EM_AARCH64))
	for why, image := range map[string][]byte{
		"not a bzImage": []byte("MZ is an EFI program that is none of these"),
		"PVH entry point": bzImage(compressions(t,
			kernelFile(t, note("Xen\x00", 17, make([]byte, 4)), 10))["xz"]),
		"bytes from":               cut[:1130],
		"2.08":                     old,
		"EM_AARCH64":               bzImage(compressions(t, other)["lz4"]),
		"known compression format": bzImage([]byte("LZO! and much that follows")),
		"bad magic":                bzImage(compressions(t, []byte("not a kernel at all"))["gzip"]),
		"its header puts":          bzImage(images["lz4"][:4]),
	} {
		path := filepath.Join(dir, "image")
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Unpacked(dir, path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("an image for %q gives: %v", why, err)
		}
	}
	if _, err := unpackPayload(images["zstd"], 1000); err == nil {
		t.Error("a kernel of more than its limit was unpacked")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "unpacked")); len(left) > 0 {
		t.Errorf("%s was left", left[0].Name())
	}
}

// TestUnpackedKeepsFew checks that a cache keeps the most recently used of many kernels.
func TestUnpackedKeepsFew(t *testing.T) {
	dir := t.TempDir()
	unpacked := filepath.Join(dir, "unpacked")
	image := func(n int) string {
		path := filepath.Join(dir, "image")
		kernel := kernelFile(t, append(note("n", uint32(n), nil), entryNote...), 10)
		if err := os.WriteFile(path, bzImage(compressions(t, kernel)["lz4"]), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var first string
	for n := range keptUnpacked + 3 {
		path, err := Unpacked(dir, image(n))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = path
		}
		then := time.Now().Add(time.Duration(n-100) * time.Minute)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		if n == 1 { // used again, so it stays
			if again, err := Unpacked(dir, image(0)); again != first || err != nil {
				t.Fatalf("the same image again gives %s, %v", again, err)
			}
			if err := os.WriteFile(filepath.Join(unpacked, "new-1"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(unpacked, "new-1"), then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, err := os.ReadDir(unpacked)
	if err != nil || len(left) != keptUnpacked {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	if _, err := os.Stat(first); err != nil {
		t.Errorf("the one that was used last: %v", err)
	}
}

// TestUnpackedRealKernels uses the kernels that were fetched for the tests with machines.
func TestUnpackedRealKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("large kernels are unpacked")
	}
	kernels, err := List("")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, k := range kernels {
		path, err := Unpacked(t.TempDir(), k.Image)
		if k.Arch != "amd64" {
			if err == nil {
				t.Errorf("%s has an entry for PVH", k.Image)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		seen++
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte("Linux version "+k.Release+" ")) {
			t.Errorf("%s is not in the %d bytes of %s, %v", k.Release, len(b), path, err)
		}
	}
	if seen == 0 && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("no kernel was fetched, and TARE_REQUIRE is set: run: tare guest fetch")
	} else if seen == 0 {
		t.Skip("no kernel was fetched: run: tare guest fetch")
	}
}

func FuzzUnpackImage(f *testing.F) {
	for _, payload := range compressions(f, kernelFile(f, entryNote, 10)) {
		f.Add(bzImage(payload))
	}
	f.Add(kernelFile(f, entryNote, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		kernel, err := unpackImage(b, 1<<20)
		if err != nil {
			return
		}
		if checkEntry(kernel) == nil && !bytes.Contains(kernel, []byte("Xen\x00")) {
			t.Error("an entry without its note")
		}
	})
}
