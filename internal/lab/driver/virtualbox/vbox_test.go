package virtualbox

import (
	"strings"
	"testing"
)

// settingsFile is the part of a machine's settings that names files, as VirtualBox 7.2 writes it.
const settingsFile = `<?xml version="1.0"?>
<VirtualBox xmlns="http://www.virtualbox.org/" version="1.19-linux">
  <Machine uuid="{1}" name="a &gt; b" snapshotFolder="Snapshots" stateFile="Snapshots/now.sav">
    <MediaRegistry>
      <HardDisks>
        <HardDisk uuid="{2}" location="d &amp; e.vdi" format="VDI" type="Normal">
          <HardDisk uuid="{3}" location="Snapshots/{3}.vdi" format="VDI"/>
        </HardDisk>
        <HardDisk uuid="{4}" location="/elsewhere/w.vdi" format="VDI" type="Writethrough"/>
      </HardDisks>
      <DVDImages>
        <Image uuid="{5}" location="/media/tare.iso"/>
      </DVDImages>
    </MediaRegistry>
    <Hardware>
      <UART><Port slot="0" path="/tmp/serial" hostMode="HostPipe" server="true"/></UART>
      <BIOS><NVRAM path="a.nvram"/></BIOS>
      <AttachedDevice type="HardDisk"><Image uuid="{3}"/></AttachedDevice>
    </Hardware>
  </Machine>
</VirtualBox>
`

func TestVbox(t *testing.T) {
	v, err := parseVbox([]byte(settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := "/vms/a/Snapshots/now.sav, /vms/a/d & e.vdi, /vms/a/Snapshots/{3}.vdi, /elsewhere/w.vdi, " +
		"/media/tare.iso, /vms/a/a.nvram"
	if got := strings.Join(v.places("/vms/a"), ", "); got != want {
		t.Errorf("its files are %s, want %s", got, want)
	}
	moved, err := parseVbox(v.moved("/vms/a", func(name string) string { return "/in<side" + name }))
	if err != nil {
		t.Fatal(err)
	}
	want = "/in<side" + strings.ReplaceAll(want, ", ", ", /in<side")
	if got := strings.Join(moved.places("/other"), ", "); got != want {
		t.Errorf("moved to %s", got)
	}
	if chain := moved.find("/in<side/vms/a/Snapshots/{3}.vdi"); len(chain) != 2 ||
		chain[1].Location != "/in<side/vms/a/d & e.vdi" || chain[1].Type != "Normal" {
		t.Errorf("the disk of a snapshot holds differences to %+v", chain)
	}
	if !strings.Contains(string(moved.text), `path="/tmp/serial"`) || moved.find("/nowhere") != nil {
		t.Errorf("%s", moved.text)
	}
	for _, bad := range []string{"", "<VirtualBox>", "<VirtualBox><Global/></VirtualBox>"} {
		if _, err := parseVbox([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a machine's settings", bad)
		}
	}
}

// FuzzVbox reads settings that VirtualBox, or anybody else, may have written.
func FuzzVbox(f *testing.F) {
	f.Add(settingsFile)
	f.Add(`<VirtualBox><Machine ><HardDisk location="&bad;"/></Machine></VirtualBox>`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseVbox([]byte(text))
		if err != nil {
			return
		}
		for _, p := range v.places("/vms/a") {
			v.find(p)
		}
		if _, err := parseVbox(v.moved("/vms/a", func(name string) string { return name })); err != nil {
			t.Errorf("moved nowhere, the settings are no settings: %v", err)
		}
	})
}
