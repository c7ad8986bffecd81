package sysinfo

import "golang.org/x/sys/windows"

// Free returns how many bytes an ordinary user may still write below dir; -1 when the system does not say.
func Free(dir string) int64 {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return -1
	}
	var free uint64
	if windows.GetDiskFreeSpaceEx(path, &free, nil, nil) != nil {
		return -1
	}
	return int64(free)
}
