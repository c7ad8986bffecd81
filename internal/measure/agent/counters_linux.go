package agent

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"tare/internal/measure/wire"
)

// counters are the counts of the kernel's files and of the processor around Measure. They go to the controller as they
// are, and package timeaccount knows their meaning, so that the agent stays small. In the place of one that cannot be
// read is the reason, behind a "!".
type counters struct {
	before, after map[string]string
	took          int64 // ns of reading
	buffer        [long]byte
	hardware
}

// mostThreads bounds the threads that are looked at: each takes some ten µs.
const mostThreads = 256

// begin reads what is cheapest last, so that the least of the reading itself is counted.
func (c *counters) begin() {
	from := wire.Now()
	c.before = map[string]string{}
	c.read(c.before, "stat", short)
	c.read(c.before, "diskstats", long)
	c.read(c.before, "pressure/io", short)
	c.read(c.before, "sys/kernel/task_delayacct", short)
	c.tasks(c.before)
	c.read(c.before, "self/io", short)
	c.open(c.before)
	c.took = wire.Now() - from
}

func (c *counters) end() {
	from := wire.Now()
	c.after = map[string]string{}
	c.close(c.after)
	c.read(c.after, "self/io", short)
	c.tasks(c.after)
	c.read(c.after, "pressure/io", short)
	c.read(c.after, "diskstats", long)
	c.read(c.after, "stat", short)
	c.after["took"] = strconv.FormatInt(c.took+wire.Now()-from, 10)
}

// Most files have what is needed at their beginning; that of the disks has a line of about 100 bytes for each.
const (
	short = 200
	long  = 4000
)

func put(to map[string]string, name string, text []byte, err error) {
	to[name] = string(text)
	if err != nil {
		to[name] = "!" + err.Error()
	}
}

// read keeps the beginning of a file, which has what is needed.
func (c *counters) read(to map[string]string, name string, most int) {
	text, err := c.beginning("/proc/"+name, most)
	put(to, name, text, err)
}

// beginning reads a file of the kernel at once: os.ReadFile takes twice as long, by asking for its size, waiting for it
// like for a socket, and reading until nothing more comes. What it returns is overwritten by the next call.
func (c *counters) beginning(path string, most int) ([]byte, error) {
	n, did := 0, "open"
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		did = "read"
		n, err = syscall.Read(fd, c.buffer[:most])
		_ = syscall.Close(fd)
	}
	if err != nil {
		return nil, &os.PathError{Op: did, Path: path, Err: err}
	}
	return c.buffer[:n], nil
}

// tasks adds a line for each thread: its id, its schedstat, and where delays are accounted for, the ticks that it has
// waited for a disk (field 42 of its stat).
func (c *counters) tasks(to map[string]string) {
	const dir = "/proc/self/task"
	list, err := os.ReadDir(dir)
	text := ""
	if err != nil || len(list) > mostThreads {
		text, list = "!there are too many threads to look at each", nil
	}
	for _, t := range list {
		sched, err := c.beginning(dir+"/"+t.Name()+"/schedstat", short)
		if err != nil {
			continue // it has just ended, or this kernel has none
		}
		text += t.Name() + " " + strings.TrimSpace(string(sched))
		if c.before["sys/kernel/task_delayacct"] != "0\n" {
			stat, _ := c.beginning(dir+"/"+t.Name()+"/stat", long)
			if f := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:]); len(f) > 39 {
				text += " " + f[39]
			}
		}
		text += "\n"
	}
	to["tasks"] = text
}
