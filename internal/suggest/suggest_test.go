package suggest

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"fs.randread", "fs.randwrite", "cpu.prime", "html", "tmpfs", "9p"}
	for in, want := range map[string]string{"fs.ranread": "fs.randread", "cpu.pirme": "cpu.prime", "network": "",
		"yaml": "", "htlm": "html",
		"tmp": "tmpfs", "t": "", "8p": "9p", "cpu": "cpu.prime", "fs": ""} {
		if got := Nearest(in, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRunsOn(t *testing.T) {
	names := []string{"cpus", "memory"}
	for value, want := range map[string]bool{
		"2,memory=1GiB": true, "2, memory=1GiB": true, "2;memory=1GiB": true,
		"2": false, "max,+avx2": false, "a,path=/x": false, "memory=1GiB": false, "2,": false, "": false,
	} {
		if got := RunsOn(value, ",;", names); got != want {
			t.Errorf("RunsOn(%q) = %v", value, got)
		}
	}
}
