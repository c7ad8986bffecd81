package redact

import (
	"testing"

	"tare/internal/lab/env"
)

// What a row says of an argument or a setting is hidden, and so is what is told only by a setting's key, of drivers
// that are not known here.
func TestSpecsNamesAreLearned(t *testing.T) {
	for text, want := range map[string]struct {
		word string
		as   class
	}{
		"x=ssh:zora@vault17.example":         {"vault17.example", hostNames},
		"x=ssh:vault17?user=zora":            {"zora", userNames},
		"x=ssh:far?options=ProxyJump=jump17": {"jump17", hostNames},
		"x=docker:acme/shop":                 {"acme", userNames},
		"x=podman?container=zorasbox":        {"zorasbox", hostNames},
		"x=command?argv=chroot zorasroot":    {"zorasroot", hostNames},
		"x=incus:zorasbox":                   {"zorasbox", hostNames},
		"x=vagrant?machine=zorasvm":          {"zorasvm", hostNames},
		"x=gone:a?user=zora":                 {"zora", userNames},
		"x=gone:a?machine=zorasvm":           {"zorasvm", hostNames},
		"x=gone:a?host=tcp://vault17:2375":   {"vault17", hostNames},
	} {
		s, err := env.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		m := newMask()
		m.learnSpec(&s)
		if got, ok := m.names[want.word]; !ok || got != want.as {
			t.Errorf("%s: %q is %q (%v), want %q", text, want.word, got, ok, want.as)
		}
	}
}
