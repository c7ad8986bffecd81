package qemu

import (
	"context"
	"slices"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/record"
	"tare/internal/run/semantics"
)

// answered makes the card of a mount and requires that the given lines have answers. A card has about twenty seconds,
// that of a copy a minute. On a busy machine some lines may have no answer in that time; the card is then made again
// with more time, as a user would do.
func answered(t *testing.T, v *vm, s *deploy.Conn, m *env.Mounted, names ...string) map[string]record.Property {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	budgets := []time.Duration{0, time.Minute, 3 * time.Minute}
	for again := range budgets {
		began := time.Now()
		made, err := semantics.For(ctx, s, m, budgets[again])
		if err != nil {
			t.Fatalf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
		}
		t.Logf("a card of %d lines took %v", len(made), time.Since(began))
		answers := map[string]record.Property{}
		for _, p := range made {
			answers[p.Name] = p
			t.Logf("%s: %s (%s)", p.Name, p.Answer, p.Detail)
		}
		unanswered := slices.DeleteFunc(slices.Clone(names),
			func(n string) bool { return answers[n].Answer != "" && answers[n].Answer != "untested" })
		if len(unanswered) == 0 || again == len(budgets)-1 {
			for _, n := range unanswered {
				t.Errorf("%s: %+v", n, answers[n])
			}
			return answers
		}
	}
	return nil
}

// TestCardOfACopyInAMachine measures how long a copy in an emulated machine takes to become equal to its original, also
// after ten thousand changes.
func TestCardOfACopyInAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "256MiB", "kernel", microvm.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "r=rsync")
	v, s := open(t, driver{}, o)
	m := mounted(t, v, "r")
	if m.Err != nil {
		t.Fatal(m.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Mount(ctx, m.Order); err != nil {
		t.Fatal(err)
	}
	names := []string{"sync-scan", "sync-1", "sync-100", "sync-10000"}
	answers := answered(t, v, s, &m, names...)
	for _, n := range names {
		if answers[n].Seconds <= 0 {
			t.Errorf("%s was not measured", n)
		}
	}
	if many, one := answers["sync-10000"].Seconds, answers["sync-1"].Seconds; many <= one {
		t.Errorf("10,000 changes take %v s, one takes %v s", many, one)
	}
}

// TestCardsOfRealShares makes the cards of mounts with real servers. It is an error if a card cannot remove its test
// files, or if a line has no answer that every server here can give.
func TestCardsOfRealShares(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "128MiB", "kernel", microvm.Generic, "boot", "3m"))
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
			answered(t, v, s, &m, "symlink", "o-excl", "rename-open", "flock", "lag-create", "attr-cache")
		})
	}
}
