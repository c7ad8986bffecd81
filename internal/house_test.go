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
	{"internal", "internal/record", "internal/unit", "internal/version", "internal/proc", "internal/guest/layout", "internal/study", "internal/report/page", "internal/probe", "internal/disk/field", "internal/nbd", "internal/bzip2", "internal/nfsd"},
	{"internal/workload", "internal/workload/thread", "internal/workload/file", "internal/workload/histogram", "internal/workload/uring", "internal/wire", "internal/env", "internal/env/shell", "internal/stats", "internal/facts", "internal/gate", "internal/report/chromium", "internal/disk/disktest", "internal/disk/image", "internal/disk/volume"},
	{"internal/workload/thread/trialtest", "internal/peer"},
	{"internal/workload/cpu", "internal/workload/memory", "internal/workload/syscalls", "internal/workload/fs", "internal/workload/matrix", "internal/workload/durability", "internal/workload/command", "internal/workload/restore", "internal/workload/network", "internal/workload/web", "internal/workload/null", "internal/peer/peertest", "internal/env/leftover", "internal/env/piped", "internal/env/folder", "internal/guest", "internal/mount", "internal/card", "internal/disk"},
	{"internal/workload/developer", "internal/plan", "internal/rootfs", "internal/vdisk"},
	{"internal/workload/all"},
	{"internal/agent", "internal/agent/nsinit", "internal/compare"},
	{"internal/normal"},
	{"internal/agent/pid1", "internal/deploy", "internal/report", "internal/bundle", "internal/across", "internal/store"},
	{"internal/deploy/agenttest", "internal/env/remote"},
	{"internal/env/local", "internal/env/namespace", "internal/env/command", "internal/env/ssh", "internal/env/container", "internal/env/qemu", "internal/env/envtest"},
	{"internal/env/all", "internal/env/container/dockertest", "internal/durability"},
	{"internal/schedule"},
	{"internal/live"},
	{"internal/cli"},
	{"cmd/tare", "cmd/tare-agent", "bench", "scripts/tested"},
}

// within lists the few imports inside one storey, each with its reason.
var within = map[string][]string{
	"internal/workload": {"internal/unit", "internal/record"},
	"internal/agent":    {"internal/agent/nsinit"}, // a role of the agent, switched in its main
	"internal/stats":    {"internal/record"},
	// How much a file in memory may hold is what the memory has left, which thread knows.
	"internal/workload/file": {"internal/workload/thread"},
}

// onlyProc may import os/exec: everything else starts children through it.
const onlyProc = "tare/internal/proc"

// agentForbidden are packages that would make the agent heavy or give it a network.
var agentForbidden = []string{
	"github.com/", "gonum.org/", "net/http", "text/template", "html/template", "tare/internal/cli", "tare/internal/plan",
	"tare/internal/bundle", "tare/internal/compare", "tare/internal/report", "tare/internal/schedule", "tare/internal/stats",
	"tare/internal/deploy", "tare/internal/env",
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
			t.Errorf("%s imports os/exec; use internal/proc", p.ImportPath)
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
