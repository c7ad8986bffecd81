package thread

import "os"

// Available returns the memory that can be allocated: the smallest of the kernel's estimate (MemAvailable) and the rest
// of every cgroup above this process.
func Available() (Memory, error) { return availableIn(os.DirFS("/")) }
