package thread

import "os"

// Available tells how much memory can be taken: the smaller of what the kernel estimates (MemAvailable) and what every
// cgroup above this process still allows.
func Available() (Memory, error) { return availableIn(os.DirFS("/")) }
