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
	f.Add("serial0.fileName = \"|22\"\nguestOS=x\n")
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
		k := parseVMXKeys(text)
		k.line("/")
		for key, v := range k.facts() {
			if len(v) > 100 || strings.ContainsAny(v, "\n\x1b") {
				t.Errorf("%s=%q", key, v)
			}
		}
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

func TestParseVMX(t *testing.T) {
	const text = "#!/usr/bin/vmware\n" +
		".encoding = \"UTF-8\"\r\nSERIAL0.present = \"true\"\r\nserial0.fileType=\"pipe\"\n" +
		"# serial0.fileType = \"file\"\nserial0.fileName = \"a |22b|22|7C\"\nserial0.pipe.endPoint = \"server\"\n" +
		"numvcpus = 2\nguestOS = \"debian12-64\"\nvmx.password = \"geheim\"\nno assignment\n"
	k := parseVMXKeys(text)
	at, err := k.line("/vms")
	if err != nil || at != `/vms/a "b"|` || k["numvcpus"] != "2" {
		t.Errorf("%q, %v, %v", at, err, k)
	}
	if f := k.facts(); !maps.Equal(f, map[string]string{"vmx.guestOS": "debian12-64", "vmx.numvcpus": "2"}) {
		t.Errorf("facts %v", f)
	}
	for change, want := range map[string]string{
		"serial0.present = \"FALSE\"": "no first serial port", "serial0.fileType = \"file\"": "of type \"file\"",
		"serial0.pipe.endPoint = \"client\"": "is a client, not a server",
	} {
		if _, err := parseVMXKeys(text + change).line("/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
	const pipe = `\\.\pipe\vm`
	if at, err := parseVMXKeys(text + `serial0.fileName = "` + pipe + `"`).line("/"); err != nil || at != pipe {
		t.Errorf("%q, %v", at, err)
	}
}
