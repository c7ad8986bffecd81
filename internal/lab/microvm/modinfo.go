package microvm

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the modules that are kept of a kernel package, with all modules that they need. A name that a kernel lacks
// is skipped: it may be built in, renamed, or not in that flavour. A later request for it gives an error.
var wanted = []string{
	"virtio_pci", "virtio_mmio", "virtio_console", "virtio_blk", "virtio_scsi", "sd_mod", "virtio_net", "virtio_rng",
	"virtio_balloon", "vsock", "vmw_vsock_virtio_transport", "nvme", "e1000", "e1000e", "af_packet",
	"ext4", "crc32c_generic", "crc32c_intel", "xfs", "btrfs", "overlay", "loop",
	"virtiofs", "fuse", "9p", "9pnet_virtio", "nfs", "nfsv3", "nfsv4", "nfsd", "tun", "cifs",
	"dm_log_writes", "dm_flakey",
	// What common hypervisors have besides: see package medium.
	"ata_piix", "ahci", "mptspi", "mptsas", "vmw_pvscsi", "hv_storvsc", "xen_blkfront", "pcnet32", "vmxnet3",
	"hv_netvsc", "vboxguest", "vboxsf",
}

// modinfo returns the values of a key in a module's .modinfo section: "depends", "softdep", "alias".
func modinfo(module []byte) (map[string][]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("read module: there is no .modinfo section")
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

// indexes are a kernel's module lists, as a distribution writes them after installation, and the module files that are
// not needed.
type indexes struct {
	dep, softdep, alias []byte
	unwanted            []string
}

// depmod makes the lists for the wanted modules among files, which are relative to dir with slashes. It keeps only the
// aliases of the kernel's cryptography, because nothing else is requested by alias.
func depmod(dir string, files []string) (indexes, error) {
	d := &depmodder{dir: dir, files: map[string]string{}, needs: map[string][]string{}, index: newIndex()}
	for _, f := range files {
		name, ok := ModuleName(f)
		if !ok {
			continue
		}
		d.files[name] = f
		d.index.files[name] = f
		if !isCrypto(f) {
			continue
		}
		info, err := d.modinfo(name)
		if err != nil {
			return indexes{}, err
		}
		for _, a := range info["alias"] {
			d.index.aliases[a] = append(d.index.aliases[a], name)
		}
	}
	for _, w := range wanted {
		if err := d.visit(w); err != nil {
			return indexes{}, err
		}
	}
	return d.write(files), nil
}

// isCrypto tells whether a module is software cryptography of the kernel. Those of devices are in other folders.
func isCrypto(file string) bool {
	return strings.Contains("/"+file, "/crypto/") && !strings.Contains("/"+file, "/drivers/")
}

type depmodder struct {
	dir   string
	files map[string]string
	needs map[string][]string // of the kept modules
	index *Index              // for soft dependencies
}

func (d *depmodder) modinfo(name string) (map[string][]string, error) {
	b, err := ReadModule(filepath.Join(d.dir, filepath.FromSlash(d.files[name])))
	if err != nil {
		return nil, err
	}
	info, err := modinfo(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.files[name], err)
	}
	return info, nil
}

// visit keeps a module with all modules that it needs or requests. The number of modules bounds the depth.
func (d *depmodder) visit(name string) error {
	if _, seen := d.needs[name]; seen || d.files[name] == "" {
		return nil
	}
	info, err := d.modinfo(name)
	if err != nil {
		return err
	}
	d.needs[name] = []string{}
	for _, n := range strings.Split(strings.Join(info["depends"], ","), ",") {
		if n = strings.ReplaceAll(strings.TrimSpace(n), "-", "_"); n == "" {
			continue
		}
		d.needs[name] = append(d.needs[name], n)
		if err := d.visit(n); err != nil {
			return err
		}
	}
	for _, s := range info["softdep"] {
		d.index.asks[name] = append(d.index.asks[name], softWords(s)...)
	}
	for _, n := range d.index.asked(name) {
		if err := d.visit(n); err != nil {
			return err
		}
	}
	return nil
}

func (d *depmodder) write(files []string) indexes {
	var x indexes
	var dep, softdep, alias bytes.Buffer
	for _, f := range slices.Sorted(slices.Values(files)) {
		name, ok := ModuleName(f)
		if !ok {
			continue
		}
		needs, kept := d.needs[name]
		if !kept {
			x.unwanted = append(x.unwanted, f)
			continue
		}
		dep.WriteString(f + ":")
		// Reversed, because readers of modules.dep load from the end.
		for _, n := range slices.Backward(needs) {
			// A module that the package lacks stays in the list, so that resolving it reports that.
			dep.WriteString(" " + cmp.Or(d.files[n], n+".ko"))
		}
		dep.WriteString("\n")
		if asks := d.index.asks[name]; len(asks) > 0 {
			softdep.WriteString("softdep " + name + " pre: " + strings.Join(asks, " ") + "\n")
		}
	}
	for _, a := range slices.Sorted(maps.Keys(d.index.aliases)) {
		for _, name := range d.index.aliases[a] {
			if _, kept := d.needs[name]; kept && plainAlias(a) {
				alias.WriteString("alias " + a + " " + name + "\n")
			}
		}
	}
	x.dep, x.softdep, x.alias = dep.Bytes(), softdep.Bytes(), alias.Bytes()
	return x
}
