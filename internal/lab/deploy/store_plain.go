//go:build !bundle

package deploy

import (
	"embed"
	"io/fs"
)

// bundled returns the agents that are built into this program: none without the build tag bundle.
func bundled() fs.FS { return embed.FS{} }
