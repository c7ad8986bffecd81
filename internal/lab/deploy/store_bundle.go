//go:build bundle

package deploy

import (
	"embed"
	"io/fs"
)

//go:embed agents/*.gz
var embedded embed.FS

// bundled returns the agents that are built into this program.
func bundled() fs.FS {
	sub, err := fs.Sub(embedded, "agents")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
