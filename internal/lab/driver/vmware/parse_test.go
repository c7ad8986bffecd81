package vmware

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	got, err := parseList("Total running VMs: 2\r\n/vms/a b.vmx\r\n\nC:\\vms\\c.vmx\n")
	if err != nil || !slices.Equal(got, []string{"/vms/a b.vmx", `C:\vms\c.vmx`}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := parseList("vmrun: command not found"); err == nil {
		t.Error("another program's output was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Total running VMs: 1\n/a.vmx\n")
	f.Add("2026-01-01 In(05) vmx Log for VMware Workstation pid=12 version=17.5.2 build=build-23775571 " +
		"option=Release\nvmx Monitor Mode: ULM\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := parseList(text)
		for _, vmx := range all {
			if vmx == "" || strings.ContainsAny(vmx, "\n") {
				t.Errorf("%q", vmx)
			}
		}
		for k, v := range parseLog(text) {
			if len(v) > 400 || strings.ContainsAny(v, "\n\x1b") {
				t.Errorf("%s=%q", k, v)
			}
		}
		errorLine(text)
	})
}

func TestParseLog(t *testing.T) {
	got := parseLog("2024-05-14T08:00:00.123Z In(05) vmx Log for VMware Workstation pid=4711 version=17.5.2 " +
		"build=build-23775571 option=Release\n2024-05-14T08:00:01Z In(05) vmx Monitor Mode: CPL0\n")
	want := map[string]string{"vmware.product": "VMware Workstation", "vmware.version": "17.5.2",
		"vmware.build": "23775571", "vmware.monitor": "CPL0"}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestRemedies(t *testing.T) {
	for said, want := range map[string]string{
		"The file is already in use": ".lck", "Insufficient permissions in the host operating system": "as the user",
		"Cannot open VM: /x.vmx, The virtual machine cannot be found": "rejects", "Something new": "by hand",
	} {
		if got := remedy(&callError{argv: []string{"vmrun", "list"}, message: said}); !strings.Contains(got, want) {
			t.Errorf("%s: %q", said, got)
		}
	}
	if remedy(errors.New("other")) != "" || !off(&callError{message: "The virtual machine is not powered on: /x.vmx"}) {
		t.Error("an error was taken for another")
	}
}
