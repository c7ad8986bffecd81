package microvm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const bareEnding = ".bare"

// Bare returns an x86 kernel image for boot loaders that know the protocol of BIOS, with the same kernel, uncompressed.
// An interpreted processor takes long to unpack a kernel, and minutes for one compressed with xz. The kernel's
// addresses are not randomised (KASLR). The file is made once and kept below cache, or below DefaultCache if cache is
// empty. An error says why there is none; the image still boots.
func Bare(cache, image string) (string, error) { return keptOf(cache, image, bareEnding, bareImage) }

// Fields of the header that boot loaders read: Documentation/arch/x86/boot.rst.
const (
	bootSectors   = 0x1f1
	bootSize      = 0x1f4 // of what runs in protected mode, in units of 16 bytes
	bootMagic     = 0x202 // "HdrS", followed by the protocol's version
	bootMoves     = 0x234 // whether that may be loaded anywhere
	bootWays      = 0x236 // other ways to enter it
	bootPayload   = 0x248 // where the kernel is in it, and how long
	bootPreferred = 0x258 // where the kernel runs
	bootMemory    = 0x260 // how much memory it needs there
	bootHandover  = 0x264 // UEFI's
	bootHeaderEnd = 0x268
)

const (
	loadedAt = 0x100000 // where loaders put what runs in protected mode
	// pageBytes is the size of the code before the kernel.
	pageBytes = 4096
)

// bareImage makes the image: the original one's code for real mode, code that moves the kernel to its place and enters
// it, and the kernel's segments as they lie in memory.
func bareImage(b []byte) ([]byte, error) {
	unpacked, err := unpackImage(b, maxUnpacked)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if len(b) < bootHeaderEnd || !bytes.Equal(b[bootMagic:bootMagic+4], []byte("HdrS")) || setupBytes(b) > len(b) {
		return nil, errors.New("it has no code for real mode")
	}
	if v := le.Uint16(b[bootMagic+4:]); v < 0x20a {
		return nil, fmt.Errorf("its boot protocol is %d.%02d; at least 2.10 is needed to know the kernel's place", v>>8,
			v&0xff)
	}
	start := le.Uint64(b[bootPreferred:])
	if start < 2*loadedAt || start >= 1<<31 || start%pageBytes != 0 {
		return nil, fmt.Errorf("its kernel runs at %#x", start)
	}
	kernel, entry, memory, err := flatten(unpacked, start)
	if err != nil {
		return nil, err
	}
	// What follows the last byte that is not zero is memory that the kernel clears before it uses it.
	kernel = bytes.TrimRight(kernel, "\x00")
	kernel = append(kernel, make([]byte, align(len(kernel), 16)-len(kernel))...)
	out := slices.Clone(b[:setupBytes(b)])
	le.PutUint32(out[bootSize:], uint32((pageBytes+len(kernel))/16))
	out[bootMoves] = 0
	le.PutUint16(out[bootWays:], 0)
	clear(out[bootPayload : bootPayload+8])
	tables := align(int(start)+memory, pageBytes)
	le.PutUint32(out[bootMemory:], uint32(tables+tableBytes-int(start)))
	le.PutUint32(out[bootHandover:], 0)
	return append(append(out, enterKernel(int(start), len(kernel), entry, tables)...), kernel...), nil
}

// setupBytes is the length of an image's code for real mode.
func setupBytes(b []byte) int {
	sectors := int(b[bootSectors])
	if sectors == 0 {
		sectors = 4
	}
	return (sectors + 1) * 512
}

// flatten lays out a kernel's segments as they lie in memory from a physical address on. entry is where it begins, and
// memory how much it has in all.
func flatten(kernel []byte, start uint64) (flat []byte, entry, memory int, err error) {
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return nil, 0, 0, err
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return nil, 0, 0, fmt.Errorf("it is a kernel for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		if p.Paddr < start || p.Paddr-start > maxImage || p.Memsz > maxImage || p.Filesz > p.Memsz {
			return nil, 0, 0, fmt.Errorf("%d bytes of it belong to %#x, and the first to %#x", p.Memsz, p.Paddr, start)
		}
		at := int(p.Paddr - start)
		memory = max(memory, at+int(p.Memsz))
		if end := at + int(p.Filesz); end > len(flat) {
			flat = append(flat, make([]byte, end-len(flat))...)
		}
		if _, err := p.ReadAt(flat[at:at+int(p.Filesz)], 0); err != nil && p.Filesz > 0 {
			return nil, 0, 0, fmt.Errorf("read %d bytes of it: %w", p.Filesz, err)
		}
	}
	if f.Entry < start || f.Entry-start >= uint64(len(flat)) {
		return nil, 0, 0, fmt.Errorf("it begins at %#x, which is not in it", f.Entry)
	}
	return flat, int(f.Entry), memory, nil
}

func align(n, to int) int { return (n + to - 1) / to * to }

// tableBytes is the size of the tables that map the first 4 GiB to themselves, in pages of 2 MiB: one table of the
// first kind, one of the second, four of the third.
const tableBytes = 6 * pageBytes

// enterKernel is a page of code that loaders enter in protected mode, with the address of the boot parameters in ESI.
// It moves the kernel, which follows it, to its place, and goes on in long mode, as the kernel expects it. The tables
// of pages are made where tables says.
func enterKernel(place, size, entry, tables int) []byte {
	const (
		segments = 0x800    // their table; the stack is before it
		code     = 0x10     // selectors
		data     = 0x18     //
		present  = 3        // and writable
		large    = 0x80     //
		entries  = 4 * 512  // of tables of the third kind
		cleared  = 2 * 1024 // words of the other tables
		efer     = 0xc0000080
		from     = loadedAt + pageBytes
	)
	le := binary.LittleEndian
	var b []byte
	op := func(code ...byte) { b = append(b, code...) }
	with := func(n int, code ...byte) { b = le.AppendUint32(append(b, code...), uint32(n)) }

	op(0xfa, 0xfc)                // cli; cld
	with(loadedAt+segments, 0xbc) // mov esp, ...
	op(0x89, 0xf3)                // mov ebx, esi
	for end := size; end > 0; {   // from the end on, because the two places may overlap
		n := min(end, place-from)
		end -= n
		with(from+end, 0xbe)  // mov esi, ...
		with(place+end, 0xbf) // mov edi, ...
		with(n/4, 0xb9)       // mov ecx, ...
		op(0xf3, 0xa5)        // rep movsd
	}
	with(tables, 0xbf)            // mov edi, tables
	op(0x31, 0xc0)                // xor eax, eax
	with(cleared, 0xb9)           // mov ecx, cleared
	op(0xf3, 0xab)                // rep stosd
	with(large|present, 0xb8)     // mov eax, large|present
	with(entries, 0xb9)           // mov ecx, entries
	op(0x89, 0x07)                // next: mov [edi], eax
	with(0, 0xc7, 0x47, 4)        // mov dword [edi+4], 0
	with(2<<20, 0x05)             // add eax, 2 MiB
	op(0x83, 0xc7, 8)             // add edi, 8
	op(0xe2, 0x100-2-7-5-3-2)     // loop next
	refer := func(from, to int) { // mov dword [from], to|present
		b = le.AppendUint32(le.AppendUint32(append(b, 0xc7, 0x05), uint32(from)), uint32(to|present))
	}
	refer(tables, tables+pageBytes)
	for i := range 4 {
		refer(tables+pageBytes+8*i, tables+(2+i)*pageBytes)
	}
	with(tables, 0xb8)                        // mov eax, tables
	op(0x0f, 0x22, 0xd8)                      // mov cr3, eax
	op(0x0f, 0x20, 0xe0)                      // mov eax, cr4
	op(0x83, 0xc8, 0x20)                      // or eax, PAE
	op(0x0f, 0x22, 0xe0)                      // mov cr4, eax
	with(efer, 0xb9)                          // mov ecx, efer
	op(0x0f, 0x32)                            // rdmsr
	op(0x0f, 0xba, 0xe8, 8)                   // bts eax, LME
	op(0x0f, 0x30)                            // wrmsr
	with(loadedAt+segments, 0x0f, 0x01, 0x15) // lgdt [...]
	op(0x0f, 0x20, 0xc0)                      // mov eax, cr0
	with(1<<31|1, 0x0d)                       // or eax, PG|PE
	op(0x0f, 0x22, 0xc0)                      // mov cr0, eax
	op(0x6a, code)                            // push code
	with(loadedAt+len(b)+5+1, 0x68)           // push long
	op(0xcb)                                  // retf
	with(data, 0xb8)                          // long: mov eax, data
	for _, segment := range []byte{0xd8, 0xc0, 0xd0, 0xe0, 0xe8} {
		op(0x8e, segment) // mov ds, eax; es, ss, fs, gs
	}
	op(0x89, 0xde)    // mov esi, ebx: the upper half becomes zero
	with(entry, 0xb8) // mov eax, entry
	op(0xff, 0xe0)    // jmp rax

	b = append(b, make([]byte, pageBytes-len(b))...)
	le.PutUint16(b[segments:], 4*8-1)
	le.PutUint32(b[segments+2:], loadedAt+segments+8)
	le.PutUint64(b[segments+8+code:], 0x00af9a000000ffff)
	le.PutUint64(b[segments+8+data:], 0x00cf92000000ffff)
	return b
}
