package schedule

import (
	"context"

	"tare/internal/lab/deploy"
	drivers "tare/internal/lab/driver/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/durability"
)

// flushes completes the records of an environment and of its mounts with the semantics of a flush there: as the
// configuration declares it and, where the run is to try it, as it was seen. It is no part of any trial.
func (d *Drivers) flushes(ctx context.Context, s *deploy.Conn, e *plan.Target, t *Target) error {
	if err := d.flush(ctx, s, e, &t.Record, ""); err != nil {
		return err
	}
	for i := range t.Mounts {
		m := &t.Mounts[i]
		if m.Err != nil {
			continue
		}
		if err := d.flush(ctx, s, e, &m.Record, m.Root); err != nil {
			return err
		}
	}
	return nil
}

func (d *Drivers) flush(ctx context.Context, s *deploy.Conn, e *plan.Target, r *record.Environment, root string) error {
	known := durability.Declared(e.Spec.Driver, r)
	r.Durability = &known
	subject, inMemory, ok := d.subject(s, e, r, root)
	if !ok || !d.Flushes || r.Session > 1 || known.Class == durability.ClassMemory {
		return nil
	}
	tests, err := durability.Examine(ctx, subject)
	if err != nil {
		return err
	}
	if err := s.Release(ctx, durability.Cell); err != nil {
		d.Log.Warn("remove the files of the flush test", "target", r.Name, "error", err)
	}
	known = durability.Conclude(known, tests, inMemory)
	return nil
}

// subject returns the place on this machine where the target's flushes end; ok is false where that is elsewhere, or not
// known.
func (d *Drivers) subject(s *deploy.Conn, e *plan.Target, r *record.Environment,
	root string) (subject durability.Subject, inMemory string, ok bool) {
	if !drivers.Known().Nature(e.Spec.Driver).Files.OnVirtualDisk() {
		return subject, "", false
	}
	subject = durability.Subject{Worker: s, Root: root, Image: durability.Image(r)}
	at := subject.Image
	settings := r.Outside.Settings
	if m := r.Mount; m != nil {
		k := drivers.Known().KindOf(m.Kind)
		if !k.Sync {
			settings = m.Settings
		}
		if !k.Sync && !k.Disk {
			subject.Image, subject.Folder = "", m.HostDir
			at = m.HostDir
		}
	}
	if at == "" {
		return subject, "", false
	}
	if settings["aio"] == "io_uring" || settings["io"] == "io_uring" { // as libvirt calls it
		subject.Hidden = "QEMU flushes through io_uring, where tare cannot watch; use aio=threads"
	}
	return subject, durability.InMemory(at), true
}
