package workload

import "strings"

// The families of kinds. Summaries have a mean for each.
const (
	FamilyCPU      = "cpu"
	FamilyMemory   = "memory"
	FamilyKernel   = "kernel"
	FamilyFiles    = "file system"
	FamilyNetwork  = "network"
	FamilyWeb      = "web"
	FamilyDatabase = "database"
	FamilyLaunch   = "launch"
	FamilyCommand  = "command"
	FamilyTest     = "test" // of tare itself
)

// Traits say what work of a kind is, for all that treats some kinds in another way than others: it asks for the trait,
// and never for a kind's name, so that a new kind is treated as what it is. The zero value is work of which nothing
// special is known.
type Traits struct {
	// Command says that the work is a command line of the user's, in the parameter command: what it does is known from
	// there alone.
	Command bool
	// Build says that the work builds a project, or does with files what a build does.
	Build bool
	// Files says that the work is on files: its costs may tell in advance what a build costs.
	Files bool
	// ManyFiles says that the work makes many files and removes them.
	ManyFiles bool
	// Parallel says that the work may use several processors, although no parameter threads tells how many.
	Parallel bool
	// Server is the kind of server of the work.
	Server Server
	// Awaited is the nearness of a unit of work to something that people wait for.
	Awaited Awaited
	// Lanes is the parameter that says how many uses are on their way at the same time, where the deciding figure is a
	// rate of things that people wait for.
	Lanes string
	// PageSize is the parameter that says how large the page is that is fetched, whatever server there is.
	PageSize string
	// Link is the property of a network that the deciding figure tells.
	Link Link
	// Datagrams says that datagrams are sent. They do not pass by a port that is forwarded.
	Datagrams bool
	// Moves, if set, is how all of the work moves the records of a file.
	Moves *Moves
	// Columns are the figures beside the deciding one that are of one operation on a file each, and how it moves the
	// file's records.
	Columns map[string]Moves
}

// Moves is the way in which records of a file are moved.
type Moves struct {
	Read   bool // from the file, else to it
	Random bool // in a random order
	Device bool // as a device is asked for them: with direct I/O the figure is the device's own
}

// Server is the kind of server of some work, by its protocol. `tare sql` and `tare http` are about the logs of the two.
type Server string

// The servers.
const (
	NoServer       Server = ""
	DatabaseServer Server = "sql"
	WebServer      Server = "http"
)

// Awaited is the nearness of a unit of work to something that people wait for.
type Awaited int

// The distances, the nearest last.
const (
	NotAwaited  Awaited = iota // a measure of something that other work is made of
	AwaitedPage                // a page, fetched in one way or another
	AwaitedSite                // pages of a site as its visitors ask for them
	AwaitedRun                 // a run of what the user runs
)

// Link is the property of a network that a deciding figure tells.
type Link int

// The properties of a network.
const (
	NoLink     Link = iota // something else
	RoundTrips             // round trips per second, over all of the parameter connections
	StreamRate             // MiB/s of the parameter streams, in the parameter direction
)

// formerKinds are the families and traits of kinds that are no longer there, by the first part of their names. Bundles
// of older releases have them.
var formerKinds = map[string]Kind{
	"dev":    {Family: FamilyFiles, Is: Traits{Files: true}},
	"fs":     {Family: FamilyFiles, Is: Traits{Files: true}},
	"http":   {Family: FamilyWeb, Is: Traits{Server: WebServer, Parallel: true, Awaited: AwaitedPage}},
	"memory": {Family: FamilyMemory},
	"net":    {Family: FamilyNetwork},
	"sql":    {Family: FamilyDatabase, Is: Traits{Server: DatabaseServer, Parallel: true}},
	"web":    {Family: FamilyWeb},
}

// Former returns a kind that this tare does not have, with its family and its traits. It has no metrics, and no trial
// can be made of it.
func Former(name string) *Kind {
	first, _, dotted := strings.Cut(name, ".")
	k := Kind{}
	if dotted {
		k = formerKinds[first]
	}
	k.Name, k.Lasts = name, NothingLasts
	return &k
}
