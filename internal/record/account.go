package record

// Account says where the time of a trial's timed part went, by the counters of the environment. It is about the process
// that does the trial: its threads, and its child processes that ended meanwhile. What works for it elsewhere, such as
// a server or the host of a virtual machine, is not in it.
//
// A count that the system does not tell is not in Counts. Unmeasured has the reason then: it is never 0.
type Account struct {
	// Lanes is how many threads worked side by side: as many as the work was asked for, at least 1, and at least as
	// many as the known parts fill. The parts (AccountParts) together are Lanes times the length of the timed part.
	Lanes float64 `json:"lanes"`
	// Counts are by the names below.
	Counts map[string]int64 `json:"counts"`
	// Unmeasured has a reason for each count that is missing, in plain English.
	Unmeasured map[string]string `json:"unmeasured,omitempty"`
}

// The counts of an Account. Times are in ns, sums over the threads.
const (
	UserNS   = "user_ns"   // on a processor, in user code
	KernelNS = "kernel_ns" // on a processor, in the kernel
	ReadyNS  = "ready_ns"  // ready to run, and waiting for a processor
	DiskNS   = "disk_ns"   // waiting for a disk, by the kernel's delay accounting, in steps of 10 ms
	OtherNS  = "other_ns"  // the remainder: Lanes times the length of the timed part, less the parts that are known

	StolenNS    = "stolen_ns"     // what a hypervisor took from all processors of the environment
	IOStalledNS = "io_stalled_ns" // while some task of the whole system waited for a disk (PSI)

	SwitchesVoluntary   = "switches_voluntary"
	SwitchesInvoluntary = "switches_involuntary"
	FaultsMinor         = "faults_minor" // page faults that read nothing
	FaultsMajor         = "faults_major" // page faults that read from a disk

	ReadBytes          = "read_bytes"           // by system calls, from the page cache or elsewhere
	WrittenBytes       = "written_bytes"        // by system calls
	DeviceReadBytes    = "device_read_bytes"    // asked of a block device
	DeviceWrittenBytes = "device_written_bytes" // dirtied pages of files on a block device, and direct writes

	// What all whole disks of the environment's system did, whoever asked: requests that they completed.
	DiskReads         = "disk_reads"
	DisksReadBytes    = "disks_read_bytes"
	DiskWrites        = "disk_writes"
	DisksWrittenBytes = "disks_written_bytes"
	DiskFlushes       = "disk_flushes"

	// What the processor counted in the trial's own thread, and in the processes that it started.
	InstructionsUser   = "instructions_user"
	InstructionsKernel = "instructions_kernel"
	CyclesUser         = "cycles_user"
	CyclesKernel       = "cycles_kernel"

	// What it missed there: in its last cache, in predicting branches, and data in its table of pages (TLB). Where a
	// processor has too few counters for all, these take turns, and are estimated from their share of the time.
	CacheMissesUser    = "cache_misses_user"
	CacheMissesKernel  = "cache_misses_kernel"
	BranchMissesUser   = "branch_misses_user"
	BranchMissesKernel = "branch_misses_kernel"
	TLBMissesUser      = "tlb_misses_user"
	TLBMissesKernel    = "tlb_misses_kernel"

	AccountNS = "account_ns" // how long it took to read all this, before and after the timed part
)

// AccountParts are the counts that together are the time of the timed part, in the order in which they are told.
func AccountParts() []string { return []string{UserNS, KernelNS, ReadyNS, DiskNS, OtherNS} }

// ProcessorCounts are what a processor counts all the time, or not at all.
func ProcessorCounts() []string {
	return []string{InstructionsUser, InstructionsKernel, CyclesUser, CyclesKernel}
}

// MissCounts are the misses of a processor, which may be counted by turns.
func MissCounts() []string {
	return []string{CacheMissesUser, CacheMissesKernel, BranchMissesUser, BranchMissesKernel, TLBMissesUser,
		TLBMissesKernel}
}
