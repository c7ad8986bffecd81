package matrix

import "golang.org/x/sys/unix"

// syncAll is sync(2). It flushes the whole machine, as iozone does before each row.
func syncAll() { unix.Sync() }
