package guest

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the modules kept of a kernel package, with all they need. A name that a kernel does not have is skipped: it
// may be built in, renamed, or left out of that flavour; whoever asks for it later is told.
var wanted = []string{
	"virtio_pci", "virtio_mmio", "virtio_console", "virtio_blk", "virtio_scsi", "sd_mod", "virtio_net", "virtio_rng",
	"virtio_balloon", "vsock", "vmw_vsock_virtio_transport", "nvme", "e1000", "e1000e", "af_packet",
	"ext4", "crc32c_generic", "crc32c_intel", "xfs", "btrfs", "overlay", "loop",
	"virtiofs", "fuse", "9p", "9pnet_virtio", "nfs", "nfsv3", "nfsv4", "cifs",
	"dm_log_writes", "dm_flakey",
}

// modinfo returns the values of a key in a module's .modinfo section: "depends", "softdep", "alias".
func modinfo(module []byte) (map[string][]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("read module: it has no .modinfo section")
	}
	if s.Size > 1<<20 || s.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("read module: its .modinfo section is damaged")
	}
	b, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	info := map[string][]string{}
	for e := range bytes.SplitSeq(b, []byte{0}) {
		if k, v, ok := strings.Cut(string(e), "="); ok {
			info[k] = append(info[k], v)
		}
	}
	return info, nil
}

// depmod works out modules.dep for the wanted modules among files, which are relative to dir with slashes, and returns
// its text and the files of the others. A package carries no modules.dep: the distribution writes it after installation.
func depmod(dir string, files []string) (dep []byte, unwanted []string, err error) {
	byName := map[string]string{}
	for _, f := range files {
		if name, ok := ModuleName(f); ok {
			byName[name] = f
		}
	}
	needs := map[string][]string{}
	var visit func(name string) error
	visit = func(name string) error {
		file := byName[name]
		if _, seen := needs[name]; seen || file == "" {
			return nil
		}
		b, err := ReadModule(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		info, err := modinfo(b)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		needs[name] = []string{}
		for _, d := range strings.Split(strings.Join(info["depends"], ","), ",") {
			d = strings.ReplaceAll(strings.TrimSpace(d), "-", "_")
			if d == "" {
				continue
			}
			needs[name] = append(needs[name], d)
			if err := visit(d); err != nil {
				return err
			}
		}
		return nil
	}
	for _, w := range wanted {
		if err := visit(w); err != nil {
			return nil, nil, err
		}
	}
	var out bytes.Buffer
	for _, f := range slices.Sorted(slices.Values(files)) {
		name, ok := ModuleName(f)
		if !ok {
			continue
		}
		deps, kept := needs[name]
		if !kept {
			unwanted = append(unwanted, f)
			continue
		}
		out.WriteString(f + ":")
		// Reversed, because readers of modules.dep load from the end.
		for _, d := range slices.Backward(deps) {
			// A module that the package lacks stays in the list, so that whoever resolves it is told what is missing.
			out.WriteString(" " + cmp.Or(byName[d], d+".ko"))
		}
		out.WriteString("\n")
	}
	return out.Bytes(), unwanted, nil
}
