// Package nsinit is the first process of the built-in container: the agent's own executable, started in fresh
// namespaces by the namespace driver, which gives itself a root, starts the agent proper and ends with it.
//
// It isolates for measurement, not for security: what runs inside sees its own files, processes, network and host name,
// but nothing here defends the host against a hostile workload.
package nsinit

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Role is the first argument of the agent's executable for this role: AGENT nsinit CONFIG.
const Role = "nsinit"

// WorkDir is the agent's work directory inside, on the overlay.
const WorkDir = "/tare-work"

// Layouts of the root, which a check prints on standard output.
const (
	Overlaid = "overlay"        // all of Root is the lower layer: everything can be written, in the upper one
	Bound    = "overlay, bound" // an overlay over an empty tree, with Root's directories bound into it read-only
)

// Exit codes of this process. Any other is the agent's own.
const (
	ExitSetup = 70 // the container could not be set up; standard error says which step
	ExitUsage = 64
)

// Config is the driver's configuration. It is passed as JSON in the argument after the role.
type Config struct {
	// Dir is an empty directory outside for the overlay's layers. It must be on a file system that can be an upper
	// layer.
	Dir Path `json:"dir"`
	// Root is the directory that becomes the lower, unchanged layer.
	Root Path `json:"root"`
	// Hostname is the name inside.
	Hostname string `json:"hostname"`
	// OwnNet says that the network namespace is new: its loopback is brought up.
	OwnNet bool `json:"own_net"`
	// OwnUser says that the user namespace is new, where devices cannot be made and overlayfs keeps its marks in the
	// user's extended attributes.
	OwnUser bool `json:"own_user"`
	// Mounts are put into the new root, in this order.
	Mounts []Mount `json:"mounts,omitempty"`
	// CPUs are the processors the agent may use; empty means all.
	CPUs []int `json:"cpus,omitempty"`
	// Check ends after the set-up, with exit code 0 and the layout on standard output, instead of starting the agent.
	Check bool `json:"check,omitempty"`
}

// Path is a path outside. It is bytes to the kernel and may not be UTF-8, which JSON strings must be. A path in UTF-8
// is passed unchanged, so that ps shows whose process this is.
type Path string

// rawPath encodes any other path.
type rawPath struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(rawPath{[]byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var raw rawPath
		err := json.Unmarshal(data, &raw)
		*p = Path(raw.Bytes)
		return err
	}
	var s string
	err := json.Unmarshal(data, &s)
	*p = Path(s)
	return err
}

// Mount is a folder of the container beside its root.
type Mount struct {
	Target string `json:"target"` // inside, absolute
	// Source is the directory outside that is bound; empty for memory.
	Source Path `json:"source,omitempty"`
	// Options are those of a tmpfs: "size=512m".
	Options string `json:"options,omitempty"`
}

// Args returns the arguments after the executable's name.
func (c *Config) Args() ([]string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode container set-up: %w", err)
	}
	return []string{Role, string(b)}, nil
}
