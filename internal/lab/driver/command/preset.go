package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/remote"
	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// preset is a program that runs commands in instances that it manages. The presets follow the programs' manuals. Their
// command lines are tested; the programs themselves have not been run yet.
type preset struct {
	name     string
	program  string
	arg      string // name of the argument
	doc      string
	settings []env.Setting
	// argv is the command line for an instance, up to the words to run.
	argv    func(instance string, o *env.Spec) []string
	version []string // command line for the probe
	install string   // how to install it
	start   string   // how to start an instance, with %s for its name
}

var presets = []preset{{
	name: "lima", program: "limactl", arg: "INSTANCE",
	doc: "A Lima virtual machine, through limactl shell.",
	// The host's working directory does not exist in every instance.
	argv: func(i string, _ *env.Spec) []string {
		return []string{"limactl", "shell", "--workdir", "/", i}
	},
	version: []string{"limactl", "--version"}, install: "install Lima: https://lima-vm.io", start: "limactl start %s",
}, {
	name: "wsl", program: "wsl.exe", arg: "DISTRO",
	doc: "A distribution of the Windows Subsystem for Linux, through wsl.exe.",
	// With -- the words would pass through the distribution's shell; --exec runs them unchanged.
	argv: func(i string, _ *env.Spec) []string {
		return []string{"wsl.exe", "--distribution", i, "--cd", "/", "--exec"}
	},
	version: []string{"wsl.exe", "--version"}, install: "wsl --install, in an administrator's PowerShell",
	start: "wsl --install %s",
}, {
	name: "multipass", program: "multipass", arg: "NAME",
	doc: "A Multipass virtual machine, through multipass exec.",
	argv: func(i string, _ *env.Spec) []string {
		return []string{"multipass", "exec", "--no-map-working-directory", i, "--"}
	},
	version: []string{"multipass", "version"}, install: "install Multipass: snap install multipass",
	start: "multipass start %s",
}, {
	name: "incus", program: "incus", arg: "NAME",
	doc: "An Incus container or virtual machine, through incus exec.",
	// -T: no terminal, because that would change line ends in the protocol.
	argv: func(i string, _ *env.Spec) []string {
		return []string{"incus", "exec", "-T", i, "--"}
	},
	version: []string{"incus", "--version"}, install: "apt-get install incus", start: "incus start %s",
}, {
	name: "kubectl", program: "kubectl", arg: "POD",
	doc: "A container of a running Kubernetes pod, through kubectl exec.",
	settings: []env.Setting{
		{Name: "namespace", Default: "the context's", Doc: "Kubernetes namespace of the pod.", Check: checkInstance,
			Names: env.NamesInstance},
		{Name: "container", Default: "the pod's first", Doc: "Container of the pod.", Check: checkInstance,
			Names: env.NamesInstance},
		{Name: "context", Default: "the current one", Doc: "Context of the kubeconfig file.", Check: checkInstance,
			Names: env.NamesInstance},
	},
	argv: func(i string, s *env.Spec) []string {
		argv := []string{"kubectl"}
		for _, flag := range []string{"context", "namespace"} {
			if v := s.Get(flag, ""); v != "" {
				argv = append(argv, "--"+flag, v)
			}
		}
		argv = append(argv, "exec", "--stdin", i)
		if c := s.Get("container", ""); c != "" {
			argv = append(argv, "--container", c)
		}
		return append(argv, "--")
	},
	version: []string{"kubectl", "version", "--client"},
	install: "install kubectl: https://kubernetes.io/docs/tasks/tools", start: "kubectl get pod %s",
}}

// instanceRE accepts only names that cannot be taken for an option.
var instanceRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,252}$`)
})

func checkInstance(v string) error {
	if !instanceRE().MatchString(v) {
		return fmt.Errorf("%q is not a name: letters, digits and _.:/@- only, beginning with a letter or digit", v)
	}
	return nil
}

func (p *preset) info() env.Info {
	return env.Info{
		Name: p.name, Doc: p.doc, ArgDoc: p.arg, ArgNeeds: true,
		Settings: slices.Concat(p.settings, common),
		Mounts:   []env.MountKind{folder.DirKind(false)},
		Driver:   presetDriver{p},
		Nature:   env.Nature{Arg: env.NamesInstance},
		Probe:    p.probe,
	}
}

func (p *preset) probe(ctx context.Context) env.Status {
	if isMissing(p.program) {
		return env.Status{Detail: p.program + " is not installed", Remedy: p.install}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := proc.Run(ctx, nil, p.version...)
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: "run " + strings.Join(p.version, " ") + " to see what is wrong"}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(proc.Printable(out)), "\n")
	return env.Status{OK: true, Detail: line}
}

type presetDriver struct{ *preset }

// Open puts an agent into the instance, which must be running.
func (d presetDriver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	if err := checkInstance(o.Arg); err != nil {
		return nil, &env.OpenError{Env: o.Name, Op: "read argument", Err: err, Remedy: "write " + d.name + ":" + d.arg}
	}
	t := target(o)
	t.Argv = join(d.argv(o.Arg, &o.Spec))
	t.Explain = func(err error, said string) (string, error) {
		if isMissing(d.program) {
			return d.install, fmt.Errorf("%s is not installed", d.program)
		}
		return "check that it exists and runs: " + fmt.Sprintf(d.start, o.Arg), err
	}
	return remote.Open(ctx, t)
}
