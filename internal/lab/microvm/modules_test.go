package microvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mikelolasagasti/xz"
)

const depText = `kernel/drivers/virtio/virtio-pci.ko.xz: kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz
kernel/drivers/virtio/virtio.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz
kernel/drivers/virtio/virtio_ring.ko.xz:
kernel/net/needy.ko: kernel/net/gone.ko
kernel/net/a.ko: kernel/net/b.ko
kernel/net/b.ko: kernel/net/a.ko
`

func TestResolveLoadsEachModuleAfterWhatItNeeds(t *testing.T) {
	x, err := ParseIndex([]byte(depText), []byte("kernel/fs/ext4/ext4.ko\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := x.Resolve("virtio_pci", "ext4", "virtio")
	want := []string{"kernel/drivers/virtio/virtio_ring.ko.xz", "kernel/drivers/virtio/virtio.ko.xz",
		"kernel/drivers/virtio/virtio-pci.ko.xz"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if missing, ok := errors.AsType[*MissingError](second(x.Resolve("e1000"))); !ok || missing.Module != "e1000" {
		t.Errorf("a module that is not there: %v", missing)
	}
	if missing, ok := errors.AsType[*MissingError](second(x.Resolve("needy"))); !ok || missing.Module != "gone" ||
		missing.For != "needy" {
		t.Errorf("a module that needs one that is not there: %v", missing)
	}
	if _, err := x.Resolve("a"); err == nil || !strings.Contains(err.Error(), "need each other") {
		t.Errorf("a circle gives: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestIndexRefusesWhatIsNoIndex(t *testing.T) {
	for _, text := range []string{"kernel/a.ko", "../a.ko:", "/lib/a.ko:", "kernel/a.txt:", "kernel/a.ko: readme"} {
		if _, err := ParseIndex([]byte(text), nil); err == nil {
			t.Errorf("%q was read as an index", text)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(depText), []byte("kernel/fs/ext4/ext4.ko\n"), "virtio_pci")
	f.Add([]byte("a.ko: a.ko\n"), []byte(nil), "a")
	f.Fuzz(func(t *testing.T, dep, builtin []byte, want string) {
		x, err := ParseIndex(dep, builtin)
		if err != nil {
			return
		}
		order, err := x.Resolve(want)
		if err != nil {
			return
		}
		if !x.builtin[want] {
			if last, _ := ModuleName(order[len(order)-1]); last != want {
				t.Errorf("the last of %v is not %s", order, want)
			}
		}
		seen := map[string]bool{}
		for _, file := range order {
			name, _ := ModuleName(file)
			for _, need := range x.deps[name] {
				if !seen[need] && !x.builtin[need] {
					t.Errorf("%s comes before %s", name, need)
				}
			}
			if seen[name] {
				t.Errorf("%s is loaded twice", name)
			}
			seen[name] = true
		}
	})
}

func TestModulesAreUnpackedOnTheHost(t *testing.T) {
	want := bytes.Repeat([]byte("module "), 1000)
	dir := t.TempDir()
	all := packed(t, want)
	for name, b := range map[string][]byte{"m.ko": want, "m.ko.gz": all["gzip"], "m.ko.xz": all["xz"],
		"m.ko.zst": all["zstd"]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadModule(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if name == "m.ko" {
			continue
		}
		if err := os.WriteFile(path, b[:len(b)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadModule(path); err == nil {
			t.Errorf("half of %s was read without an error", name)
		}
	}
	// 0x28 in the LZMA2 block header requests 4 GiB of history. The block header begins at byte 12 and has its checksum
	// at its end.
	greedy := slices.Clone(all["xz"])
	header := greedy[12:][:(int(greedy[12])+1)*4]
	i := bytes.Index(header, []byte{0x21, 0x01})
	header[i+2] = 0x28
	binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.ChecksumIEEE(header[:len(header)-4]))
	path := filepath.Join(dir, "greedy.ko.xz")
	if err := os.WriteFile(path, greedy, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadModule(path); !errors.Is(err, xz.ErrMemlimit) {
		t.Errorf("a file that asks for 4 GiB of history gives: %v", err)
	}
}

func FuzzModinfo(f *testing.F) {
	if kernels, err := List(""); err == nil && len(kernels) > 0 {
		if names, _ := filepath.Glob(filepath.Join(kernels[0].Modules,
			"kernel/drivers/virtio/virtio_ring.ko*")); len(names) > 0 {
			if b, err := ReadModule(names[0]); err == nil {
				f.Add(b)
			}
		}
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := modinfo(b)
		if err == nil && info == nil {
			t.Error("neither information nor an error")
		}
	})
}

func TestWithoutSignature(t *testing.T) {
	const ending = "~Module signature appended~\n"
	about := "\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x03"
	for module, want := range map[string]string{
		"code" + "sig" + about + ending: "code", "code": "code", "": "", ending: ending, about + ending: about + ending,
		"sig" + about + ending: "", "code" + ending + "more": "code" + ending + "more",
	} {
		if got := string(withoutSignature([]byte(module))); got != want {
			t.Errorf("%q became %q, want %q", module, got, want)
		}
	}
}
