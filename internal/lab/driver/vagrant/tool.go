package vagrant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// tool runs Vagrant in a folder.
type tool struct {
	dir string
	own bool // the folder is tare's, so that what the user says of projects does not apply
	set []string
}

// endTime is the time for a call of Vagrant to end after a signal: it then undoes its changes.
const endTime = 30 * time.Second

// run runs Vagrant and returns its standard output. The error is a *complaint if Vagrant said why it failed.
func (t *tool) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := proc.Command(ctx, append([]string{"vagrant"}, args...)...)
	cmd.Dir, cmd.WaitDelay = t.dir, endTime
	proc.GentleDeath(cmd)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "VAGRANT_CWD" || t.own && slices.Contains([]string{"VAGRANT_DOTFILE_PATH",
			"VAGRANT_VAGRANTFILE", "VAGRANT_DEFAULT_PROVIDER"}, name)
	})
	// It must not ask the network for news, nor colour its output.
	cmd.Env = append(cmd.Env, "VAGRANT_CHECKPOINT_DISABLE=1", "VAGRANT_NO_COLOR=1")
	cmd.Env = append(cmd.Env, t.set...)
	out, err := proc.RunCmd(cmd, nil)
	if err == nil {
		return out, nil
	}
	c := &callError{err: err, argv: args}
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		c.said = x.Stderr
	}
	shown := ""
	for _, l := range parseLines(out) {
		switch {
		case l.kind == "error-exit" && len(l.data) > 1:
			c.class, c.said = l.data[0], strings.TrimSpace(l.data[1]+"\n"+c.said)
		case l.kind == "ui" && len(l.data) > 1:
			shown += l.data[1] + "\n"
		}
	}
	if c.class == "" {
		c.said = strings.TrimSpace(c.said + "\n" + shown + plain(out))
	}
	c.said = proc.Printable([]byte(c.said[max(0, len(c.said)-maxSaid):]))
	return out, c
}

// maxSaid bounds the evidence of one call.
const maxSaid = 32 << 10

// callError is a call of Vagrant that failed.
type callError struct {
	err   error
	argv  []string
	class string // of Vagrant's error: "Vagrant::Errors::MachineNotFound"; "" if it did not say
	said  string
}

func (c *callError) Error() string {
	if kind := c.unknownFolder(); kind != "" {
		return fmt.Sprintf("vagrant %s: this Vagrant has no synced folders of type %s", c.argv[0], kind)
	}
	if name := c.name(); name != "" {
		return fmt.Sprintf("vagrant %s: %s: %s", c.argv[0], name, gist(c.said))
	}
	if c.said == "" {
		return fmt.Sprintf("vagrant %s: %v", c.argv[0], c.err)
	}
	return fmt.Sprintf("vagrant %s: %s", c.argv[0], gist(c.said))
}

func (c *callError) Unwrap() error { return c.err }

// name is the error's without its modules.
func (c *callError) name() string { return c.class[strings.LastIndexByte(c.class, ':')+1:] }

// maxGist bounds the part of Vagrant's words that stands in an error; all of them are evidence.
const maxGist = 300

// early begins what Vagrant says of a Vagrantfile that cannot be loaded.
const early = "Vagrant failed to initialize at a very early stage:"

// reasons come before the words that say why: of a provider that cannot be used, and of a call of docker that failed.
var reasons = []string{"reason is shown below:", "\nStderr: "}

// gist is the beginning of Vagrant's words, in one line, without the callers of what failed.
func gist(said string) string {
	for _, r := range reasons {
		if _, why, ok := strings.Cut(said, r); ok {
			said = why
		}
	}
	var told []string
	for line := range strings.Lines(strings.TrimPrefix(strings.TrimSpace(said), early)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "from /") {
			told = append(told, line)
		}
	}
	text := strings.TrimSuffix(proc.Line(strings.Join(told, "")), " Stdout:")
	if len(text) > maxGist {
		text = strings.ToValidUTF8(text[:maxGist], "") + "..."
	}
	return text
}

// notUp tells whether Vagrant has no way into the machine because it is not up.
func (c *callError) notUp() bool {
	return slices.Contains([]string{"SSHNotReady", "VMNotCreatedError", "VMNotRunningError", "VMInaccessible"},
		c.name())
}

// remedies has the advice on each of Vagrant's errors, by the error's name.
var remedies = map[string]string{
	"VagrantfileSyntaxError": "correct the Vagrantfile; `vagrant validate` checks it",
	"VagrantfileNameError":   "correct the Vagrantfile; `vagrant validate` checks it",
	"VagrantfileLoadError":   "correct the Vagrantfile; `vagrant validate` checks it",
	"VagrantfileTypeError":   "correct the Vagrantfile; `vagrant validate` checks it",
	"ConfigInvalid":          "correct the Vagrantfile; `vagrant validate` checks it",
	"NoEnvironmentError":     noProject,
	"MachineNotFound":        "`vagrant status` in the project lists its machines; choose one with machine=NAME",
	"ProviderNotFound": "install its plugin (`vagrant plugin list` shows what is here), or name another with " +
		"provider=NAME",
	"ProviderNotUsable":        "install and start what the provider drives, or name another with provider=NAME",
	"NoDefaultProvider":        "install a provider, or name one with provider=NAME",
	"BoxNotFound":              "`vagrant box list` shows the boxes that are here; `vagrant box add` gets one",
	"BoxAddShortNotFound":      "`vagrant box list` shows the boxes that are here; `vagrant box add` gets one",
	"BoxAddNoMatchingProvider": "the box is not made for this provider; name another with provider=NAME",
	"BoxProviderDoesntMatch":   "the box is not made for this provider; name another with provider=NAME",
	"BoxMetadataDownloadError": "`vagrant box list` shows the boxes that are here; `vagrant box add` gets one",
	"DownloaderError":          "`vagrant box list` shows the boxes that are here; `vagrant box add` gets one",
	"SyncedFolderUnusable":     "leave out the folder of this type: this provider or this machine cannot do it",
	"SMBNotSupported":          servers["smb"].remedy,
	"CommandUnavailable":       "install the program that Vagrant names, or leave out what needs it",
	"NFSNotSupported":          servers["nfs"].remedy,
	"MachineLocked":            "another vagrant is at work on the machine; wait for it",
	"EnvironmentLocked":        "another vagrant is at work on the project; wait for it",
	"FogLibvirtConnectionError": "libvirtd does not answer: start it (systemctl start libvirtd), and see whether " +
		"`virsh list` works",
	"VMBootTimeout": "the machine did not answer by SSH in time; raise config.vm.boot_timeout, and wait= with it",
	"ExecuteError":  "see whether `docker version` works",
}

// plugins are the plugins of providers and types of folders that Vagrant does not have of its own.
var plugins = map[string]string{
	"libvirt": "vagrant-libvirt", "9p": "vagrant-libvirt", "virtiofs": "vagrant-libvirt", "sshfs": "vagrant-sshfs",
	"parallels": "vagrant-parallels", "qemu": "vagrant-qemu",
	"vmware_desktop": "vagrant-vmware-desktop",
}

// unknownFolder is the type of a synced folder that no plugin of this Vagrant has; "" for other complaints. With some
// plugins, Vagrant stumbles over it before it can say so.
func (c *callError) unknownFolder() string {
	for _, words := range [][2]string{{"The type '", "' is not a valid synced folder type"},
		{"Internal error. Report this as a bug. Invalid: ", " (RuntimeError)"}} {
		_, said, _ := strings.Cut(c.said, words[0])
		if kind, _, ok := strings.Cut(said, words[1]); ok && checkWord(kind) == nil {
			return kind
		}
	}
	return ""
}

// remedy returns the advice on an error; "" if there is none.
func (c *callError) remedy() string {
	provider, _, _ := strings.Cut(strings.TrimPrefix(c.said, "The provider '"), "'")
	switch name := c.name(); {
	case plugins[c.unknownFolder()] != "":
		return fmt.Sprintf("install its plugin: `vagrant plugin install %s`", plugins[c.unknownFolder()])
	case name == "ProviderNotFound" && plugins[provider] != "":
		return fmt.Sprintf("install its plugin: `vagrant plugin install %s`; or name another provider with "+
			"provider=NAME", plugins[provider])
	case name == "ProviderNotUsable" && strings.Contains(c.said, "not supported by this version of Vagrant"):
		return "install one of these versions, or a newer Vagrant; tare's own driver virtualbox does without Vagrant"
	case name == "ExecuteError" && strings.Contains(c.said, "Unable to find image"):
		return "`docker image ls` shows the images that are here; `docker pull` gets one"
	case c.class == "" && strings.Contains(c.said, "Vagrantfile"):
		return remedies["VagrantfileLoadError"] // it failed before it could name its errors
	default:
		return remedies[name]
	}
}

// explained is an *env.OpenError, with the remedy for Vagrant's error if the caller has none, and Vagrant's words.
func explained(name, op string, err error, remedy string) error {
	x := &env.OpenError{Env: name, Op: op, Err: err, Remedy: remedy}
	if c, ok := errors.AsType[*callError](err); ok {
		x.Evidence = []byte(c.said)
		if x.Remedy == "" {
			x.Remedy = c.remedy()
		}
	}
	return x
}

// sshHost is the name of the machine in the configuration that is written for ssh.
const sshHost = "tare-vagrant-machine"

// sshConfig is how to reach one machine.
type sshConfig struct{ machine, text string }

// sshConfig asks how to reach a machine, or all of them.
func (t *tool) sshConfig(ctx context.Context, machine string) ([]sshConfig, error) {
	args := []string{"ssh-config", "--machine-readable"}
	if machine != "" {
		args = append(args, machine)
	}
	out, err := t.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	configs := parseConfigs(out)
	if len(configs) == 0 {
		return nil, &callError{err: errors.New("it gave no configuration for ssh"), argv: args, said: plain(out)}
	}
	return configs, nil
}

// parseConfigs finds the configurations in the output of ssh-config. The name becomes sshHost, and what belongs to the
// driver is left out: where host keys are kept, and how much ssh says of errors.
func parseConfigs(out []byte) (configs []sshConfig) {
	for _, l := range parseLines(out) {
		if l.kind != "ssh-config" || len(l.data) == 0 || checkWord(l.target) != nil {
			continue
		}
		var b strings.Builder
		b.WriteString("Host " + sshHost + "\n")
		for line := range strings.Lines(l.data[0]) {
			key, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), " ")
			switch key {
			case "", "host", "match", "include", "userknownhostsfile", "stricthostkeychecking", "loglevel":
			default:
				b.WriteString("  " + strings.TrimSpace(line) + "\n")
			}
		}
		configs = append(configs, sshConfig{l.target, b.String()})
	}
	return configs
}

// state is one line of `vagrant status`.
type state struct{ name, provider, state, human string }

// status asks for the state of a machine, or of all of them.
func (t *tool) status(ctx context.Context, machine string) ([]state, error) {
	args := []string{"status", "--machine-readable"}
	if machine != "" {
		args = append(args, machine)
	}
	out, err := t.run(ctx, args...)
	return parseStatus(out), err
}

// parseStatus reads the output of status, in its order.
func parseStatus(out []byte) (all []state) {
	at := map[string]int{}
	for _, l := range parseLines(out) {
		if l.target == "" || len(l.data) == 0 {
			continue
		}
		i, ok := at[l.target]
		if !ok {
			i = len(all)
			at[l.target], all = i, append(all, state{name: l.target})
		}
		switch l.kind {
		case "provider-name":
			all[i].provider = l.data[0]
		case "state":
			all[i].state = l.data[0]
		case "state-human-short":
			all[i].human = l.data[0]
		}
	}
	return slices.DeleteFunc(all, func(s state) bool { return s.state == "" })
}

// list names machines with their states.
func list(all []state) string {
	var names []string
	for _, s := range all {
		names = append(names, fmt.Sprintf("%s (%s)", s.name, s.human))
	}
	return strings.Join(names, ", ")
}

// line is a line of Vagrant's machine-readable output: TIME,TARGET,KIND,DATA...
type line struct {
	target, kind string
	data         []string
}

// parseLines reads machine-readable output and passes over everything else.
func parseLines(out []byte) (lines []line) {
	for raw := range bytes.Lines(out) {
		f := strings.Split(strings.TrimRight(proc.Printable(raw), "\n"), ",")
		if len(f) < 3 || f[0] == "" || strings.Trim(f[0], "0123456789") != "" {
			continue
		}
		l := line{target: f[1], kind: f[2]}
		for _, d := range f[3:] {
			l.data = append(l.data, unescape().Replace(d))
		}
		lines = append(lines, l)
	}
	return lines
}

// unescape turns what Vagrant wrote as one field back into its text.
var unescape = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("%!(VAGRANT_COMMA)", ",", `\n`, "\n", `\r`, "")
})

// plain returns the lines of an output that are not machine-readable.
func plain(out []byte) string {
	var b strings.Builder
	for raw := range bytes.Lines(out) {
		if len(parseLines(raw)) == 0 {
			b.Write(raw)
		}
	}
	return b.String()
}
