// Package nfsd makes Linux serve a folder over NFS with the kernel's own server: in the agent's micro-VM, which has no
// other server (Start), or in separate namespaces beside the machine's own server (OpenNetNS).
//
// It is opinionated about having no dependencies. There is no rpc.nfsd, exportfs, rpc.mountd, rpcbind or nfsdcld. This
// package fills the server's control files and the kernel's caches of clients and exports once, with entries that do
// not expire, so that the kernel never has to ask. The other services are small enough to be here: the port mapper with
// which the kernel's lock manager registers, the mount protocol by which a client of version 3 gets the folder's
// handle, and the memory of clients of version 4.
package nfsd

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// ErrUnsupported says that only Linux has this server.
var ErrUnsupported = errors.New("the kernel serves NFS on Linux only")

// ErrNoServer says that this Linux was built without the server, or that its module is missing.
var ErrNoServer = errors.New("this kernel has no NFS server: it was built without CONFIG_NFSD, or the module nfsd " +
	"is not installed")

// Export is one folder for one client.
type Export struct {
	// Folder is an absolute path. It is the root of the name space that the client sees: it mounts "SERVER:/".
	Folder string `json:"folder"`
	// Client is the IPv4 address of the only client.
	Client string `json:"client"`
	// Version is the only version of the protocol that is served: "3", "4.0", "4.1" or "4.2".
	Version string `json:"version"`
	Port    int    `json:"port"` // TCP
	// MountPort is where clients of version 3 ask for the folder, over TCP; it is 0 for other versions.
	MountPort int `json:"mount_port,omitempty"`
	Threads   int `json:"threads"` // of the server, 1 to 1024
	// Async has the server acknowledge writes before they are on its disk, which loses them when it crashes. It is the
	// export option of that name.
	Async bool `json:"async,omitempty"`
}

// versions are those that the control file knows, the newest last.
var versions = []string{version3, "4.0", "4.1", "4.2"}

const version3 = "3"

// maxPath is the most bytes of a path: a line of a cache holds it with each byte written as four.
const maxPath = 500

// Check returns the fault of an export; nil if there is none.
func (e *Export) Check() error {
	a, err := netip.ParseAddr(e.Client)
	switch {
	case !path.IsAbs(e.Folder) || path.Clean(e.Folder) != e.Folder || e.Folder == "/" || len(e.Folder) > maxPath ||
		strings.Contains(e.Folder, "\x00"):
		return fmt.Errorf("folder %q is not an absolute path below / of at most %d bytes", e.Folder, maxPath)
	case err != nil || !a.Is4():
		return fmt.Errorf("client %q is not an IPv4 address", e.Client)
	case !slices.Contains(versions, e.Version):
		return fmt.Errorf("version %q is not one of %s", e.Version, strings.Join(versions, ", "))
	case e.Port < 1 || e.Port > 65535:
		return fmt.Errorf("%d is not a port", e.Port)
	case e.Version == version3 && (e.MountPort < 1 || e.MountPort > 65535 || e.MountPort == e.Port):
		return fmt.Errorf("%d cannot be the port of the mount protocol beside port %d", e.MountPort, e.Port)
	case e.Version != version3 && e.MountPort != 0:
		return fmt.Errorf("version %s has no mount protocol, so its port must not be set, but it is %d",
			e.Version, e.MountPort)
	case e.Threads < 1 || e.Threads > 1024:
		return fmt.Errorf("the number of threads must be from 1 to 1024, not %d", e.Threads)
	}
	return nil
}

// versionLine is the line to write to the file versions, whose content is known: each version with a plus or a minus
// before it. The minor versions come after the major one, which turns all of them on or off. Of the other major
// versions, only those that the kernel knows may be named.
func (e *Export) versionLine(known string) string {
	var words []string
	for w := range strings.FieldsSeq(known) {
		if v := w[1:]; v != "4" && v != e.Version && !strings.Contains(v, ".") {
			words = append(words, "-"+v)
		}
	}
	if e.Version == version3 {
		return strings.Join(append(words, "+3", "-4"), " ")
	}
	words = append(words, "+4")
	for _, v := range versions[1:] {
		sign := "-"
		if v == e.Version {
			sign = "+"
		}
		words = append(words, sign+v)
	}
	return strings.Join(words, " ")
}

// spoken reads the enabled versions from the content of the file versions. Version 4.0 is never listed as on: "+4"
// means it, unless "-4.0" is there.
func spoken(content string) []string {
	var on []string
	for w := range strings.FieldsSeq(content) {
		switch {
		case w == "+4.0":
		case w == "+4" && !strings.Contains(" "+content+" ", " -4.0 "):
			on = append(on, "4.0")
		case w[0] == '+' && w != "+4":
			on = append(on, w[1:])
		}
	}
	return on
}

// Flags of an export, from the kernel's include/uapi/linux/nfsd/export.h.
const (
	flagInsecure   = 0x0002 // clients may use any port
	flagAsync      = 0x0010
	flagNoSubtree  = 0x0400 // handles are not checked against the exported folder, which costs on each call
	flagFSID       = 0x2000 // handles contain our number, not the device's
	fsidRoot       = `\x00000000`
	fsidTypeNumber = 1 // FSID_NUM of the kernel's fs/nfsd/nfsfh.h
)

// never is the expiry of cache entries, in seconds of the wall clock: the largest number that the kernel reads.
const never = 1<<31 - 1

// domain is the kernel's name for the one client.
const domain = "tare"

// cacheExport is the kernel's cache of exports by client.
const cacheExport = "nfsd.export"

// entry is a line for one of the kernel's caches.
type entry struct{ cache, line string }

// entries are the answers of rpc.mountd: the client, the root of the name space, and the options of its export. The
// anonymous user does not matter, because root is not squashed.
func (e *Export) entries() []entry {
	flags := flagInsecure | flagNoSubtree | flagFSID
	if e.Async {
		flags |= flagAsync
	}
	const nobody = 65534
	return []entry{
		{"auth.unix.ip", fmt.Sprintf("nfsd %s %d %s\n", e.Client, never, domain)},
		{cacheExport, fmt.Sprintf("%s %s %d %d %d %d 0\n", domain, quote(e.Folder), never, flags, nobody, nobody)},
		{"nfsd.fh", fmt.Sprintf("%s %d %s %d %s\n", domain, fsidTypeNumber, fsidRoot, never, quote(e.Folder))},
	}
}

// quote writes a word for the kernel's caches: characters that end a word, and the backslash, in octal (qword_get of
// the kernel's net/sunrpc/cache.c).
func quote(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c == '\\' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// maxHandle is the longest file handle of version 3, bytes (NFS3_FHSIZE, RFC 1813, section 2.4).
const maxHandle = 64

// handleLine asks the control file filehandle for the root's handle.
func handleLine(folder string) string {
	return fmt.Sprintf("%s %s %d\n", domain, quote(folder), maxHandle)
}

// parseHandle reads a file handle as the kernel writes it: \x, and two digits for each byte.
func parseHandle(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), `\x`)
	handle, err := hex.DecodeString(digits)
	if !ok || err != nil || len(handle) == 0 || len(handle) > maxHandle {
		return nil, fmt.Errorf("%.200q is not a file handle of 1 to %d bytes", text, maxHandle)
	}
	return handle, nil
}

// oldestKernel is the first kernel whose server ends with the mount of its control files (commit c6c7f2a84da4). With an
// older kernel, the server would outlive a killed tare.
var oldestKernel = [2]int{5, 13}

// endsByItself returns an error if a server of that kernel release would not end with its namespaces.
func endsByItself(release string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 || major < oldestKernel[0] ||
		major == oldestKernel[0] && minor < oldestKernel[1] {
		return fmt.Errorf("the kernel %s is older than Linux %d.%d, and its server would keep running after tare is "+
			"killed",
			release, oldestKernel[0], oldestKernel[1])
	}
	return nil
}

// ready checks a kernel by its release, by the lines of /proc/filesystems, and by the error of the tap device.
func ready(release string, systems []byte, tap error) error {
	if err := endsByItself(release); err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(systems)), "nfsd") {
		return errors.New("this machine's kernel has no NFS server, or its module nfsd is not loaded")
	}
	if tap != nil {
		return fmt.Errorf("this machine's kernel has no tap devices, or its module tun is not loaded: %w", tap)
	}
	return nil
}
