//go:build !unix

package developer

import "os"

// inode is 0: this platform's status has no number of the file.
func inode(os.FileInfo) uint64 { return 0 }
