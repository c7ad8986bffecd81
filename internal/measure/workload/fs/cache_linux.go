package fs

import "os"

// dropAll makes the whole system forget clean pages, names and attributes. It needs root, and a /proc that is writable.
func dropAll() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0) }
