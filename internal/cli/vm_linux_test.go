package cli_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/record"
)

// machine is the smallest micro-VM that does the work; emulated, so that it is the same on every host.
const machine = "vm: qemu?accel=tcg&memory=256MiB&cpus=1&disk=64MiB&boot=3m"

// needVM ends a test where no micro-VM can be booted: without QEMU or without a kernel for the guest.
func needVM(l *lab) {
	l.Helper()
	need(l, "qemu-system-x86_64")
	o := l.do("doctor")
	for line := range strings.Lines(o.out) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "qemu" && f[0] != "ok" {
			missing(l, "no micro-VM here: "+strings.TrimSpace(line))
		}
	}
}

// The emulator is killed in the middle of a trial, as by the system when memory runs out.
func TestMachineKilled(t *testing.T) {
	l := newLab(t)
	needVM(l)
	l.plan(machine, slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	l.kill(p.find("vm", aMachine), syscall.SIGKILL)
	l.spared(p.end(), "vm", "the connection to the agent broke")
	l.undecided(l.read("out"), "vm")
	l.evidence("out", "vm", "killed")
}

// A machine that stops answering is not waited for when the user has had enough, and one that cannot boot is told of.
func TestMachineStopped(t *testing.T) {
	l := newLab(t)
	needVM(l)
	l.plan(machine+"\nbad: qemu?accel=tcg&memory=256MiB&append=rdinit=/nowhere&boot=3m", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	l.kill(p.find("vm", aMachine), syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	o := p.end()
	if took := time.Since(began); o.code != 1 || took > 2*time.Minute || !strings.Contains(o.err,
		"tare run --resume out") {
		t.Errorf("exit code %d after %v:\n%s", o.code, took, o.err)
	}
	if !strings.Contains(o.err, "bad did not open") {
		t.Errorf("nothing was said of the machine that cannot boot:\n%s", o.err)
	}
	l.evidence("out", "bad", "Kernel panic")
	for _, c := range l.read("out").Cells {
		if c.Target == "bad" && c.Verdict != record.Failed {
			t.Errorf("%+v", c)
		}
	}
	l.gone("out")
}

// kill -9 with a host, a container and a machine: while the machine boots, and while it works.
func TestKilledWithMachine(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	needVM(l)
	l.plan("box: namespace\n"+machine, `- "null"`)
	p := l.start("run", "plan.yaml", "-o", "booting")
	p.find("vm", aMachine)
	time.Sleep(rand.N(500 * time.Millisecond))
	p.cmd.Process.Kill()
	<-p.done
	l.settled(l.runID("booting"), false)
	p = l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 6+rand.N(20))
	p.cmd.Process.Kill()
	<-p.done
	l.recovers("out")
	l.gone("booting")
}

// The command line of the manual, as it is written there, but for an end after ten blocks.
func TestCommandLineOfTheManual(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	needVM(l)
	const line = `tare run -e host -e box=namespace -e 'vm=qemu?accel=tcg&cpus=2&memory=1GiB' -w cpu.prime:max=20000 -w fs.randread:size=64MiB,bs=4KiB -o out`
	l.command = []string{"sh", "-c", line + ` "$@"`, "sh"}
	o := l.do("--blocks", "10")
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	l.command = []string{tareBinary}
	d := l.read("out")
	for _, target := range []string{"box", "vm"} {
		n := 0
		for _, c := range d.Cells {
			if c.Target == target && c.Primary {
				n++
				// A disturbed machine may forbid a verdict, see decided.
				if c.Blocks == 0 || c.Verdict == record.Failed {
					t.Errorf("%s in %s is %s: %+v", c.Workload, target, c.Verdict, c)
				}
			}
		}
		if n != 2 {
			t.Errorf("%s has %d cells, want both workloads", target, n)
		}
	}
	for _, tg := range d.Targets {
		if tg.Emulated != (tg.Name == "vm") {
			t.Errorf("%s emulated: %v", tg.Name, tg.Emulated)
		}
	}
	l.gone("out")
	if t.Failed() {
		t.Logf("%s%s", o.err, o.out)
	}
	// Whatever the program left in its working directory is the bundle.
	if left, _ := filepath.Glob(filepath.Join(l.dir, "*")); len(left) != 2 {
		t.Errorf("in the working directory: %v", left)
	}
}

// hypervisor holds what a stream from the machine costs QEMU. It is the time of QEMU's own threads, of which one is the
// machine's processor, and not what the client in the machine or the peer used. The host has no such figure.
func (l *lab) hypervisor(name string) {
	l.Helper()
	for _, target := range []string{"host", "vm"} {
		streams := 0
		for _, t := range l.trialsOf(name, target) {
			if t.Error != nil || t.Metrics["throughput"] == 0 {
				continue
			}
			streams++
			cost, known := t.Metrics["host_cpu_ms_per_gib"]
			if target == "host" {
				if known {
					l.Errorf("%v ms of a hypervisor on the host", cost)
				}
				continue
			}
			threads, seconds := map[string]float64{}, 0.0
			for part := range strings.SplitSeq(t.State[record.HostCPU], ", ") {
				var used float64
				i := strings.LastIndex(strings.TrimSuffix(part, " s"), " ")
				if _, err := fmt.Sscanf(part[i+1:], "%f s", &used); err != nil {
					l.Fatalf("%q: %v", t.State[record.HostCPU], err)
				}
				threads[part[:max(i, 0)]], seconds = used, seconds+used
			}
			gib := float64(t.Work) / 1024
			if rounded := 0.5 * float64(len(threads)); cost <= 0 || math.Abs(cost*gib-1e3*seconds) > rounded+1e-6 {
				l.Errorf("%v ms for each GiB, of which %v were moved in %v s", cost, gib, threads)
			}
			if threads["CPU 0/TCG"] <= 0 || threads["CPU 0/TCG"] == seconds {
				l.Errorf("the threads are %v, without the machine's processor or without what moves its bytes", threads)
			}
			for _, other := range []string{"client_cpu_ms_per_gib", "peer_cpu_ms_per_gib"} {
				if is := t.Metrics[other]; is <= 0 || is == cost {
					l.Errorf("%s is %v, the hypervisor's %v", other, is, cost)
				}
			}
		}
		if streams == 0 {
			l.Errorf("no stream of %s counts", target)
		}
	}
}

// What the work asks its kernel for is seen in a machine, too, and beside it what serves the machine here.
func TestWhySeesIntoTheMachine(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	needVM(l)
	l.file("plan.yaml", `baseline: host
seed: 7
trial: 20ms
blocks: 7
environments:
  host: local
  `+machine+`&nic=virtio
workloads:
  - fs.seqread: {size: 1MiB}
  - net.stream
`)
	if o := l.do("run", "plan.yaml", "-o", "out"); o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	l.hypervisor("out")
	o := l.do("why", "out", "vm,fs.seqread size=1MiB", "--rounds", "2", "--all")
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	said := unwrapped(o.out)
	for _, want := range []string{"2 rounds traced by", "traced in its own kernel, by its own clock: vm by",
		"pread64"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing is said of %q:\n%s", want, o.out)
		}
	}
	if strings.Contains(said, "not seen") {
		t.Errorf("something was not seen:\n%s", o.out)
	}
	if strings.Contains(said, "rounds traced by BPF") != strings.Contains(said, "What serves vm on this machine") {
		t.Errorf("what serves the machine is told by BPF, and by nothing else:\n%s", o.out)
	}
	l.gone("out")
}
