package env

import (
	"strings"
	"testing"
)

func TestVary(t *testing.T) {
	settings := []Setting{
		{Name: "cache", Default: "writeback", Try: []string{"writeback", "none"}, Moves: MovesFiles},
		{Name: "nic", Default: "none", Try: []string{"virtio"}, Moves: MovesNetwork},
		{Name: "cpus", Try: []string{"1", "2"}},
		{Name: "memory", Default: "1GiB"},
	}
	for text, want := range map[string]string{
		"vm=qemu": "vm-cache-none=qemu?cache=none vm-cpus-1=qemu?cpus=1 vm-cpus-2=qemu?cpus=2",
		"vm=qemu?cache=none": "vm-cache-writeback=qemu?cache=writeback vm-cpus-1=qemu?cache=none&cpus=1 " +
			"vm-cpus-2=qemu?cache=none&cpus=2",
		"vm=qemu:x?cpus=2": "vm-cache-none=qemu:x?cache=none&cpus=2 vm-cpus-1=qemu:x?cpus=1",
		"vm=qemu?memory=2GiB": "vm-cache-none=qemu?cache=none&memory=2GiB vm-cpus-1=qemu?cpus=1&memory=2GiB " +
			"vm-cpus-2=qemu?cpus=2&memory=2GiB",
	} {
		s, err := ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range Vary(s, settings, MovesFiles) {
			got = append(got, v.Name+"="+v.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"vm=qemu": "writeback", "vm=qemu?cache=none": "none"} {
		s, _ := ParseSpec(text)
		if got := settings[0].In(s); got != want {
			t.Errorf("%s has cache=%s, want %s", text, got, want)
		}
	}
	s, _ := ParseSpec("a-name-that-is-as-long-as-one-may-be-0000=qemu")
	for _, v := range Vary(s, []Setting{{Name: "on", Try: []string{"a b", "c/d"}}}) {
		if err := CheckName(v.Name); err != nil {
			t.Error(err)
		}
	}
}
