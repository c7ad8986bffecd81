// Package fileops performs single file operations on one side of a folder that two systems share: open this, write
// that, tell me when you see it.
//
// The same code runs inside an environment, controlled over the wire, and in the controller on the host's folder, so
// that only the folder differs. It is opinionated about safety: everything happens below one private directory, out of
// which no name and no symbolic link leads; every request is bounded in size, number and time; an operation that never
// returns from the kernel costs one goroutine, and the side then refuses further work instead of hanging; and Close
// closes everything that is open and removes everything that was made. Package semantics interprets the answers.
package fileops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Side is one of the two systems that see a folder.
type Side interface {
	// Do carries out one operation. If the file system refuses it, Reply.Fault says so; the error means that the side
	// could not be asked or did not answer before ctx was done.
	Do(ctx context.Context, r Request) (Reply, error)
}

// Op names an operation.
type Op string

// The operations. Name, To and Handle are those of Request; names are relative to the side's directory.
const (
	// make a private directory below Root; an agent's first request. Reply.Dir is its path below Root
	Begin Op = "begin"
	// use the directory Name below Root, which the other side made or a copying program brought; End removes it
	Join Op = "join"
	End  Op = "end" // close everything and remove the directory

	Nop     Op = "nop"   // for the round trip
	Open    Op = "open"  // Name with Flags and Mode; Reply.Handle
	CloseOp Op = "close" // Handle, of a file, map or watch
	Write   Op = "write" // Data at Offset of Handle
	Read    Op = "read"  // Size bytes at Offset of Handle; Reply.Data, shorter at the end
	Put     Op = "put"   // create or truncate Name, write Data and close it, as saving a file does
	Get     Op = "get"   // open Name, read Size bytes and close it
	// Count times: write Size bytes at 0 of Handle, and fdatasync when Sync is set; Reply.NS, one each
	Flush    Op = "flush"
	Truncate Op = "truncate" // Handle to Size
	Seek     Op = "seek"     // Offset of the first hole (Hole set) or data of Handle at or after Offset; Reply.Offset
	Stat     Op = "stat"     // Name or Handle; Reply.Stat. Follow follows a link
	List     Op = "list"     // directory Name with the types the system call told; Reply.Entries
	Mkdir    Op = "mkdir"    // Name
	Rename   Op = "rename"   // Name to To, over what is there
	Remove   Op = "remove"   // Name
	Link     Op = "link"     // hard link To of Name
	Symlink  Op = "symlink"  // Name, a link that holds To
	Readlink Op = "readlink" // Name; Reply.Data
	Chmod    Op = "chmod"    // Name to Mode
	Access   Op = "access"   // whether Name, in the directory itself, may be executed
	Times    Op = "times"    // set Name's time of modification to TimeNS
	SetXattr Op = "setxattr" // attribute To of Handle to Data
	GetXattr Op = "getxattr" // attribute To of Handle; Reply.Data
	Lock     Op = "lock"     // Handle by Kind, exclusive, without waiting: EAGAIN when somebody else holds it
	Unlock   Op = "unlock"   // Handle by Kind
	Map      Op = "map"      // Size bytes of Handle, shared, for writing too when Sync is set; Reply.Handle
	Poke     Op = "poke"     // Data at Offset of the map Handle; msync when Sync is set
	Peek     Op = "peek"     // Size bytes at Offset of the map Handle; Reply.Data
	Watch    Op = "watch"    // the side's directory, with inotify; Reply.Handle
	Events   Op = "events"   // wait at most TimeoutNS until the watch Handle tells of Name; Reply.Seen, Reply.Names
	Wait     Op = "wait"     // look at Name until Until holds, at most TimeoutNS; Reply.Seen, Reply.WaitedNS
	Race     Op = "race"     // Threads threads do Kind again and again for TimeoutNS; Reply.Count in Reply.WaitedNS
	Claim    Op = "claim"    // make Name-0 to Name-(Count-1), each only if it is new; Reply.Count it was first with
	Fill     Op = "fill"     // write Count files of Data below Name; Reply.Count
	Verify   Op = "verify"   // Reply.Count of the files of Fill, from number Offset on, that hold Data
)

// Flag is a set of options for opening a file.
type Flag uint

// The flags, as of open(2). Without ForWriting a file is opened for reading.
const (
	ForWriting Flag = 1 << iota // and reading
	Create
	Exclusive
	Empty
	Append
	Direct   // past the page cache: O_DIRECT
	allFlags = 1<<iota - 1
)

// The kinds of Lock and Race.
const (
	Flock        = "flock"  // flock(2)
	Fcntl        = "fcntl"  // fcntl(2) on the open file: an OFD lock, POSIX where the system has none
	RaceStat     = "stat"   // stat of a file of the thread's own
	RaceCreate   = "create" // make and delete a file of the thread's own
	UntilThere   = "there"  // Name exists
	UntilGone    = "gone"   // Name does not exist
	UntilSize    = "size"   // Name has Size bytes
	UntilData    = "data"   // Name begins with Data when it is opened now
	UntilMapData = "map"    // the map Handle begins with Data
)

// Limits of a request. They bound what a confused or hostile controller costs a side.
const (
	MaxData    = 64 << 10 // bytes read, written or mapped at once
	MaxCount   = 20000    // files
	MaxThreads = 16
	MaxTime    = 60e9    // ns
	MaxOffset  = 1 << 40 // bytes; a hole may be large
	maxHandles = 64
	maxEntries = 1024
	maxName    = 1024 // bytes of a path
	maxDepth   = 8    // names in it
	maxRoot    = 4096
)

// Request asks for one operation. Fields that an operation does not use are ignored. Names are bytes, not text: some
// tests use names that are not UTF-8.
type Request struct {
	Op        Op     `json:"op"`
	Root      string `json:"root,omitempty"`
	Name      []byte `json:"name,omitempty"`
	To        []byte `json:"to,omitempty"`
	Handle    int    `json:"handle,omitempty"`
	Flags     Flag   `json:"flags,omitempty"`
	Mode      uint32 `json:"mode,omitempty"`
	Offset    int64  `json:"offset,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Data      []byte `json:"data,omitempty"`
	Count     int    `json:"count,omitempty"`
	Threads   int    `json:"threads,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Until     string `json:"until,omitempty"`
	Sync      bool   `json:"sync,omitempty"`
	Hole      bool   `json:"hole,omitempty"`
	Follow    bool   `json:"follow,omitempty"`
	TimeNS    int64  `json:"time_ns,omitempty"`    // Unix ns
	TimeoutNS int64  `json:"timeout_ns,omitempty"` // of the operations that wait
}

// Reply is the answer.
type Reply struct {
	Fault   *Fault   `json:"fault,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Handle  int      `json:"handle,omitempty"`
	Offset  int64    `json:"offset,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Stat    *Status  `json:"stat,omitempty"`
	Entries []Entry  `json:"entries,omitempty"`
	Names   []string `json:"names,omitempty"` // of Events, quoted if they are not text
	NS      []int64  `json:"ns,omitempty"`
	Seen    bool     `json:"seen,omitempty"`
	Polls   int      `json:"polls,omitempty"`
	// WaitedNS is the time of an operation that waits or races, by the monotonic clock of its side.
	WaitedNS int64 `json:"waited_ns,omitempty"`
	// GapNS is the time between the check that succeeded and the one before: the resolution of WaitedNS.
	GapNS int64 `json:"gap_ns,omitempty"`
	Count int   `json:"count,omitempty"`
	CPUs  int   `json:"cpus,omitempty"` // threads that the side can run at the same time; of Race
}

// Status is the result of stat.
type Status struct {
	Size    int64       `json:"size"`
	MtimeNS int64       `json:"mtime_ns"` // Unix ns
	Ino     uint64      `json:"ino"`
	Nlink   uint64      `json:"nlink"`
	Mode    fs.FileMode `json:"mode"`
	Blocks  int64       `json:"blocks"` // of 512 bytes; -1 if the system does not report it
}

// Entry is a name in a directory.
type Entry struct {
	Name []byte `json:"name"`
	Type string `json:"type"` // "file", "directory", "link", "other", or "unknown" if the file system did not report it
}

// Fault is an operation that a file system, or its system, refused.
type Fault struct {
	Code    string `json:"code"` // the error's name: "EEXIST"; "EUNSUPPORTED" if this build cannot do the operation
	Message string `json:"message"`
}

func (f *Fault) Error() string { return f.Message }

// Unsupported is the code of an operation that this platform's build does not have.
const Unsupported = "EUNSUPPORTED"

// ErrUnsupported is the error of such an operation.
var ErrUnsupported = errors.New("this build of tare cannot test it on this system")

// fault converts an error of a file operation.
func fault(op Op, err error) *Fault {
	code := errorName(err)
	switch {
	case code != "":
	case errors.Is(err, ErrUnsupported):
		code = Unsupported
	case errors.Is(err, fs.ErrNotExist):
		code = "ENOENT"
	case errors.Is(err, fs.ErrExist):
		code = "EEXIST"
	case errors.Is(err, os.ErrPermission):
		code = "EACCES"
	default:
		code = "EIO"
	}
	return &Fault{code, fmt.Sprintf("%s: %v", op, err)}
}
