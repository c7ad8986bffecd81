package vagrant

import (
	"context"
	"errors"
	"slices"
	"strings"

	"tare/internal/lab/env"
)

// raise brings the machine up and notes before how it was found.
func (m *machine) raise(ctx context.Context) error {
	if m.scratch != nil {
		return m.raiseScratch(ctx)
	}
	fail := func(op string, err error) error { return explained(m.opts.Name, op, err, "") }
	all, err := m.tool.status(ctx, m.name)
	if err != nil {
		return fail("ask vagrant for the machine's state", err)
	}
	if len(all) != 1 {
		return m.several(ctx)
	}
	m.name = all[0].name
	undo := []string{"halt", m.name}
	switch all[0].state {
	case "running":
		return nil // and the second question for ssh-config says what it lacks
	case "not_created":
		undo = []string{"destroy", "--force", m.name}
	case "saved", "suspended", "paused":
		undo = []string{"suspend", m.name}
	}
	if m.note, err = newNote(m.opts.RunID, m.project.root); err == nil {
		err = m.note.promise(undo...)
	}
	if err != nil {
		return fail("note what has to be undone", err)
	}
	if _, err := m.tool.run(ctx, m.up(m.name)...); err != nil {
		return fail("bring the machine up", err)
	}
	return nil
}

// up is the call that brings a machine up.
func (m *machine) up(more ...string) []string {
	args := []string{"up", "--machine-readable"}
	if p := m.opts.Get("provider", ""); p != "" {
		args = append(args, "--provider", p)
	}
	return append(args, more...)
}

// raiseScratch brings the scratch machine up. A type of folder that Vagrant refuses is left out. A machine that is up
// though Vagrant could not mount a folder in it is kept: checkMounts finds what is missing.
func (m *machine) raiseScratch(ctx context.Context) error {
	if err := m.note.promise("destroy", "--force"); err != nil {
		return explained(m.opts.Name, "note what has to be undone", err, "")
	}
	for {
		_, err := m.tool.run(ctx, m.up("--no-provision", "--no-destroy-on-error")...)
		if err == nil {
			return nil
		}
		m.note.stopped = ctx.Err() != nil
		failed := explained(m.opts.Name, "bring the machine up", err, "")
		c, ok := errors.AsType[*callError](err)
		if ctx.Err() != nil || !ok || len(m.scratch.folders) == 0 {
			return failed
		}
		made := len(m.project.machines()) > 0
		if made {
			if _, err := m.tool.sshConfig(ctx, m.name); err == nil {
				m.rise = failed
				return nil
			}
		}
		if !m.scratch.leaveOut(m.opts.Name, c) {
			return failed
		}
		if made {
			if _, err := m.tool.run(ctx, m.note.Undo...); err != nil {
				return failed
			}
		}
		if err := m.scratch.write(); err != nil {
			return explained(m.opts.Name, "write the Vagrantfile", err, "")
		}
	}
}

// servers are the types of folders for which Vagrant wants a server on this machine: words in its complaints that there
// is none, besides the type, and what to do.
var servers = map[string]struct {
	words  []string
	remedy string
}{
	"nfs": {[]string{"modinfo", "exportfs", "nfsd", "NFS"}, "install an NFS server on this machine (apt-get install " +
		"nfs-kernel-server kmod sudo), or leave out the folder"},
	"smb": {[]string{"SMB"}, "leave out the folder: Vagrant shares by SMB from macOS and Windows only; Samba on " +
		"Linux is measured with tare's own mount, -e vm=qemu -m vm:smb"},
}

// leaveOut leaves out the folders of the type that Vagrant complains of; false if there is none.
func (s *scratch) leaveOut(name string, c *callError) bool {
	words := strings.FieldsFunc(c.said, func(r rune) bool { return strings.ContainsRune(" '\"`\n.:,", r) })
	found := false
	for i := range s.folders {
		f := &s.folders[i]
		kind := f.spec.Driver
		if f.err == nil && (slices.Contains(words, kind) || strings.HasPrefix(strings.ToLower(c.name()), kind) ||
			slices.ContainsFunc(servers[kind].words, func(n string) bool { return slices.Contains(words, n) })) {
			f.err, found = explained(name+":"+f.spec.Name, "make folder", c, servers[kind].remedy), true
		}
	}
	return found
}

// undo leaves the machine as it was found and removes the run's folders and files. It may be called again.
func (m *machine) undo() error {
	if m.note == nil {
		return nil
	}
	if err := m.note.undo(context.Background()); err != nil {
		return &env.OpenError{Env: m.opts.Name, Op: "leave the machine as it was", Err: err,
			Remedy: "`tare clean` tries again"}
	}
	m.note = nil
	return nil
}
