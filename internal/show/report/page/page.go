// Package page holds the report page that web/ builds: one HTML file without any reference to another. A build made
// without Node.js has none.
package page

import "embed"

// dist has the page when scripts/web.sh has built it, else only the file that keeps the folder.
//
//go:embed all:dist
var dist embed.FS

// HTML returns the page with empty data blocks, and false when this build has none.
func HTML() ([]byte, bool) {
	b, err := dist.ReadFile("dist/page.html")
	return b, err == nil
}
