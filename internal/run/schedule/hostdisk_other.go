//go:build !unix

package schedule

import "io/fs"

// allocated is the space that a file takes, holes included: they are not known here.
func allocated(info fs.FileInfo) int64 { return info.Size() }
