package medium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// remedy installs everything that media are made with.
const remedy = "apt-get install xorriso isolinux syslinux-common systemd-boot-efi mtools qemu-utils"

// tools are the programs and loaders that a medium is made with.
type tools struct {
	iso, fat, directory, copy, convert string // programs
	isolinux, module, record, stub     string // files
}

// findTools finds what media of a format are made with; an empty format means any.
func findTools(format string) (t tools, err error) {
	var missing []string
	find := func(to *string, name string) {
		path, err := proc.LookPath(name)
		if err != nil {
			missing = append(missing, name)
		}
		*to = path
	}
	find(&t.iso, "xorriso")
	find(&t.fat, "mformat")
	find(&t.directory, "mmd")
	find(&t.copy, "mcopy")
	if format != "iso" && format != "raw" {
		find(&t.convert, "qemu-img")
	}
	for _, f := range []struct {
		to     *string
		places []string // of Debian, Fedora, Arch
	}{
		{&t.isolinux, []string{"/usr/lib/ISOLINUX/isolinux.bin", "/usr/share/syslinux/isolinux.bin",
			"/usr/lib/syslinux/bios/isolinux.bin"}},
		{&t.record, []string{"/usr/lib/ISOLINUX/isohdpfx.bin", "/usr/share/syslinux/isohdpfx.bin",
			"/usr/lib/syslinux/bios/isohdpfx.bin"}},
		{&t.module, []string{"/usr/lib/syslinux/modules/bios/ldlinux.c32", "/usr/share/syslinux/ldlinux.c32",
			"/usr/lib/syslinux/bios/ldlinux.c32"}},
		{&t.stub, []string{"/usr/lib/systemd/boot/efi/linuxx64.efi.stub"}},
	} {
		for _, p := range f.places {
			if _, err := os.Stat(p); err == nil {
				*f.to = p
				break
			}
		}
		if *f.to == "" {
			missing = append(missing, filepath.Base(f.places[0]))
		}
	}
	if len(missing) > 0 {
		return t, fmt.Errorf("%s: not installed; %s", strings.Join(missing, ", "), remedy)
	}
	return t, nil
}

// Probe tells whether media can be written here.
func Probe(context.Context) env.Status {
	if _, err := findTools(""); err != nil {
		what, _, _ := strings.Cut(err.Error(), "; ")
		return env.Status{Detail: what, Remedy: remedy}
	}
	return env.Status{OK: true, Detail: "xorriso, ISOLINUX, mtools, qemu-img"}
}

// bootFiles are the files that boot. The kernel for BIOS may have another form.
type bootFiles struct{ kernel, bios, initrd, args string }

// build makes the image.
func (t *tools) build(ctx context.Context, dir string, p bootFiles, image string) error {
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "isolinux"), 0o755); err != nil {
		return err
	}
	for to, from := range map[string]string{"isolinux.bin": t.isolinux, "ldlinux.c32": t.module, "linux": p.bios,
		"initrd": p.initrd} {
		if err := copyFile(filepath.Join(tree, "isolinux", to), from); err != nil {
			return err
		}
	}
	config := "DEFAULT tare\nPROMPT 0\nLABEL tare\nKERNEL linux\nINITRD initrd\nAPPEND " + p.args + "\n"
	if err := os.WriteFile(filepath.Join(tree, "isolinux", "isolinux.cfg"), []byte(config), 0o644); err != nil {
		return err
	}
	if err := t.buildEFI(ctx, dir, p, filepath.Join(tree, "efi.img")); err != nil {
		return err
	}
	_, err := proc.Run(ctx, nil, t.iso, "-no_rc", "-as", "mkisofs", "-quiet", "-V", "TARE", "-o", image,
		"-isohybrid-mbr", t.record, "-c", "isolinux/boot.cat", "-b", "isolinux/isolinux.bin", "-no-emul-boot",
		"-boot-load-size", "4", "-boot-info-table",
		"-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot", "-isohybrid-gpt-basdat", tree)
	return err
}

// buildEFI makes the file system that UEFI boots from: one file, under the name that firmware looks for.
func (t *tools) buildEFI(ctx context.Context, dir string, p bootFiles, image string) error {
	program := filepath.Join(dir, "program.efi")
	size, err := t.writeProgram(program, p)
	if err != nil {
		return err
	}
	// In units of 512 bytes, with room for tables and directories.
	sectors := (size+size/64)/512 + 2048
	for _, argv := range [][]string{
		{t.fat, "-C", "-i", image, "-T", strconv.FormatInt(sectors, 10), "-v", "TARE", "::"},
		{t.directory, "-i", image, "::EFI", "::EFI/BOOT"},
		{t.copy, "-i", image, program, "::EFI/BOOT/BOOTX64.EFI"},
	} {
		if _, err := proc.Run(ctx, nil, argv...); err != nil {
			return err
		}
	}
	return os.Remove(program)
}

// writeProgram writes the program that UEFI runs, and returns its size.
func (t *tools) writeProgram(path string, p bootFiles) (int64, error) {
	stub, err := os.ReadFile(t.stub)
	if err != nil {
		return 0, err
	}
	kernel, err := os.ReadFile(p.kernel)
	if err != nil {
		return 0, err
	}
	initrd, err := os.ReadFile(p.initrd)
	if err != nil {
		return 0, err
	}
	b, err := addSections(stub, []section{{".osrel", []byte("ID=tare\nNAME=tare\n")}, {".cmdline", []byte(p.args)},
		{".initrd", initrd}, {".linux", kernel}})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", t.stub, err)
	}
	return int64(len(b)), os.WriteFile(path, b, 0o644)
}

// copyFile makes a link if it can: the kernel may be in another file system.
func copyFile(to, from string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, b, 0o644))
}
