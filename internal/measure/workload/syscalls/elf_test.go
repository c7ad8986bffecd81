package syscalls

import (
	"bytes"
	"debug/elf"
	"testing"
)

func TestProgramIsWellFormed(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64,
		"riscv64": elf.EM_RISCV} {
		image, err := program(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Class != elf.ELFCLASS64 || f.Type != elf.ET_EXEC || f.Machine != machine || len(f.Progs) != 2 {
			t.Errorf("%s: header %+v with %d segments", arch, f.FileHeader, len(f.Progs))
			continue
		}
		load, stack := f.Progs[0], f.Progs[1]
		if load.Type != elf.PT_LOAD || load.Flags != elf.PF_R|elf.PF_X || load.Filesz != uint64(len(image)) ||
			load.Off != 0 ||
			f.Entry < load.Vaddr || f.Entry >= load.Vaddr+load.Memsz || load.Vaddr%load.Align != 0 {
			t.Errorf("%s: segment %+v, entry %#x, %d bytes", arch, load.ProgHeader, f.Entry, len(image))
		}
		if stack.Type != elf.PT_GNU_STACK || stack.Flags&elf.PF_X != 0 {
			t.Errorf("%s: segment %+v, want a stack that is not executable", arch, stack.ProgHeader)
		}
	}
	if _, err := program("s390x"); err == nil {
		t.Error("there is no program for s390x, and no error said so")
	}
}
