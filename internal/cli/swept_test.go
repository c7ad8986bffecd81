package cli

import (
	"slices"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
)

// What a finding says tare sweep tries is what tare sweep tries.
func TestSweptDriversAndMounts(t *testing.T) {
	tried := func(settings []env.Setting) bool {
		return slices.ContainsFunc(settings, func(s env.Setting) bool { return len(s.Try) > 0 })
	}
	var want []string
	for _, info := range all.Drivers().All() {
		if tried(info.Settings) {
			want = append(want, info.Name)
		}
	}
	for _, k := range mount.Kinds() {
		if tried(k.Settings) {
			want = append(want, k.Name)
		}
	}
	got := slices.Sorted(slices.Values(verdict.Swept()))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("findings offer a sweep of %v, and tare sweep tries settings of %v", got, want)
	}
}
