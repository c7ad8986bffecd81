package qemu

import (
	"context"
	"strings"
	"testing"
	"time"

	"tare/internal/card"
	"tare/internal/guest"
	"tare/internal/record"
)

// TestCardOfACopyInAMachine measures how long a copy in an emulated machine takes to become like its original, after ten
// thousand changes too.
func TestCardOfACopyInAMachine(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "256MiB", "kernel", guest.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "r=rsync")
	v, s := open(t, driver{}, o)
	m := mounted(t, v, "r")
	if m.Err != nil {
		t.Fatal(m.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	if _, err := s.Mount(ctx, m.Order); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	made, err := card.For(ctx, s, &m)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a card of %d lines took %v", len(made), time.Since(began))
	seconds := map[string]float64{}
	for _, p := range made {
		if seconds[p.Name] = p.Seconds; strings.HasPrefix(p.Name, "sync-") {
			t.Logf("%s: %s (%s)", p.Name, p.Answer, p.Detail)
		}
	}
	for _, n := range []string{"sync-scan", "sync-1", "sync-100", "sync-10000"} {
		if seconds[n] <= 0 {
			t.Errorf("%s was not measured", n)
		}
	}
	if seconds["sync-10000"] <= seconds["sync-1"] {
		t.Errorf("10,000 changes take %v s, one takes %v s", seconds["sync-10000"], seconds["sync-1"])
	}
}

// TestCardsOfRealShares makes the cards of mounts whose servers are the real ones. A card that cannot remove what it tried
// out is an error, and the lines that no server here may leave open are answered.
func TestCardsOfRealShares(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "128MiB", "kernel", guest.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "s=smb", "n=nfs?vers=4.2")
	v, s := open(t, driver{}, o)
	for _, m := range v.Mounts() {
		t.Run(m.Name, func(t *testing.T) {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
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
