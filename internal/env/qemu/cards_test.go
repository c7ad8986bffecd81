//go:build linux

package qemu

import (
	"context"
	"testing"
	"time"

	"tare/internal/card"
	"tare/internal/guest"
	"tare/internal/record"
)

// TestCardsOfRealShares makes the cards of mounts whose servers are the real ones. A card that cannot remove what it tried
// out is an error, and the lines that no server here may leave open are answered.
func TestCardsOfRealShares(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "128MiB", "kernel", guest.Generic, "boot", "2m"))
	o.Mounts = mountSpecs(t, "s=smb", "n=nfs?vers=4.2")
	v, s := open(t, driver{}, o)
	for _, m := range v.Mounts() {
		t.Run(m.Name, func(t *testing.T) {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			got, err := s.Mount(ctx, m.Order)
			if err != nil {
				t.Fatal(err)
			}
			m.Mount.Type = got.Type
			began := time.Now()
			made, err := card.For(ctx, s, &m)
			if err != nil {
				t.Errorf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
			}
			t.Logf("a card of %d lines took %v", len(made), time.Since(began))
			answers := map[string]record.Property{}
			for _, p := range made {
				answers[p.Name] = p
				t.Logf("%s: %s (%s)", p.Name, p.Answer, p.Detail)
			}
			for _, name := range []string{"symlink", "o-excl", "rename-open", "flock", "lag-create", "attr-cache"} {
				if p, ok := answers[name]; !ok || p.Answer == "untested" {
					t.Errorf("%s: %+v", name, p)
				}
			}
		})
	}
}
