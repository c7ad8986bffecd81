package mount

import (
	"strings"
	"testing"

	"tare/internal/lab/env"
)

func TestSettingsThatExcludeEachOther(t *testing.T) {
	for text, want := range map[string]string{
		"nfs?vers=4.2&proto=udp": "does not run over UDP", "nfs?server=vm&port=3000": "has no port",
		"nfs?server=vm&proto=udp&vers=3": "over TCP",
		"nfs?server=vm&proto=udp":        "does not run over UDP", "nfs?server=ganesha&threads=3": "server=kernel",
		"nfs?server=ganesha&async=on": "server=kernel",
		"nfs?disk=2GiB":               "server=vm", "nfs?actimeo=3&noac=on": "leave out one",
		"nfs?threads=3&commit=always":    "NFS-Ganesha",
		"virtiofs?daemon=c&sandbox=none": "sandbox=none", "virtiofs?daemon=/nonexist": "/nonexist",
		"virtiofs?daemon=rust&posix_lock=on": "posix_lock",
		"nfs":                                "", "nfs?server=vm&disk=2GiB": "", "nfs?vers=3&proto=udp": "",
		"nfs?server=ganesha&commit=always&port=3000": "", "nfs?threads=3": "",
		"nfs?noac=on": "", "nfs?noac=on&actimeo=0": "", "virtiofs?daemon=rust&sandbox=none": "",
		"virtiofs?posix_lock=on": "",
	} {
		_, s, err := env.ParseMount("vm:" + text)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := lookup(s.Driver)
		if err := k.CheckAll(env.Spec{}, s); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
