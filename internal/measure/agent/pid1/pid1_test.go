package pid1

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestKernelArgumentsAreRead(t *testing.T) {
	got := arguments("console=ttyS0 quiet  tare.hostname=vm dyndbg=\"file a.c +p\" \"odd=x y\" tare.hostname=box\n")
	want := map[string]string{"console": "ttyS0", "quiet": "", "tare.hostname": "box", "dyndbg": "file a.c +p",
		"odd": "x y"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestModuleListNamesFilesInOneFolder(t *testing.T) {
	got, err := moduleList("virtio_ring.ko\nvirtio.ko\n-cifs.ko\n")
	if err != nil || !slices.Equal(got, []module{{"virtio_ring.ko", false}, {"virtio.ko", false}, {"cifs.ko", true}}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"../x.ko", "/x.ko", "x", "-../x.ko", "--"} {
		if _, err := moduleList(bad); err == nil {
			t.Errorf("%q was taken for a list of modules", bad)
		}
	}
}

func TestSerialsAreNamesInOneFolder(t *testing.T) {
	if got := serials("a,b,,../c"); !slices.Equal(got, []string{"a", "b", "..", "c"}) {
		t.Errorf("%q", got)
	}
	if got := serials(""); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("console=ttyS0 quiet tare.hostname=vm x=\"a b\"\n")
	f.Add("\"")
	f.Fuzz(func(t *testing.T, line string) {
		for k := range arguments(line) {
			if k == "" || !strings.Contains(line, k) {
				t.Errorf("argument %q of %q", k, line)
			}
		}
	})
}

func TestNoProcessOfATestIsAMachinesFirst(t *testing.T) {
	if Wanted() {
		t.Error("a test takes itself for PID 1 of a micro-VM")
	}
}

func TestSerialPortHasANameAndASpeed(t *testing.T) {
	for text, want := range map[string]int{"ttyS0,9600": 9600, "ttyS0": 115200, "": 0, "ttyS0,": 0, "ttyS0,fast": 0,
		"ttyS0,-1": 0, "../x": 0, ",9600": 0} {
		name, baud, err := serialPort(text)
		if (err == nil) != (want > 0) || baud != want || want > 0 && name != "ttyS0" {
			t.Errorf("%q: %q %d %v", text, name, baud, err)
		}
	}
}
