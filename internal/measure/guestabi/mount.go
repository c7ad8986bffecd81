package guestabi

// Mount tells an agent how to mount a folder in its own system: by mount(2), or by a program.
type Mount struct {
	// Name is unique in the environment; a second order of the same name runs a program with Once again.
	Name string `json:"name"`
	// Dir is the mount point, absolute; it is made when it is missing.
	Dir string `json:"dir"`
	// Type, Source and Options are those of mount(2). Options that are flags of mount(2) ("ro", "noatime", "nodev") are
	// passed as flags. Type is empty if Command mounts the folder.
	Type    string `json:"type,omitempty"`
	Source  string `json:"source,omitempty"`
	Options string `json:"options,omitempty"`
	// Secret are more options, which are never shown: "password=...".
	Secret string `json:"secret,omitempty"`
	// Files are written before anything else: keys, configuration.
	Files []File `json:"files,omitempty"`
	// Command mounts a file system and stays in the foreground while it is mounted (a FUSE program), or, with Once,
	// fills Dir and ends (a synchroniser).
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Once    bool     `json:"once,omitempty"`
	// Network makes the agent bring up the first network card with the address of QEMU's user-mode network.
	Network bool `json:"network,omitempty"`
	// Link makes it bring up another card, which leads to one other machine.
	Link *Link `json:"link,omitempty"`
	// Serve makes it serve Dir over NFS with the kernel's own server, instead of mounting a folder there.
	Serve *Serve `json:"serve,omitempty"`
	// Refused explains a kernel that refuses Options with "invalid argument" or "protocol not supported"; empty if
	// there is nothing to explain.
	Refused string `json:"refused,omitempty"`
}

// Link is a network card that leads to one other machine and nowhere else.
type Link struct {
	Hardware string `json:"hardware"` // the card's address; begins with LinkHardware
	Address  string `json:"address"`  // IPv4, with a netmask of 24 bits
}

// Serve has the settings of a folder that is served over NFS.
type Serve struct {
	Client  string `json:"client"`  // IPv4 address of the only client
	Version string `json:"version"` // "3", "4.0", "4.1" or "4.2"
	Port    int    `json:"port"`    // TCP
	// MountPort is the TCP port of the mount protocol of version 3; 0 for the others.
	MountPort int  `json:"mount_port,omitempty"`
	Threads   int  `json:"threads"`
	Async     bool `json:"async,omitempty"` // writes are acknowledged before they are on the disk
	// Forget makes a system that already serves write back and drop its cached data of Dir, instead of serving.
	Forget bool `json:"forget,omitempty"`
}

// LinkHardware begins the hardware address of every card that leads to one other machine, so that it is not taken for
// that of the user-mode network. 52:54:00 is what QEMU's own cards begin with.
const LinkHardware = "52:54:00:74"

// File is a small file that an agent writes.
type File struct {
	Path string `json:"path"` // absolute
	Mode uint32 `json:"mode"` // permission bits
	Data []byte `json:"data"`
}

// The guest's end of QEMU's user-mode network (SLIRP), which is the same in every guest.
const (
	GuestAddress = "10.0.2.15" // with a netmask of 24 bits
	HostAddress  = "10.0.2.2"  // the host's loopback, as the guest reaches it
)

// Mounts is the default parent of mount points: Mounts/NAME.
const Mounts = "/mnt"
