// Package internal_test guards the direction of the arrows in the house (docs/architecture.md).
package internal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// ladder has the storeys from the roof to the ground, and within a storey the steps that its rooms stand on. A name is
// a room: a folder with all that lies below it. A name that ends in /* makes each folder there a room of its own. The
// longest name that fits a package tells its room, so a new package has its place without a line here.
//
// A package may import what stands on a lower step, and the other packages of its own room. Rooms on one step do not
// know each other.
var ladder = []string{
	"cmd/* bench scripts/*",
	"internal/cli",
	"internal/show/fleetpage internal/show/gallery internal/show/live",
	"internal/show/*",
	"internal/run/schedule",
	"internal/run/*",
	"internal/judge/failif internal/judge/fleet",
	"internal/judge/*",
	"internal/judge/verdict",
	"internal/bundle",
	"internal/plan",
	"internal/lab/driver/all",
	"internal/lab/driver/* internal/lab/envtest internal/lab/libvirttest",
	// They boot and reach the machines of other drivers.
	"internal/lab/driver/qemu internal/lab/driver/serial internal/lab/driver/ssh",
	"internal/lab/driver/remote internal/lab/stack",
	"internal/lab/driver/folder internal/lab/driver/limited internal/lab/driver/piped internal/lab/driver/wired " +
		"internal/lab/medium " +
		"internal/lab/rootfs internal/lab/vdisk",
	"internal/lab/*",
	"internal/lab/env",
	"internal/measure/agent",
	"internal/measure/workload/all",
	"internal/measure/workload/developer", // its build is a command, timed as package command does it
	"internal/measure/workload/* internal/measure/netpeer/peertest",
	"internal/measure/workload/command internal/measure/workload/replay internal/measure/workload/stack",
	"internal/measure/workload",
	"internal/measure/*",
	"internal/stats",
	"internal/sys/*",
	"internal/sys/clock internal/sys/ledger internal/sys/mountinfo internal/sys/netns internal/sys/proc " +
		"internal/sys/shell internal/sys/sock",
	"contrib internal/record stacks internal/unit internal/suggest internal/version internal",
}

// onlyProc may import os/exec: everything else starts children through it.
const onlyProc = "tare/internal/sys/proc"

// The agent's libraries are those of the storeys that the agent stands on. These would make it heavy, or bring the
// controller into it. It has TLS and a resolver, but speaks HTTP by itself.
var agentForbidden = []string{
	"github.com/", "gonum.org/", "net/http", "text/template", "html/template", "tare/internal/cli",
	"tare/internal/show",
	"tare/internal/run", "tare/internal/judge", "tare/internal/bundle", "tare/internal/plan", "tare/internal/lab",
	"tare/internal/stats",
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// place returns the step of a package, 0 at the roof, and its room. The step is -1 for what stands nowhere.
func place(path string) (step int, room string) {
	path, step = strings.TrimPrefix(path, "tare/"), -1
	longest := -1
	for i, names := range ladder {
		for _, name := range strings.Fields(names) {
			if r := roomOf(path, name); r != "" && len(name) > longest {
				step, room, longest = i, r, len(name)
			}
		}
	}
	return step, room
}

// roomOf returns the room that a name of the ladder gives to a package, or "" when it gives none.
func roomOf(path, name string) string {
	folder, each := strings.CutSuffix(name, "/*")
	rest, ok := strings.CutPrefix(path+"/", folder+"/")
	switch {
	case !ok, each && rest == "", name == "internal" && rest != "":
		return ""
	case each:
		child, _, _ := strings.Cut(rest, "/")
		return folder + "/" + child
	}
	return folder
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range list(t, "tare/...") {
		from, room := place(p.ImportPath)
		if from < 0 {
			t.Errorf("%s stands on no storey of the house: move it below one of them (docs/architecture.md)",
				p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, "tare/") {
				continue
			}
			if to, other := place(i); to <= from && other != room {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, i)
			}
		}
	}
}

// TestPlaces holds the ladder to what its comment promises.
func TestPlaces(t *testing.T) {
	for path, want := range map[string]string{
		"internal/lab/driver/qemu":                 "internal/lab/driver/qemu",
		"internal/lab/driver/container/dockertest": "internal/lab/driver/container",
		"internal/lab/driver/remote":               "internal/lab/driver/remote",
		"internal/lab/anything":                    "internal/lab/anything",
		"internal/measure/workload":                "internal/measure/workload",
		"internal/measure/workload/sql/wire":       "internal/measure/workload/sql",
		"internal/measure/agent/pid1":              "internal/measure/agent",
		"internal":                                 "internal",
		"internal/elsewhere":                       "",
		"internal/lab":                             "",
	} {
		if step, room := place("tare/" + path); room != want || (step < 0) != (want == "") {
			t.Errorf("%s is in room %q on step %d, want room %q", path, room, step, want)
		}
	}
	// Each line stands for something that is there, else it would only look like an order.
	packages := list(t, "tare/...")
	for _, names := range ladder {
		for _, name := range strings.Fields(names) {
			found := false
			for _, p := range packages {
				found = found || roomOf(strings.TrimPrefix(p.ImportPath, "tare/"), name) != ""
			}
			if !found {
				t.Errorf("the ladder names %s, and no package stands there", name)
			}
		}
	}
}

func TestOnlyProcRunsCommands(t *testing.T) {
	for _, p := range list(t, "tare/...") {
		for _, i := range p.Imports {
			if i == "os/exec" && p.ImportPath != onlyProc {
				t.Errorf("%s imports os/exec; use internal/sys/proc", p.ImportPath)
			}
		}
	}
}

// TestAgentDependencies holds the agent to what docs/decisions/0081 says it has.
func TestAgentDependencies(t *testing.T) {
	for _, p := range list(t, "tare/cmd/tare-agent") {
		for _, d := range p.Deps {
			for _, f := range agentForbidden {
				if d == f || strings.HasSuffix(f, "/") && strings.HasPrefix(d, f) || strings.HasPrefix(d, f+"/") {
					t.Errorf("the agent depends on %s", d)
				}
			}
		}
	}
}
