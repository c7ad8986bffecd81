// Package contrib has what CI systems need to compare a pull request with its base: the script that they run, and for
// each a file to begin with.
//
// docs/pull-requests.md says how they are used. The action itself is action.yml at the top of the repository.
package contrib

import "embed"

// Files has pull.sh, the folders of the CI systems, and the dashboard for Grafana.
//
//go:embed pull.sh github gitlab jenkins grafana
var Files embed.FS
