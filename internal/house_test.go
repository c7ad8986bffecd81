// Package internal_test guards the direction of the arrows in the house (docs/architecture.md).
package internal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// storeys lists the packages from the ground up. A package may import only packages of lower storeys; those on one storey
// do not know each other. A trailing /... stands for everything below the folder.
var storeys = [][]string{
	{"internal", "internal/record", "internal/unit", "internal/version", "internal/sys/proc", "internal/measure/guestabi", "internal/plan/study", "internal/show/report/page", "internal/measure/fileops", "internal/lab/diskimage/field", "internal/sys/nbd", "internal/sys/bzip2", "internal/sys/nfsd"},
	{"internal/measure/workload", "internal/sys/thread", "internal/measure/fileio", "internal/sys/histogram", "internal/sys/uring", "internal/measure/wire", "internal/lab/env", "internal/sys/shell", "internal/stats", "internal/measure/sysinfo", "internal/judge/failif", "internal/show/report/chromium", "internal/lab/diskimage/disktest", "internal/lab/diskimage/image", "internal/lab/diskimage/volume"},
	{"internal/measure/workload/trialtest", "internal/measure/netpeer"},
	{"internal/measure/workload/cpu", "internal/measure/workload/memory", "internal/measure/workload/syscalls", "internal/measure/workload/fs", "internal/measure/workload/matrix", "internal/measure/workload/durability", "internal/measure/workload/command", "internal/measure/workload/restore", "internal/measure/workload/network", "internal/measure/workload/web", "internal/measure/workload/null", "internal/measure/netpeer/peertest", "internal/lab/leftover", "internal/lab/driver/piped", "internal/lab/driver/folder", "internal/lab/microvm", "internal/lab/mount", "internal/run/semantics", "internal/lab/diskimage"},
	{"internal/measure/workload/developer", "internal/plan", "internal/lab/rootfs", "internal/lab/vdisk"},
	{"internal/measure/workload/all"},
	{"internal/measure/agent", "internal/measure/agent/nsinit", "internal/judge/verdict"},
	{"internal/judge/costper"},
	{"internal/measure/agent/pid1", "internal/lab/deploy", "internal/show/report", "internal/bundle", "internal/judge/rundiff", "internal/judge/history"},
	{"internal/lab/deploy/agenttest", "internal/lab/driver/remote"},
	{"internal/lab/driver/local", "internal/lab/driver/namespace", "internal/lab/driver/command", "internal/lab/driver/ssh", "internal/lab/driver/container", "internal/lab/driver/qemu", "internal/lab/envtest"},
	{"internal/lab/driver/all", "internal/lab/driver/container/dockertest", "internal/run/durability"},
	{"internal/run/schedule"},
	{"internal/show/live"},
	{"internal/cli"},
	{"cmd/tare", "cmd/tare-agent", "bench", "scripts/tested"},
}

// within lists the few imports inside one storey, each with its reason.
var within = map[string][]string{
	"internal/measure/workload": {"internal/unit", "internal/record"},
	"internal/measure/agent":    {"internal/measure/agent/nsinit"}, // a role of the agent, switched in its main
	"internal/stats":            {"internal/record"},
	// How much a file in memory may hold is what the memory has left, which thread knows.
	"internal/measure/fileio": {"internal/sys/thread"},
}

// onlyProc may import os/exec: everything else starts children through it.
const onlyProc = "tare/internal/sys/proc"

// agentForbidden are packages that would make the agent heavy or give it a network.
var agentForbidden = []string{
	"github.com/", "gonum.org/", "net/http", "text/template", "html/template", "tare/internal/cli", "tare/internal/plan",
	"tare/internal/bundle", "tare/internal/judge/verdict", "tare/internal/show/report", "tare/internal/run/schedule", "tare/internal/stats",
	"tare/internal/lab/deploy", "tare/internal/lab/env",
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

func storey(path string) int {
	path = strings.TrimPrefix(path, "tare/")
	for i, s := range storeys {
		if slices.Contains(s, path) {
			return i
		}
	}
	return -1
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range list(t, "tare/...") {
		from := storey(p.ImportPath)
		if from < 0 {
			t.Errorf("%s has no storey in the house: add it to the list above and to docs/architecture.md", p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, "tare/") {
				continue
			}
			if to := storey(i); to >= from && !slices.Contains(within[strings.TrimPrefix(p.ImportPath, "tare/")], strings.TrimPrefix(i, "tare/")) {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, i)
			}
		}
	}
}

func TestOnlyProcRunsCommands(t *testing.T) {
	for _, p := range list(t, "tare/...") {
		if p.ImportPath != onlyProc && slices.Contains(p.Imports, "os/exec") {
			t.Errorf("%s imports os/exec; use internal/sys/proc", p.ImportPath)
		}
	}
}

func TestAgentIsSlim(t *testing.T) {
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
