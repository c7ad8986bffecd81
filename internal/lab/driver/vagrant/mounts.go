package vagrant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	dirs "tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

const (
	// synced is a folder that a project's Vagrantfile declares.
	synced = "synced"
	// vagrantsChoice is the type that Vagrant takes if the Vagrantfile names none.
	vagrantsChoice = "default"
)

// types are the types of folders that a scratch machine can have, with the file systems that the guest then shows. None
// is said of a copy.
var types = []struct {
	name, doc string
	shows     []string
}{
	{"virtualbox", "A shared folder of VirtualBox; fsync does not reach the host's disk.", []string{"vboxsf"}},
	{"nfs", "A folder that Vagrant exports with the host's own NFS server; Vagrant edits /etc/exports for it.",
		[]string{"nfs", "nfs4"}},
	{"smb", "A folder that Vagrant shares with the SMB server of macOS or Windows.", []string{"cifs", "smb3"}},
	{"rsync", "A copy in the guest, made when the machine comes up, one way.", nil},
	{"9p", "A folder shared by QEMU itself over 9p (libvirt).", []string{"9p"}},
	{"virtiofs", "A folder shared by virtiofsd (libvirt).", []string{"virtiofs"}},
	{"sshfs", "A folder of the host that the guest mounts by SFTP (plugin vagrant-sshfs).", []string{"fuse.sshfs"}},
}

func mountKinds() []env.MountKind {
	kinds := []env.MountKind{{
		Name: synced, ArgDoc: "GUESTPATH", ArgNeeds: true, Shared: true,
		Doc:      "A synced folder that the project's Vagrantfile declares, named by its path in the guest.",
		CheckAll: checkPlace(false),
	}, {
		Name: vagrantsChoice, Shared: true, CheckAll: checkPlace(true),
		Doc: "A synced folder of the type that Vagrant chooses for the provider (scratch machines).",
	}}
	options := env.Setting{Name: "options", Doc: "Mount options, separated by commas."}
	for _, t := range types {
		k := env.MountKind{Name: t.name, Doc: t.doc, Shared: true, Sync: t.shows == nil, CheckAll: checkPlace(true)}
		switch t.name {
		case "nfs":
			k.Settings = []env.Setting{
				{Name: "vers", Default: "Vagrant's choice", Doc: "Version of NFS, such as 3 or 4.",
					Check: checkVersion},
				{Name: "proto", Default: "Vagrant's choice", Doc: "tcp or udp; for NFS 3, Vagrant takes udp.",
					Check: env.OneOf("tcp", "udp")}, options}
		case "rsync":
			k.Settings = []env.Setting{{Name: "args", Default: "--verbose,--archive,--delete,-z,--copy-links",
				Doc: "rsync's options, separated by commas, instead of Vagrant's."}}
		default:
			k.Settings = []env.Setting{options}
		}
		kinds = append(kinds, k)
	}
	return append(kinds, dirs.DirKind(false))
}

func checkVersion(v string) error {
	if n, err := strconv.ParseFloat(v, 64); err != nil || n < 2 || n > 5 {
		return fmt.Errorf("%q is not a version of NFS", v)
	}
	return nil
}

// checkPlace says that a kind is one of scratch machines, or of projects.
func checkPlace(scratch bool) func(in, s env.Spec) error {
	return func(in, s env.Spec) error {
		switch made := in.Get("box", "") != ""; {
		case made == scratch:
			return nil
		case scratch:
			return fmt.Errorf("a project has only its Vagrantfile's synced folders: %s:GUESTPATH; to try the "+
				"type %s, use a scratch machine: box=NAME", synced, s.Driver)
		default:
			return errors.New("a scratch machine cannot use a Vagrantfile's folders; name a type, such as rsync or nfs")
		}
	}
}

// declared are the folders that a project's machine has, as mounts.
func declared(_ context.Context, s env.Spec) ([]env.Spec, error) {
	if s.Get("box", "") != "" {
		return nil, nil
	}
	p, err := findProject(s.Arg)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, noProject)
	}
	names := p.machines()
	if m := s.Get("machine", ""); m != "" {
		names = []string{m}
	}
	if len(names) != 1 {
		return nil, nil // opening has the better message
	}
	var specs []env.Spec
	for _, provider := range p.made(names[0]) {
		if want := s.Get("provider", ""); want != "" && want != provider {
			continue
		}
		folders, err := p.folders(names[0], provider)
		if err != nil {
			return nil, err
		}
		for _, f := range folders {
			specs = append(specs, env.Spec{Name: mountName(f.guest, specs), Driver: synced, Arg: f.guest})
		}
	}
	return specs, nil
}

// mountName makes a name of a path in the guest that none of the others has.
func mountName(guest string, others []env.Spec) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.", r) {
			return r
		}
		return '-'
	}, strings.Trim(guest, "/"))
	if name = strings.TrimLeft(name, "-._"); name == "" {
		name = "folder"
	}
	name = name[max(0, len(name)-36):]
	name = strings.TrimLeft(name, "-._")
	for n, base := 2, name; ; n++ {
		if !slices.ContainsFunc(others, func(s env.Spec) bool { return s.Name == name }) {
			return name
		}
		name = base + "-" + strconv.Itoa(n)
	}
}

// checkMounts finds the folders that the run asked for among the machine's, and holds that the guest has them mounted:
// in a folder that is not, the machine's own disk would be measured.
func (m *machine) checkMounts(ctx context.Context) {
	if len(m.opts.Mounts) == 0 {
		return
	}
	folders, err := m.project.folders(m.name, m.maker)
	shown := m.guestMounts(ctx)
	for _, s := range m.opts.Mounts {
		if s.Driver == dirs.Dir {
			m.mounts = append(m.mounts, dirs.Given([]env.Spec{s}, m.opts.Name, false)...)
			continue
		}
		m.mounts = append(m.mounts, m.mounted(s, folders, err, shown))
	}
}

// mounted is one folder.
func (m *machine) mounted(s env.Spec, folders []folder, unread error, shown map[string]string) env.Mounted {
	guest := path.Clean(s.Arg)
	if m.scratch != nil {
		guest = guestFolder(s.Name)
	}
	out := env.Mounted{Name: s.Name, Mount: record.Mount{Kind: s.Driver, Dir: guest, Settings: map[string]string{}}}
	fail := func(op string, err error, remedy string) env.Mounted {
		out.Err = explained(m.opts.Name+":"+s.Name, op, err, remedy)
		return out
	}
	if unread != nil {
		return fail("find synced folder", unread, "bring the machine up anew with `vagrant reload`")
	}
	if m.scratch != nil {
		i := slices.IndexFunc(m.scratch.folders, func(f syncedFolder) bool { return f.spec.Name == s.Name })
		if err := m.scratch.folders[i].err; err != nil {
			out.Err = err
			return out
		}
	}
	i := slices.IndexFunc(folders, func(f folder) bool { return path.Clean(f.guest) == guest })
	if i < 0 {
		var there []string
		for _, f := range folders {
			there = append(there, f.guest)
		}
		return fail("find synced folder", fmt.Errorf("the machine has no synced folder at %s", guest),
			"there are: "+strings.Join(there, ", "))
	}
	f := folders[i]
	out.Mount.HostDir = f.host
	maps.Copy(out.Mount.Settings, f.options)
	maps.Copy(out.Mount.Settings, s.Settings)
	out.Mount.Settings["type"] = f.kind
	if what, ok := notMounted(&f, shown); !ok {
		if m.rise != nil {
			x, _ := errors.AsType[*env.OpenError](m.rise)
			return fail("mount", fmt.Errorf("%s: %w", what, x.Err), x.Remedy)
		}
		return fail("find synced folder in the guest", errors.New(what), "`vagrant reload` mounts the folders again")
	}
	return out
}

// notMounted holds a folder against the guest's mount table; nil if the guest has none to look at.
func notMounted(f *folder, shown map[string]string) (what string, ok bool) {
	if f.kind == "rsync" || shown == nil {
		return "", true
	}
	fs, mounted := shown[path.Clean(f.guest)]
	if !mounted {
		return fmt.Sprintf("the guest has nothing mounted at %s, where a folder of type %s should be", f.guest,
			f.kind), false
	}
	for _, t := range types {
		if t.name == f.kind && !slices.Contains(t.shows, fs) {
			return fmt.Sprintf("the guest shows %s at %s, where a folder of type %s should be", fs, f.guest,
				f.kind), false
		}
	}
	return "", true
}

// guestMounts asks the guest for its mount table; nil if it has none, as systems other than Linux.
func (m *machine) guestMounts(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd, err := ssh.Command(ctx, &m.ssh, "cat", "/proc/self/mounts")
	if err != nil {
		return nil
	}
	out, err := proc.RunCmd(cmd, nil)
	if err != nil {
		return nil
	}
	return parseMounts(out)
}

// parseMounts reads a mount table of Linux: file systems by where they are mounted. The last mount at a place hides the
// others.
func parseMounts(table []byte) map[string]string {
	shown := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) >= 3 {
			at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[1])
			shown[path.Clean(at)] = f[2]
		}
	}
	return shown
}
