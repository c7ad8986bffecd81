package sysinfo

import (
	"encoding/binary"
	"strings"
)

// cpuid executes the instruction of that name.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

func text(regs ...uint32) string {
	var b []byte
	for _, r := range regs {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	return string(b)
}

// cpuidSignature is the hypervisor's signature, or "" on bare metal (Intel SDM, CPUID.1:ECX[31] is for hypervisors).
func cpuidSignature() string {
	if _, _, c, _ := cpuid(1, 0); c&(1<<31) == 0 {
		return ""
	}
	_, b, c, d := cpuid(0x40000000, 0)
	return text(b, c, d)
}

// cpuidBrand is the name that the processor reports, or "".
func cpuidBrand() string {
	if most, _, _, _ := cpuid(0x80000000, 0); most < 0x80000004 {
		return ""
	}
	var s string
	for leaf := uint32(0x80000002); leaf <= 0x80000004; leaf++ {
		a, b, c, d := cpuid(leaf, 0)
		s += text(a, b, c, d)
	}
	return strings.TrimSpace(strings.TrimRight(s, "\x00"))
}
