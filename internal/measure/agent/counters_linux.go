package agent

import (
	"os"
	"strconv"
	"strings"

	"tare/internal/measure/wire"
)

// counters are what the kernel's files and the processor count around Measure. They go to the controller as they are,
// and package timeaccount knows what they mean, so that the agent stays small. What cannot be read is there as its
// reason behind a "!".
type counters struct {
	before, after map[string]string
	took          int64 // ns of reading
	hardware
}

// mostThreads bounds the threads that are looked at: each takes some ten µs.
const mostThreads = 256

// begin reads what is cheapest last, so that the least of the reading itself is counted.
func (c *counters) begin() {
	from := wire.Now()
	c.before = map[string]string{}
	read(c.before, "stat", short)
	read(c.before, "diskstats", long)
	read(c.before, "pressure/io", short)
	read(c.before, "sys/kernel/task_delayacct", short)
	c.tasks(c.before)
	read(c.before, "self/io", short)
	c.open(c.before)
	c.took = wire.Now() - from
}

func (c *counters) end() {
	from := wire.Now()
	c.after = map[string]string{}
	c.close(c.after)
	read(c.after, "self/io", short)
	c.tasks(c.after)
	read(c.after, "pressure/io", short)
	read(c.after, "diskstats", long)
	read(c.after, "stat", short)
	c.after["took"] = strconv.FormatInt(c.took+wire.Now()-from, 10)
}

// Most files have what is needed at their beginning; that of the disks has a line of about 100 bytes for each.
const (
	short = 200
	long  = 4000
)

func put(to map[string]string, name string, text []byte, most int, err error) {
	to[name] = string(text[:min(len(text), most)])
	if err != nil {
		to[name] = "!" + err.Error()
	}
}

// read keeps the beginning of a file, which has what is needed.
func read(to map[string]string, name string, most int) {
	text, err := os.ReadFile("/proc/" + name)
	put(to, name, text, most, err)
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
		sched, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // it has just ended, or this kernel has none
		}
		text += t.Name() + " " + strings.TrimSpace(string(sched))
		if c.before["sys/kernel/task_delayacct"] != "0\n" {
			stat, _ := os.ReadFile(dir + "/" + t.Name() + "/stat")
			if f := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:]); len(f) > 39 {
				text += " " + f[39]
			}
		}
		text += "\n"
	}
	to["tasks"] = text
}
