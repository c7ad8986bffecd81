package sysinfo

import (
	"context"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                                               uint32
	total, available, totalPage, availablePage, totalVirtual, availableVirtual uint64
	extended                                                                   uint64
}

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// value reads a string or number from below HKEY_LOCAL_MACHINE.
func value(path, name string) (text string, number uint64) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return "", 0
	}
	defer k.Close()
	text, _, _ = k.GetStringValue(name)
	number, _, _ = k.GetIntegerValue(name)
	return text, number
}

func (c *collector) system(context.Context) {
	v := windows.RtlGetVersion()
	c.Kernel = fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
	c.Distro, _ = value(`SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "ProductName")
	const cpu = `HARDWARE\DESCRIPTION\System\CentralProcessor\0`
	c.CPU, _ = value(cpu, "ProcessorNameString")
	_, mhz := value(cpu, "~MHz")
	c.MHz = float64(mhz)
	m := memoryStatus{}
	m.length = uint32(unsafe.Sizeof(m))
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&m))); ok != 0 {
		c.MemoryBytes = int64(m.total)
	}
	const bios = `HARDWARE\DESCRIPTION\System\BIOS`
	vendor, _ := value(bios, "SystemManufacturer")
	product, _ := value(bios, "SystemProductName")
	c.extra("machine.vendor", vendor)
	c.extra("machine.product", product)
	if name, sure := vmByFirmware(vendor, product, ""); sure || c.vm == "" && name != "" {
		c.vm = name
	}
	c.Clock = "QueryPerformanceCounter"
}

func (c *collector) workDir(dir string) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(abs) + `\`)
	if err != nil {
		return
	}
	var name [64]uint16
	var flags uint32
	if windows.GetVolumeInformation(root, nil, 0, nil, nil, &flags, &name[0], uint32(len(name))) == nil {
		c.WorkFS = windows.UTF16ToString(name[:])
		c.extra("work.mount", windows.UTF16PtrToString(root))
		c.extra("work.fs_flags", fmt.Sprintf("%#x", flags))
	}
}
