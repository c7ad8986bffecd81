// Package version says which build of tare this is.
//
// The controller and its agents must come from one source tree: a ratio between two different measuring loops means
// nothing. The build id is the proof. `make build` sets it to a digest of the sources, the same for every platform; a
// plain `go build` leaves it "dev", and then the only agent there is is the controller's own executable.
package version

// Version is the released version, in semantic versioning: `make` sets it to that of the commit's tag through -ldflags.
// Without a tag it is that of the last release; `go run ./scripts/release cut` writes it here.
var Version = "0.2.0"

// Build is the digest of the sources this binary was built from; set by `make build` through -ldflags.
var Build = "dev"
