package fs

import "os"

// dropAll drops the clean pages, names and attributes of the whole system. It needs root and a writable /proc.
func dropAll() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0) }
