package namespace

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/cgroup"
	"tare/internal/sys/proc"
)

// TestLimits: everything in a container is in its control group, from its first process on, and what work gets there is
// the limit; the group goes with the container.
func TestLimits(t *testing.T) {
	envtest.NeedControlGroups(t)
	for name, s := range map[string][]string{"root": nil, "user namespace": {"user", "own"}} {
		t.Run(name, func(t *testing.T) {
			o := options(t, spec(append(s, "quota", "0.25", "weight", "512", "memory", "512MiB")...))
			o.RunID = fmt.Sprintf("limits-%d", os.Getpid())
			e, err := Driver{}.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for range 2 { // a second agent gets a new container in the same group
				stream, err := e.Agent(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				conn, err := deploy.Connect(t.Context(), stream, o.RunID)
				if err != nil {
					t.Fatal(err)
				}
				family := proc.Family(e.(*environment).AgentProcess())
				if len(family) < 2 {
					t.Errorf("processes %v", family)
				}
				for _, pid := range family {
					if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); err == nil &&
						!strings.Contains(string(b), "/tare+"+o.RunID+"+") {
						t.Errorf("%s is in none of its groups:\n%s", proc.Name(pid), b)
					}
				}
				kind, _ := all.Lookup("cpu.prime")
				params, err := kind.Resolve(map[string]string{"threads": "2"})
				if err != nil {
					t.Fatal(err)
				}
				got, err := conn.Run(t.Context(), wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "c"},
					Work: 1500})
				if err != nil {
					t.Fatal(err)
				}
				c := got.Account.Counts
				used := float64(c[record.UserNS] + c[record.KernelNS])
				if share := used / float64(got.Result.ElapsedNS); share > 0.6 || used < 1e8 {
					t.Errorf("a quota of 0.25 processors gave %.2f to two threads, %.0f ns", share, used)
				}
				conn.Close()
			}
			if f := e.Facts(); f.Extra["cgroup.cpus"] != "0.25" || f.Settings["weight"] != "512" ||
				strings.Contains(strings.Join(f.Command, " "), "cgroup.procs") {
				t.Errorf("%+v", f)
			}
			if found := cgroup.Find("tare+" + o.RunID + "+"); len(found) == 0 {
				t.Error("there is no group while it is open")
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if left := cgroup.Find("tare+" + o.RunID + "+"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestLimitThatCannotBe: the container does not open, says why, and leaves nothing.
func TestLimitThatCannotBe(t *testing.T) {
	envtest.NeedControlGroups(t)
	for says, s := range map[string][]string{"1023": {"cpuset", "1023"},
		"/dev/nowhere": {"read_bps", "/dev/nowhere:5"}} {
		o := options(t, spec(s...))
		if e, err := (Driver{}).Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "set limits") {
			t.Errorf("%v: %v", s, err)
			if e != nil {
				e.Close()
			}
		}
		if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if left := cgroup.Find("tare+" + o.RunID + "+"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if s := has(t.Context(), spec("read_bps", "/dev/nowhere:5")); s.OK || !strings.Contains(s.Detail, "/dev/nowhere") {
		t.Errorf("%+v", s)
	}
}
