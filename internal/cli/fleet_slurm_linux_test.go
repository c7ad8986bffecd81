package cli_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/judge/fleet"
	"tare/internal/sys/proc"
)

// slurm is a real cluster of four nodes on this machine: munge, slurmctld, and a slurmd for each node.
type slurm struct {
	lab   *lab
	dir   string
	nodes map[string]*proc.Stream
	slurmOptions
	controller *proc.Stream
}

type slurmOptions struct {
	hide       string // a folder that the nodes do not see
	accounting bool   // jobs are written down in a database
}

// slurmConf has the controller's port, the folder and the host's name filled in. The plug-ins are those that need no
// cgroups of their own.
const slurmConf = `ClusterName=tare
SlurmctldHost=%[3]s(127.0.0.1)
SlurmctldPort=%[1]d
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.socket
SlurmUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=10
JobRequeue=1
SlurmdParameters=config_overrides
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool.%%n
SlurmdPidFile=%[2]s/%%n.pid
SlurmctldPidFile=%[2]s/ctl.pid
`

// slurm starts the cluster.
func (l *lab) slurm(o slurmOptions) *slurm {
	l.Helper()
	needRoot(l)
	need(l, "munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
	s := &slurm{lab: l, dir: filepath.Join(l.dir, "slurm"), nodes: map[string]*proc.Stream{}, slurmOptions: o}
	for _, d := range []string{"", "state"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o700); err != nil {
			l.Fatal(err)
		}
	}
	key := make([]byte, 1024)
	rand.Read(key)
	if err := os.WriteFile(s.file("munge.key"), key, 0o400); err != nil {
		l.Fatal(err)
	}
	// --force: the folder is below one that all may write to.
	s.run("munged", "--foreground", "--force", "--key-file="+s.file("munge.key"), "--socket="+s.file("munge.socket"),
		"--pid-file="+s.file("munge.pid"), "--log-file="+s.file("munge.log"), "--seed-file="+s.file("munge.seed"))
	s.lab.await("munge's socket", func() bool { _, err := os.Stat(s.file("munge.socket")); return err == nil })
	host, err := os.Hostname()
	if err != nil {
		l.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	conf := fmt.Sprintf(slurmConf, freePort(l), s.dir, host)
	names := []string{"n1", "n2", "n3", "n4"}
	for _, n := range names {
		conf += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1 RealMemory=500 "+
			"Feature=here\n", n, host, freePort(l))
	}
	conf += "PartitionName=main Nodes=n[1-4] Default=YES State=UP OverSubscribe=EXCLUSIVE\n"
	database := 0
	if s.accounting {
		database = freePort(l)
		conf += fmt.Sprintf("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"+
			"AccountingStoragePort=%d\nAccountingStoragePass=%s/munge.socket\n", database, s.dir)
	}
	l.file("slurm/slurm.conf", conf)
	l.env = append(l.env, "SLURM_CONF="+s.file("slurm.conf"))
	if s.accounting {
		s.database(database)
	}
	s.control()
	for _, n := range names {
		s.boot(n)
	}
	s.lab.await("four idle nodes", func() bool {
		return strings.Count(s.say("sinfo", "--noheader", "--Node", "--format=%T"), "idle") == len(names)
	})
	s.endJobs()
	return s
}

// endJobs has all jobs end before the controller that works now does.
func (s *slurm) endJobs() {
	c := s.controller
	s.lab.Cleanup(func() {
		var asked time.Time
		left := ""
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			select {
			case <-c.Done():
				return // the test had another one since, or it has ended by itself
			default:
			}
			// Again and again: a job that a node lost is queued anew after it was cancelled.
			if time.Since(asked) > 2*time.Second {
				s.say("scancel", "--user=root")
				asked = time.Now()
			}
			if left = s.say("squeue", "--noheader", "--format=%A %j %T %r %S"); left == "" {
				return
			}
			if time.Now().After(end) {
				break
			}
		}
		s.lab.Errorf("waited %v in vain for the end of these jobs:\n%s\n%s", patience, left,
			s.say("scontrol", "show", "job"))
	})
}

func (s *slurm) file(name string) string { return filepath.Join(s.dir, name) }

// run starts a daemon that ends with the test.
func (s *slurm) run(argv ...string) *proc.Stream {
	s.lab.Helper()
	path, err := proc.LookPath(argv[0])
	if err != nil {
		s.lab.Fatal(err)
	}
	return s.lab.daemon(argv[0], "", append([]string{path}, argv[1:]...)...)
}

// control starts the cluster's controller.
func (s *slurm) control(args ...string) {
	s.lab.Helper()
	s.controller = s.run(append([]string{"slurmctld", "-D"}, args...)...)
	s.lab.await("slurmctld", func() bool { return strings.Contains(s.say("scontrol", "ping"), "UP") })
}

func (s *slurm) boot(node string) {
	if s.hide == "" {
		s.nodes[node] = s.run("slurmd", "-D", "-N", node)
		return
	}
	// Its jobs have its mounts.
	s.nodes[node] = s.run("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs none "$1" && exec slurmd -D -N "$2"`, "sh", s.hide, node)
}

// say runs one of Slurm's commands and returns what it printed.
func (s *slurm) say(argv ...string) string { return s.lab.ask(argv...) }

// crash ends a node as a power cut does: its daemon, the daemon of the job's step, and the job. Parts of the same name
// are carried out by the clusters of other tests; this one's work below its own folder.
func (s *slurm) crash(node, job string) {
	s.lab.Helper()
	var victims []int
	for _, t := range tasks() {
		if !strings.Contains(t.line, job) || !strings.Contains(t.line, "fleet shard") {
			continue
		}
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.pid)); err == nil &&
			strings.HasPrefix(dir, s.lab.dir+"/") {
			victims = append(victims, t.parent, t.pid)
		}
	}
	if len(victims) != 2 {
		s.lab.Fatalf("the job %q of %s is carried out by %v", job, node, victims)
	}
	s.nodes[node].Kill()
	for _, pid := range victims {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// TestFleetOnSlurm has a real cluster run a plan: one node loses its power in mid-run and comes back, one is drained
// and never works, and the controller is stopped and started in between. One verdict across the hosts comes of it.
func TestFleetOnSlurm(t *testing.T) {
	l := newLab(t)
	s := l.slurm(slurmOptions{})
	l.file("plan.yaml", fleetPlan(12))
	s.say("scontrol", "update", "nodename=n4", "state=drain", "reason=repair")
	// The parts share a machine: tare lets one work at a time.
	args := []string{"fleet", "run", "plan.yaml", "--on", "slurm", "-o", "nodes", "--by", "name", "--every", "200ms",
		"--patience", "2s", "--sbatch", "--partition=main"}
	p := l.start(args...)
	begun := func() (part string) {
		for _, k := range []string{"1", "2", "3"} {
			if n := l.lines("nodes/run/part-" + k); n >= 8 && n < 40 {
				part = k
			}
		}
		return part
	}
	p.until("the first trials of a part", func() bool { return begun() != "" })
	victim := begun()
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 || !strings.Contains(o.err, "the same command goes on watching") {
		t.Fatalf("a controller that is stopped: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	s.crash("n"+victim, "part-"+victim+" ")
	before := l.lines("nodes/run/part-" + victim)
	p = l.start(args...)
	s.boot("n" + victim)
	p.until("the requeue", func() bool {
		// Slurm waits two minutes before a requeued job may begin; its administrator need not.
		waits := s.say("squeue", "--noheader", "--states=PENDING", "--format=%A %r")
		for line := range strings.Lines(waits) {
			if f := strings.Fields(line); len(f) == 2 && f[1] == "BeginTime" {
				// Not in the second in which its node killed it: slurmd would take it for the same.
				s.say("scontrol", "update", "jobid="+f[0], "starttime=now+3")
				return true
			}
		}
		return l.lines("nodes/run/part-"+victim) > before
	})
	o := p.end()
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, want := range []string{"failed n4", "given up after 2s"} {
		if !strings.Contains(strings.Join(strings.Fields(o.err), " "), want) {
			t.Errorf("no %q in:\n%s", want, o.err)
		}
	}
	for _, want := range []string{"counted: 3 of 4 hosts", "missing: n4"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in:\n%s", want, o.out)
		}
	}
	o = l.do("fleet", "report", "nodes", "--format", "json")
	var r fleet.Report
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	// On a busy machine a host's verdict may be withheld; it is counted as that.
	if len(r.Hosts) != 3 || len(r.Cells) == 0 || !r.Cells[0].IsRatio || r.Cells[0].Hosts < 2 ||
		r.Cells[0].Hosts+r.Cells[0].Withheld != 3 {
		t.Errorf("%+v", r)
	}
	for _, h := range r.Hosts {
		if !h.Finished {
			t.Errorf("%s has not finished", h.Name)
		}
	}
	// What was measured before the power cut counts: the part went on.
	log, err := os.ReadFile(filepath.Join(l.dir, "nodes/run/log-"+victim))
	if err != nil || !bytes.Contains(log, []byte("resuming after")) {
		t.Errorf("the part began anew: %v\n%s", err, log)
	}
	// Nothing is asked for again, and nothing is counted twice.
	if o := l.do(args...); o.code != 0 || !strings.Contains(o.out, "counted: 3 of 4 hosts") {
		t.Errorf("once more: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	asked := map[string]int{} // jobs of each part; that of the drained node is asked for by each call
	for name := range strings.Lines(s.say("squeue", "--noheader", "--states=all", "--format=%j")) {
		asked[name[strings.LastIndexByte(name, '-')+1:][:1]]++
	}
	if asked["1"] != 1 || asked["2"] != 1 || asked["3"] != 1 || asked["4"] < 2 {
		t.Errorf("parts were asked for %v times, want 1, 1, 1 and at least 2", asked)
	}
}
