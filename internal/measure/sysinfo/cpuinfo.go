package sysinfo

import (
	"strconv"
	"strings"
)

// cpuInfo is the content of /proc/cpuinfo.
type cpuInfo struct {
	model      string
	vendor     string
	cores      int     // physical; 0 unknown
	processors int     // logical
	mhz        float64 // mean of the logical processors' current clock; 0 unknown
	hypervisor bool    // the CPU reports a hypervisor
	features   string  // flags of the first processor
}

// parseCPUInfo reads /proc/cpuinfo of x86, arm64 and riscv64. It accepts any text.
func parseCPUInfo(text string) cpuInfo {
	var c cpuInfo
	var implementer, part, package_, core, isa string
	var sum float64
	var clocks int
	seen := map[string]bool{}
	flush := func() {
		if core != "" {
			seen[package_+"/"+core] = true
		}
		package_, core = "", ""
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			if _, err := strconv.Atoi(value); err == nil {
				flush()
				c.processors++
			}
		case "model name", "Model", "Processor", "uarch":
			if c.model == "" {
				c.model = value
			}
		case "vendor_id":
			c.vendor = value
		case "cpu MHz":
			if f, err := strconv.ParseFloat(value, 64); err == nil && f > 0 && f < 1e6 {
				sum += f
				clocks++
			}
		case "physical id":
			package_ = value
		case "core id":
			core = value
		case "flags", "Features":
			if c.features == "" {
				c.features = value
				c.hypervisor = strings.Contains(" "+value+" ", " hypervisor ")
			}
		case "isa":
			isa, _, _ = strings.Cut(value, "_")
		case "CPU implementer":
			implementer = value
		case "CPU part":
			part = value
		}
	}
	flush()
	c.cores = len(seen)
	if clocks > 0 {
		c.mhz = sum / float64(clocks)
	}
	if c.model == "" && implementer != "" {
		c.model = armModel(implementer, part)
	}
	if c.model == "" && isa != "" {
		c.model = "RISC-V " + isa
	}
	return c
}

// armModel names an arm64 core by its MIDR fields; the kernel does not (arch/arm64/include/asm/cputype.h).
func armModel(implementer, part string) string {
	names := map[string]string{
		"0x41/0xd03": "Cortex-A53", "0x41/0xd07": "Cortex-A57", "0x41/0xd08": "Cortex-A72", "0x41/0xd0b": "Cortex-A76",
		"0x41/0xd0c": "Neoverse-N1", "0x41/0xd40": "Neoverse-V1", "0x41/0xd49": "Neoverse-N2",
		"0x41/0xd4f": "Neoverse-V2",
		"0xc0/0xac3": "Ampere-1", "0xc0/0xac4": "Ampere-1a", "0x00/0x051": "QEMU max",
	}
	if n, ok := names[implementer+"/"+part]; ok {
		return n
	}
	if implementer == "0x61" {
		return "Apple Silicon part " + part
	}
	return "ARM implementer " + implementer + " part " + part
}
