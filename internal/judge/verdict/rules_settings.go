package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// setting is one row of the table of settings that can explain a ratio: where its value stands among the facts, and
// which families of workloads it bears on.
type setting struct {
	name     string
	families []string // empty: all
	value    func(*Target) string
	why      string // what it does to a cost, in a few words
}

// orFree is the value of a limit: where nobody set it and the target told its facts, what a side free of it has.
func orFree(value func(*Target) string, free string) func(*Target) string {
	return func(t *Target) string {
		v := value(t)
		if v == "" && t.Error == nil && t.Inside.Threads > 0 {
			return free
		}
		return v
	}
}

// The families of workloads, in the words of the table below.
const (
	onCPU      = workload.FamilyCPU
	onMemory   = workload.FamilyMemory
	onKernel   = workload.FamilyKernel
	onFiles    = workload.FamilyFiles
	onCommand  = workload.FamilyCommand
	onNetwork  = workload.FamilyNetwork
	onWeb      = workload.FamilyWeb
	onDatabase = workload.FamilyDatabase
)

// cpuLimit is the processors that a side's control group may use; none where it may use all.
func cpuLimit(t *Target) string {
	v := either(inside("cgroup.cpus"), outside("cgroup.cpus"))(t)
	if n, err := strconv.ParseFloat(v, 64); err == nil && n >= float64(t.Inside.Threads) && t.Inside.Threads > 0 {
		return ""
	}
	return v
}

// memoryLimit is that of a side's control group; none where it is more than there is.
func memoryLimit(t *Target) string {
	v := inside("cgroup.memory_bytes")(t)
	if n, err := strconv.ParseFloat(v, 64); err == nil && n >= float64(t.Inside.MemoryBytes) &&
		t.Inside.MemoryBytes > 0 {
		return ""
	}
	return v
}

// explaining lists the settings, limits first. A row says nothing unless both sides have a value: what is not known
// explains nothing. A limit is the exception (orFree): a side without one is free of it.
func explaining() []setting {
	io := []string{onFiles, onDatabase, onCommand}
	return []setting{
		{"CPU limit", nil, orFree(cpuLimit, "none"), "threads above the limit wait"},
		{"memory limit", io, orFree(memoryLimit, "none"), "it is the size of the page cache"},
		{"processors allowed", nil, orFree(asked("cpuset"), "all"), "threads above their number wait"},
		{"niceness", nil, orFree(asked("nice"), "0"), "a nicer process waits for others"},
		{"limit of bytes read", io, orFree(asked("read_bps"), "none"), "requests above the limit wait"},
		{"limit of bytes written", io, orFree(asked("write_bps"), "none"), "requests above the limit wait"},
		{"limit of reads", io, orFree(asked("read_iops"), "none"), "requests above the limit wait"},
		{"limit of writes", io, orFree(asked("write_iops"), "none"), "requests above the limit wait"},
		{"accelerator", nil, either(asked("accel"), outside("accel")), "an emulated CPU is many times slower"},
		{"VirtualBox's engine", nil, either(outside("virtualbox.engine"), asked("engine")),
			"an interpreted CPU is about 100 times slower"},
		// One row for each product: releases of two products are no two settings.
		{"VirtualBox's version", nil, outside("virtualbox.version"), "releases differ in how they execute a guest"},
		{"QEMU's version", nil, outside("qemu.version"), "releases differ in how they execute a guest"},
		{"nested paging", nil, either(outside("virtualbox.machine.nestedpaging"), asked("nested_paging")),
			"without it each change of the guest's page tables is an exit to the hypervisor"},
		{"large pages", []string{onMemory, onKernel, onDatabase, onCommand},
			either(outside("virtualbox.machine.largepages"), asked("large_pages")), "they save page-table walks"},
		{"CPU model", []string{onCPU, onMemory, onKernel, onCommand, onDatabase}, asked("cpu", "cpu-profile"),
			"it decides which instructions are available"},
		{"paravirtualisation", nil,
			either(outside("virtualbox.machine.effparavirtprovider"), asked("paravirt", "paravirtprovider")),
			"it decides how clocks, interrupts and waiting cost"},
		{"machine", nil, either(asked("machine", "chipset"), outside("virtualbox.machine.chipset")),
			"it decides the buses and the interrupt controller"},
		{"governor", nil, inside("cpu.governor"), "it decides how fast the clock rises"},
		{"boost", nil, inside("cpu.boost"), "it decides the highest clock"},
		{"turbo off", nil, inside("cpu.no_turbo"), "it decides the highest clock"},
		{"clock source", []string{onKernel, onDatabase, onWeb, onCommand},
			func(t *Target) string { return t.Inside.Clock },
			"reading the time may be a system call, or an exit to the hypervisor"},
		{"mitigations", []string{onKernel, onFiles, onNetwork, onWeb, onDatabase, onCommand}, mitigations,
			"they make each entry to the kernel slower"},
		{"transparent huge pages", []string{onMemory, onDatabase, onCommand}, inside("memory.thp"),
			"they save page-table walks"},
		{"memory size", []string{onFiles, onDatabase, onCommand}, memory, "it is the size of the page cache"},
		{"network card", []string{onNetwork, onWeb, onDatabase},
			either(asked("nic", "nictype", "nictype1"), outside("virtualbox.machine.nictype1")),
			"an emulated card costs an exit for each packet, virtio one for many"},
		{"network mode", []string{onNetwork, onWeb, onDatabase}, asked("net"),
			"a user-mode network is a TCP stack in the hypervisor, a tap or a bridge is the host's kernel"},
		{"vhost", []string{onNetwork, onWeb, onDatabase}, asked("vhost"),
			"with it the host's kernel moves the packets, without it the hypervisor"},
		{"TCP congestion control", []string{onNetwork, onWeb, onDatabase}, inside("network.congestion"),
			"it decides how fast a sender sends: BBR by what it has seen of the way, others until something is lost"},
		{"cache mode of the disk", []string{onFiles, onDatabase}, either(diskFact("disk.cache"), diskSetting("cache")),
			"it decides whether writes wait for the host's disk"},
		{"host's cache for the disk", []string{onFiles, onDatabase}, diskSetting("hostiocache"),
			"it decides whether writes wait for the host's disk, and whether the host answers reads from memory"},
		{"ignored flushes", []string{onFiles, onDatabase}, diskSetting("ignore_flush"),
			"a flush that is ignored costs nothing, and makes nothing durable"},
		{"I/O of the disk", []string{onFiles, onDatabase}, diskSetting("aio"),
			"threads cost more per request than the kernel's own queues"},
		{"I/O thread of the disk", []string{onFiles, onDatabase}, diskSetting("iothread"),
			"with one of its own the disk does not wait for what else the hypervisor does"},
		{"disk format", []string{onFiles, onDatabase}, either(diskFact("disk.format"), diskSetting("format")),
			"an image has its own block map to read and write"},
		{"bus of the disk", []string{onFiles, onDatabase}, diskSetting("bus"),
			"IDE and SATA are emulated, virtio is not"},
		{"controller of the disk", []string{onFiles, onDatabase}, diskSetting("controller"),
			"it decides how many exits a request costs, and what a flush does"},
		{"I/O scheduler", []string{onFiles, onDatabase}, inside("work.disk.scheduler"),
			"it orders and merges requests"},
		{"read-ahead", []string{onFiles, onDatabase}, inside("work.disk.read_ahead_kb"),
			"it decides how much is read ahead in sequential reading"},
		{"file system", []string{onFiles, onDatabase}, fileSystem, "each stores names and blocks in its own way"},
		{"msize", []string{onFiles}, option("msize"),
			"it is the largest message of 9p: small messages need more round trips"},
		{"rsize", []string{onFiles}, option("rsize"), "it is the largest read in one request"},
		{"wsize", []string{onFiles}, option("wsize"), "it is the largest write in one request"},
		{"cache of the mount", []string{onFiles}, either(option("cache"), mounted("cache")),
			"what the guest caches it does not request again"},
		{"attribute lifetime", []string{onFiles}, either(option("actimeo"), mounted("actimeo", "attr_timeout")),
			"attributes that are still valid are not requested"},
		{"noac", []string{onFiles}, mounted("noac"), "no attributes are cached, and writes are synchronous"},
		{"protocol", []string{onFiles}, option("proto"), "NFS over UDP repeats whole requests"},
		{"protocol version", []string{onFiles}, option("vers"),
			"versions differ in how many requests an operation takes"},
		{"synchronous mount", []string{onFiles}, either(option("sync"), mounted("sync", "sync_always")),
			"each write waits for the server's disk"},
		{"writeback", []string{onFiles}, mounted("writeback", "writeout"),
			"the guest collects writes before it sends them"},
		{"atime", []string{onFiles}, atime, "each read also writes the time of access"},
	}
}

func asked(names ...string) func(*Target) string {
	return func(t *Target) string { return first(t.Outside.Settings, names) }
}

func mounted(names ...string) func(*Target) string {
	return func(t *Target) string {
		if t.Mount == nil {
			return ""
		}
		return first(t.Mount.Settings, names)
	}
}

func outside(name string) func(*Target) string {
	return func(t *Target) string { return t.Outside.Extra[name] }
}

func inside(name string) func(*Target) string {
	return func(t *Target) string { return t.Inside.Extra[name] }
}

// onDisk tells whether a mount is a virtual disk.
func onDisk(m *record.Mount) bool { return drivers.Known().KindOf(m.Kind).Disk }

// diskFact reads what was found out about the disk that file workloads run on. A share's files are on a disk of the
// host.
func diskFact(name string) func(*Target) string {
	return func(t *Target) string {
		switch {
		case t.Mount == nil:
			return t.Outside.Extra[name]
		case onDisk(t.Mount):
			return t.Mount.Facts[name]
		}
		return ""
	}
}

// diskSetting reads a setting of the disk that file workloads run on: a mounted disk's own, else the environment's.
func diskSetting(name string) func(*Target) string {
	return func(t *Target) string {
		switch {
		case t.Mount == nil:
			return t.Outside.Settings[name]
		case onDisk(t.Mount):
			return t.Mount.Settings[name]
		}
		return ""
	}
}

func option(name string) func(*Target) string {
	return func(t *Target) string {
		if t.Mount == nil {
			return ""
		}
		return mountOption(t.Mount, name)
	}
}

// either takes the first value that is known.
func either(of ...func(*Target) string) func(*Target) string {
	return func(t *Target) string {
		for _, f := range of {
			if v := f(t); v != "" {
				return v
			}
		}
		return ""
	}
}

func first(m map[string]string, names []string) string {
	for _, n := range names {
		if v := m[n]; v != "" {
			return v
		}
	}
	return ""
}

// memory is the memory in steps of a quarter GiB: kernels keep different shares of it for themselves.
func memory(t *Target) string {
	const step = 256 << 20
	if t.Inside.MemoryBytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%.4g GiB", float64((t.Inside.MemoryBytes+step/2)/step)/4)
}

// fileSystem is that of an environment's own disk. That of a mount is what the mount is, and no setting.
func fileSystem(t *Target) string {
	if t.Mount != nil {
		return ""
	}
	name, _, _ := strings.Cut(t.Inside.WorkFS, " ")
	return name
}

func atime(t *Target) string {
	for _, o := range []string{"noatime", "relatime", "strictatime"} {
		if slices.ContainsFunc(strings.FieldsFunc(t.Inside.WorkFS,
			func(r rune) bool { return strings.ContainsRune(" (),", r) }), func(f string) bool { return f == o }) {
			return o
		}
	}
	return ""
}

// mitigations lists what the kernel does against faults of the processor, without the words that say how.
func mitigations(t *Target) string {
	const prefix = "cpu.mitigations."
	var on []string
	known := false
	for name, v := range t.Inside.Extra {
		fault, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		known = true
		if strings.HasPrefix(v, "Mitigation") {
			on = append(on, fault)
		}
	}
	switch {
	case !known:
		return ""
	case len(on) == 0:
		return "none"
	}
	slices.Sort(on)
	return strings.Join(on, ", ")
}
