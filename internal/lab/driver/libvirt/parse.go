package libvirt

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tare/internal/sys/proc"
)

// Bounds of a domain: its XML in bytes, and the number of told devices of each kind.
const (
	maxXML     = 1 << 20
	maxDevices = 32
	maxValue   = 200
)

// domainInfo has the parts of a domain's XML that matter to a measurement. Secrets, paths and addresses are not read,
// but for where serial ports end, which is no fact.
type domainInfo struct {
	Type   string `xml:"type,attr"`
	Name   string `xml:"name"`
	UUID   string `xml:"uuid"`
	Memory struct {
		Unit string `xml:"unit,attr"`
		Text string `xml:",chardata"`
	} `xml:"currentMemory"`
	VCPU struct {
		Placement string `xml:"placement,attr"`
		CPUSet    string `xml:"cpuset,attr"`
		Current   string `xml:"current,attr"`
		Text      string `xml:",chardata"`
	} `xml:"vcpu"`
	IOThreads string `xml:"iothreads"`
	CPUTune   struct {
		Pins []struct {
			VCPU   string `xml:"vcpu,attr"`
			CPUSet string `xml:"cpuset,attr"`
		} `xml:"vcpupin"`
		Quota string `xml:"quota"`
	} `xml:"cputune"`
	Backing struct {
		HugePages *struct{} `xml:"hugepages"`
		Locked    *struct{} `xml:"locked"`
		Source    struct {
			Type string `xml:"type,attr"`
		} `xml:"source"`
	} `xml:"memoryBacking"`
	OS struct {
		Firmware string `xml:"firmware,attr"`
		Type     struct {
			Arch    string `xml:"arch,attr"`
			Machine string `xml:"machine,attr"`
		} `xml:"type"`
		Loader struct {
			Type string `xml:"type,attr"`
		} `xml:"loader"`
	} `xml:"os"`
	Features struct {
		HyperV *struct{} `xml:"hyperv"`
	} `xml:"features"`
	CPU struct {
		Mode     string `xml:"mode,attr"`
		Model    string `xml:"model"`
		Topology *struct {
			Sockets string `xml:"sockets,attr"`
			Cores   string `xml:"cores,attr"`
			Threads string `xml:"threads,attr"`
		} `xml:"topology"`
	} `xml:"cpu"`
	Clock struct {
		Offset string `xml:"offset,attr"`
	} `xml:"clock"`
	Devices struct {
		Disks []struct {
			Type   string `xml:"type,attr"`
			Device string `xml:"device,attr"`
			Driver struct {
				Type    string `xml:"type,attr"`
				Cache   string `xml:"cache,attr"`
				IO      string `xml:"io,attr"`
				Discard string `xml:"discard,attr"`
				Queues  string `xml:"queues,attr"`
			} `xml:"driver"`
			Target struct {
				Dev string `xml:"dev,attr"`
				Bus string `xml:"bus,attr"`
			} `xml:"target"`
			ReadOnly *struct{} `xml:"readonly"`
		} `xml:"disk"`
		Folders []struct {
			Mode   string `xml:"accessmode,attr"`
			Driver struct {
				Type string `xml:"type,attr"`
			} `xml:"driver"`
			Binary struct {
				Cache struct {
					Mode string `xml:"mode,attr"`
				} `xml:"cache"`
			} `xml:"binary"`
			Target struct {
				Dir string `xml:"dir,attr"`
			} `xml:"target"`
		} `xml:"filesystem"`
		Cards []struct {
			Type  string `xml:"type,attr"`
			Model struct {
				Type string `xml:"type,attr"`
			} `xml:"model"`
			Driver struct {
				Name   string `xml:"name,attr"`
				Queues string `xml:"queues,attr"`
			} `xml:"driver"`
		} `xml:"interface"`
		Serials []struct {
			Type   string `xml:"type,attr"`
			Source struct {
				Mode    string `xml:"mode,attr"`
				Path    string `xml:"path,attr"`
				Host    string `xml:"host,attr"`
				Service string `xml:"service,attr"`
			} `xml:"source"`
			Target struct {
				Port string `xml:"port,attr"`
			} `xml:"target"`
		} `xml:"serial"`
		Controllers []struct {
			Type  string `xml:"type,attr"`
			Model string `xml:"model,attr"`
		} `xml:"controller"`
		Balloon struct {
			Model string `xml:"model,attr"`
		} `xml:"memballoon"`
	} `xml:"devices"`
}

// parseDomain reads the output of virsh dumpxml.
func parseDomain(text string) (domainInfo, error) {
	var d domainInfo
	if len(text) > maxXML {
		return d, fmt.Errorf("read the domain's XML: it has more than %d bytes", maxXML)
	}
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("read the domain's XML: %w", err)
	}
	if d.Type == "" || d.Name == "" {
		return d, errors.New("read the domain's XML: it is not of a domain")
	}
	return d, nil
}

// memoryBytes is the memory that the domain has now; 0 if its unit is not known.
func (d *domainInfo) memoryBytes() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(d.Memory.Text), 10, 64)
	shift, ok := map[string]uint{"": 10, "KiB": 10, "k": 10, "b": 0, "bytes": 0, "MiB": 20, "M": 20, "GiB": 30,
		"G": 30}[d.Memory.Unit]
	if err != nil || !ok || n < 0 || n > 1<<50>>shift {
		return 0
	}
	return n << shift
}

// cpus are the virtual CPUs that the domain has now; 0 if that is not known.
func (d *domainInfo) cpus() int {
	n, err := strconv.Atoi(strings.TrimSpace(cmp.Or(d.VCPU.Current, d.VCPU.Text)))
	if err != nil || n < 0 || n > 1<<16 {
		return 0
	}
	return n
}

// facts are the domain's properties by name.
func (d *domainInfo) facts() map[string]string {
	f := map[string]string{}
	set := func(name string, words ...string) {
		if v := proc.Line(strings.Join(words, " ")); v != "" {
			f["domain."+name] = v[:min(len(v), maxValue)]
		}
	}
	named := func(name, value string) string {
		if value == "" {
			return ""
		}
		return name + "=" + value
	}
	set("type", d.Type)
	set("arch", d.OS.Type.Arch)
	set("machine", d.OS.Type.Machine)
	set("firmware", cmp.Or(d.OS.Firmware, map[string]string{"pflash": "efi"}[d.OS.Loader.Type]))
	set("cpu", d.CPU.Mode, d.CPU.Model)
	set("cpus", strconv.Itoa(d.cpus()))
	set("cpus.set", d.VCPU.CPUSet)
	set("cpus.quota", d.CPUTune.Quota)
	for _, p := range d.CPUTune.Pins[:min(len(d.CPUTune.Pins), maxDevices)] {
		if n, err := strconv.Atoi(p.VCPU); err == nil {
			set("cpus.pin."+strconv.Itoa(n), p.CPUSet)
		}
	}
	if t := d.CPU.Topology; t != nil {
		set("cpus.topology", named("sockets", t.Sockets), named("cores", t.Cores), named("threads", t.Threads))
	}
	if n := d.memoryBytes(); n > 0 {
		set("memory", strconv.FormatInt(n, 10))
	}
	backing := []string{d.Backing.Source.Type}
	if d.Backing.HugePages != nil {
		backing = append(backing, "hugepages")
	}
	if d.Backing.Locked != nil {
		backing = append(backing, "locked")
	}
	set("memory.backing", backing...)
	set("balloon", d.Devices.Balloon.Model)
	set("iothreads", d.IOThreads)
	set("clock", d.Clock.Offset)
	if d.Features.HyperV != nil {
		set("hyperv", "on")
	}
	for i, c := range d.Devices.Controllers {
		if c.Type == "scsi" && i < maxDevices {
			set("scsi", c.Model)
		}
	}
	for i, x := range d.Devices.Disks[:min(len(d.Devices.Disks), maxDevices)] {
		words := []string{x.Device, x.Target.Dev, named("bus", x.Target.Bus), named("format", x.Driver.Type),
			named("source", x.Type), named("cache", x.Driver.Cache), named("io", x.Driver.IO),
			named("discard", x.Driver.Discard), named("queues", x.Driver.Queues)}
		if x.ReadOnly != nil {
			words = append(words, "readonly")
		}
		set("disk."+strconv.Itoa(i), words...)
	}
	for i, x := range d.Devices.Folders[:min(len(d.Devices.Folders), maxDevices)] {
		set("folder."+strconv.Itoa(i), cmp.Or(x.Driver.Type, "9p"), named("tag", x.Target.Dir),
			named("accessmode", x.Mode), named("cache", x.Binary.Cache.Mode))
	}
	for i, x := range d.Devices.Serials[:min(len(d.Devices.Serials), maxDevices)] {
		set("serial."+strconv.Itoa(i), x.Type, named("mode", x.Source.Mode))
	}
	for i, x := range d.Devices.Cards[:min(len(d.Devices.Cards), maxDevices)] {
		set("nic."+strconv.Itoa(i), x.Model.Type, named("network", x.Type), named("driver", x.Driver.Name),
			named("queues", x.Driver.Queues))
	}
	return f
}

// parseAddresses reads the output of virsh domifaddr: the addresses by which the domain may be reached, those of IPv4
// first.
func parseAddresses(out string) []netip.Addr {
	var four, six []netip.Addr
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		p, err := netip.ParsePrefix(words[len(words)-1])
		if err != nil {
			continue
		}
		switch a := p.Addr(); {
		case a.IsLoopback(), a.IsLinkLocalUnicast(), a.IsUnspecified(), a.IsMulticast():
		case a.Is4():
			four = append(four, a)
		default:
			six = append(six, a.WithZone(""))
		}
	}
	return append(four, six...)
}

// nameRE matches the names of domains that tare passes to virsh: nothing that its shell or options could misread.
var nameRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN_.][\pL\pN_.:+ @-]{0,199}$`)
})
