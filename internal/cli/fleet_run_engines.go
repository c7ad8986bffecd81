package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/run/dispatch"
	"tare/internal/run/inventory"
	"tare/internal/suggest"
	"tare/internal/sys/sbatch"
)

// engine fills in what runs the parts. c.Hosts are none where a run goes on.
func (cmd *fleetRunCommand) engine(ctx context.Context, c *dispatch.Config, p *plan.Plan, src []byte) error {
	there, others, err := cmd.programs()
	if err != nil {
		return err
	}
	switch cmd.on {
	case onSlurm:
		return cmd.slurmEngine(c, p, src, there, others)
	case onSSH:
		if there != "" {
			return usagef("--tare %s: by ssh it is OS/ARCH=FILE, a tare for hosts of that platform", there)
		}
		return cmd.sshEngine(c, src, others)
	}
	if len(others) > 0 {
		return usagef("--tare: on Kubernetes it is a path in the image; for nodes of several platforms make an image " +
			"for all of them")
	}
	return cmd.kubernetesEngine(ctx, c, src, there)
}

// programs reads --tare: where the program is on the hosts already, and files for hosts of other platforms.
func (cmd *fleetRunCommand) programs() (there string, others map[deploy.Platform]string, err error) {
	others = map[deploy.Platform]string{}
	for _, value := range cmd.tare {
		platform, file, ok := strings.Cut(value, "=")
		goos, arch, isPlatform := strings.Cut(platform, "/")
		if !ok || !isPlatform || goos == "" {
			if there != "" {
				return "", nil, usagef("--tare: %s and %s cannot both be the program there", there, value)
			}
			there = value
			continue
		}
		p := deploy.Platform{OS: goos, Arch: arch}
		if !slices.Contains([]string{"linux", "darwin", "freebsd"}, goos) ||
			!slices.Contains([]string{"amd64", "arm64", "riscv64"}, arch) {
			return "", nil, usagef("--tare %s: there is no platform %s for hosts of a fleet: linux/amd64, "+
				"linux/arm64, linux/riscv64, darwin/arm64, freebsd/amd64", value, p)
		}
		if err := isFor(p, file); err != nil {
			return "", nil, usagef("--tare %s: %v", value, err)
		}
		if others[p], err = filepath.Abs(file); err != nil {
			return "", nil, err
		}
	}
	if there != "" && len(others) > 0 {
		return "", nil, usagef("--tare: either a path on the hosts or files for their platforms")
	}
	return there, others, nil
}

// elfMachines are the numbers of processors in an ELF file, by GOARCH.
var elfMachines = map[string]uint16{"amd64": 62, "arm64": 183, "riscv64": 243}

// isFor returns the reason why a file is no program for a platform, as far as its first bytes tell.
func isFor(p deploy.Platform, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 20)
	if _, err := io.ReadFull(f, head); err != nil {
		return fmt.Errorf("it is no program: %w", err)
	}
	if p.OS == "darwin" {
		return nil
	}
	if string(head[:4]) != "\x7fELF" {
		return fmt.Errorf("it is no program for %s", p)
	}
	machine := binary.LittleEndian.Uint16(head[18:])
	if machine != elfMachines[p.Arch] {
		for arch, m := range elfMachines {
			if m == machine {
				return fmt.Errorf("it is for %s", arch)
			}
		}
		return fmt.Errorf("it is for another processor than %s", p.Arch)
	}
	return nil
}

// knownHosts are the hosts of a run with how they are reached, also of one that goes on.
func knownHosts(c *dispatch.Config) (hosts, specs []string, err error) {
	if len(c.Hosts) > 0 {
		return c.Hosts, c.Specs, nil
	}
	s, err := dispatch.ReadState(c.Dir)
	if err != nil {
		return nil, nil, err
	}
	for i := range s.Parts {
		hosts, specs = append(hosts, s.Parts[i].Host), append(specs, s.Parts[i].Spec)
	}
	return hosts, specs, nil
}

func (cmd *fleetRunCommand) slurmEngine(c *dispatch.Config, p *plan.Plan, src []byte, there string,
	others map[deploy.Platform]string) error {
	args, err := cmd.sbatchArgs(p)
	if err != nil {
		return err
	}
	if cmd.local != "" && !filepath.IsAbs(cmd.local) {
		return usagef("--local %s: a folder of the nodes is a whole path, from / on", cmd.local)
	}
	for p := range others {
		if p.OS != "linux" {
			return usagef("--tare %s: nodes of Slurm are linux", p)
		}
	}
	e := &dispatch.Slurm{ID: c.ID, Work: filepath.Join(c.Dir, dispatch.WorkDir), Local: cmd.local, Args: args}
	c.Every = cmp.Or(cmd.every, 5*time.Second)
	c.Engine = e
	c.Prepare = func(work string, s *dispatch.State) error {
		programs := dispatch.Programs{"": there}
		if there == "" {
			copies, err := cmd.copyPrograms(work, others)
			if err != nil {
				return err
			}
			programs = copies
		}
		if err := os.WriteFile(filepath.Join(work, "plan.yaml"), src, 0o644); err != nil {
			return err
		}
		return e.Prepare(work, programs, len(s.Parts))
	}
	return nil
}

// budgetShare is the part of a job's time limit beyond the plan's budget, which covers all that the part does but its
// start and its end.
const budgetShare = 5 * time.Minute

// sbatchArgs are the arguments for sbatch: those of --sbatch, and of the plan's section slurm what they do not say.
// Without a time limit in either, one follows from the plan's budget.
func (cmd *fleetRunCommand) sbatchArgs(p *plan.Plan) ([]string, error) {
	var args []string
	for _, value := range cmd.sbatch {
		name, isFile := strings.CutPrefix(value, "@")
		if !isFile {
			args = append(args, value)
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--sbatch: %w", err)}
		}
		lines, err := sbatch.Lines(src)
		if err != nil {
			return nil, usagef("--sbatch %s: %v", value, err)
		}
		args = append(args, lines...)
	}
	if err := sbatch.Check(args); err != nil {
		hint := ""
		if word, ok := sbatch.Stray(args); ok && slices.Contains(cmd.sbatch, word) {
			hint = fmt.Sprintf("; did you mean --sbatch @%s, for the #SBATCH lines of that script?", word)
		}
		return nil, usagef("--sbatch: %v%s", err, hint)
	}
	// Of an option that is there twice, the last counts.
	args = append(p.Slurm.Arguments(sbatch.Names(args)), args...)
	if p.Budget > 0 && !slices.Contains(sbatch.Names(args), "time") {
		limit := (p.Budget + p.Budget/10 + budgetShare + time.Minute - 1) / time.Minute
		args = append(args, fmt.Sprintf("--time=%d", limit))
	}
	return args, nil
}

// copyPrograms puts this program, and those for other processors, into the work folder, and returns their paths there
// as the jobs' script has them.
func (cmd *fleetRunCommand) copyPrograms(work string, others map[deploy.Platform]string) (dispatch.Programs, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	files := map[string]string{runtime.GOARCH: own}
	for p, file := range others {
		files[p.Arch] = file
	}
	programs := dispatch.Programs{}
	for arch, file := range files {
		name := "tare"
		if arch != runtime.GOARCH {
			name += "-" + arch
		}
		to := filepath.Join(work, name)
		if err := copyProgram(file, to); err != nil {
			return nil, err
		}
		if programs[arch] = to; cmd.local != "" {
			programs[arch] = "./" + name
		}
	}
	return programs, nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := writeWhole(to, func(w io.Writer) error { _, err := io.Copy(w, in); return err }); err != nil {
		return err
	}
	return os.Chmod(to, 0o755)
}

func (cmd *fleetRunCommand) sshEngine(c *dispatch.Config, src []byte, others map[deploy.Platform]string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	hosts, specs, err := knownHosts(c)
	if err != nil {
		return err
	}
	programs := map[deploy.Platform]string{{OS: runtime.GOOS, Arch: runtime.GOARCH}: own}
	maps.Copy(programs, others)
	e := &dispatch.SSH{ID: c.ID, Dir: c.Dir, Tare: programs, Plan: src, Parts: len(hosts), Specs: map[int]env.Spec{}}
	for i, h := range hosts {
		text := "ssh:" + h
		if i < len(specs) && specs[i] != "" {
			text = specs[i]
		}
		if text = "host=" + text; cmd.ssh != "" {
			text += map[bool]string{true: "&", false: "?"}[strings.Contains(text, "?")] + cmd.ssh
		}
		spec, err := env.ParseSpec(text)
		if err == nil {
			err = cmd.drivers.Check(spec)
		}
		if err == nil {
			_, err = ssh.Command(context.Background(), &spec, "true") // it is not run: its words are checked
		}
		if err != nil {
			return usagef("host %s: %v", h, err)
		}
		e.Specs[i+1] = spec
	}
	c.Engine, c.AtOnce, c.Together = e, cmd.atOnce, 16
	c.Every = cmp.Or(cmd.every, 20*time.Second)
	c.Prepare = func(string, *dispatch.State) error { return nil }
	return nil
}

// kubernetesEngine sets up Jobs. What is wrong with one is found before any is asked for.
func (cmd *fleetRunCommand) kubernetesEngine(ctx context.Context, c *dispatch.Config, src []byte, tare string) error {
	if len(src) > dispatch.MaxKubePlan {
		return usagef("the plan has %d KiB, and a Job carries at most %d", len(src)>>10, dispatch.MaxKubePlan>>10)
	}
	hosts, _, err := knownHosts(c)
	if err != nil {
		return err
	}
	e := &dispatch.Kubernetes{ID: c.ID, Dir: c.Dir, Plan: src, Parts: len(hosts), Image: cmd.image,
		Tare: cmp.Or(tare, "tare"), Args: cmd.kubectl}
	if cmd.volume != "" {
		if e.Volume, err = dispatch.ParseVolume(cmd.volume); err != nil {
			return usagef("--volume %s: %v", cmd.volume, err)
		}
	}
	if cmd.pod != "" {
		template, err := os.ReadFile(cmd.pod)
		if err != nil {
			return usageError{fmt.Errorf("--pod: %w", err)}
		}
		if e.Template, err = dispatch.ParseTemplate(template); err != nil {
			return usagef("--pod %s: %v", cmd.pod, err)
		}
	}
	if err := e.Check(); err != nil {
		return usageError{err}
	}
	c.Engine, c.Together = e, 4
	c.Every = cmp.Or(cmd.every, 10*time.Second)
	c.Prepare = func(_ string, s *dispatch.State) error { return e.Try(ctx, &s.Parts[0]) }
	return nil
}

// begun reads the fleet's id from its folder, or makes one, and the hosts with how they are reached. These are none
// where a run goes on and its own count.
func (cmd *fleetRunCommand) begun(ctx context.Context, dir string) (id string, hosts, specs []string, err error) {
	s, err := dispatch.ReadState(dir)
	switch {
	case err == nil:
		if id = s.ID; cmd.hosts == "" {
			return id, nil, nil, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", nil, nil, err
	default:
		if !dispatch.Vacant(dir) {
			return "", nil, nil, usagef("-o %s: the folder is not empty, and no fleet's run is in it; choose another",
				cmd.dir)
		}
		id = newRunID()
	}
	switch cmd.on {
	case onSSH:
		hosts, specs, err = cmd.sshHosts(ctx)
		return id, hosts, specs, err
	case onKubernetes:
		hosts, err = cmd.kubernetesHosts(ctx)
		return id, hosts, nil, err
	}
	_, isFile, err := hostsFile(cmd.hosts)
	if err != nil {
		return "", nil, nil, err
	}
	if isFile || strings.Contains(cmd.hosts, ",") && !strings.Contains(cmd.hosts, "[") {
		hosts, err = hostList(cmd.hosts)
		return id, hosts, nil, err
	}
	hosts, err = dispatch.SlurmHosts(ctx, cmd.hosts)
	if err != nil {
		return "", nil, nil, fmt.Errorf("ask Slurm for the nodes: %w", err)
	}
	if len(hosts) == 0 {
		return "", nil, nil, usagef("Slurm knows no nodes")
	}
	return id, hosts, nil, nil
}

// anyNode selects all nodes: each has this label.
const anyNode = "kubernetes.io/hostname"

// kubernetesHosts are the nodes that --hosts names, or those that --selector means.
func (cmd *fleetRunCommand) kubernetesHosts(ctx context.Context) ([]string, error) {
	if cmd.hosts == "" {
		nodes, err := dispatch.KubeNodes(ctx, cmd.kubectl, cmd.selector)
		if err != nil {
			if strings.Contains(err.Error(), "Forbidden") {
				return nil, fmt.Errorf("ask Kubernetes for the nodes: %w; name them with --hosts", err)
			}
			return nil, fmt.Errorf("ask Kubernetes for the nodes: %w", err)
		}
		var hosts []string
		for _, n := range nodes {
			if n.OS != "linux" && n.OS != "" {
				fmt.Fprintf(cmd.err, "left out   %s: its system is %s, and parts run on linux\n", printableLine(n.Name),
					printableLine(n.OS))
				continue
			}
			hosts = append(hosts, n.Name)
		}
		if len(hosts) == 0 {
			return nil, usagef("Kubernetes has no such nodes for work; name them with --hosts, or by their labels " +
				"with --selector")
		}
		return hosts, nil
	}
	if cmd.selector != "" {
		return nil, usagef("either --hosts or --selector says which nodes")
	}
	hosts, err := hostList(cmd.hosts)
	if err != nil {
		return nil, err
	}
	nodes, err := dispatch.KubeNodes(ctx, cmd.kubectl, anyNode)
	if err != nil {
		if strings.Contains(err.Error(), "Forbidden") {
			return hosts, nil // who may not see the nodes may know their names
		}
		return nil, fmt.Errorf("ask Kubernetes for the nodes: %w", err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	for _, h := range hosts {
		if !slices.Contains(names, h) {
			return nil, usagef("--hosts: Kubernetes has no node %q%s", h, suggest.DidYouMean(h, names))
		}
	}
	return hosts, nil
}

// sshHosts reads --hosts: a list, a file with one host on each line, or an inventory of Ansible's.
func (cmd *fleetRunCommand) sshHosts(ctx context.Context) (hosts, specs []string, err error) {
	if cmd.hosts == "" {
		return nil, nil, usagef("--hosts is missing: name them, or a file with one on each line, or an inventory of " +
			"Ansible's")
	}
	list, err := cmd.inventory(ctx)
	if err != nil {
		return nil, nil, err
	}
	if list == nil {
		if cmd.group != "" {
			return nil, nil, usagef("--group: %s is no inventory: it has no groups", cmd.hosts)
		}
		hosts, err = hostList(cmd.hosts)
		return hosts, nil, err
	}
	for _, h := range list {
		spec := env.Spec{Driver: onSSH, Arg: h.Address, Settings: map[string]string{}}
		if h.User != "" {
			spec.Settings["user"] = h.User
		}
		if h.Port != 0 {
			spec.Settings["port"] = strconv.Itoa(h.Port)
		}
		if h.Key != "" {
			spec.Settings["identity"] = cmd.keyFile(h.Key)
		}
		hosts, specs = append(hosts, h.Name), append(specs, spec.String())
	}
	return hosts, specs, nil
}

// inventory reads the inventory that --hosts names; nil where it is a list of hosts.
func (cmd *fleetRunCommand) inventory(ctx context.Context) (list []inventory.Host, err error) {
	if cmd.ansible {
		src, err := inventory.Ansible(ctx, cmd.hosts, cmd.plays)
		if err == nil {
			list, err = inventory.ParseJSON(src, cmd.group)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("inventory %s, by ansible-inventory: %w", cmd.hosts, err)}
		}
		return list, nil
	}
	src, isFile, err := hostsFile(cmd.hosts)
	if err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	yaml := strings.HasSuffix(cmd.hosts, ".yaml") || strings.HasSuffix(cmd.hosts, ".yml")
	switch {
	case !isFile:
		return nil, nil
	case bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) && !yaml:
		list, err = inventory.ParseJSON(src, cmd.group)
	case yaml || bytes.ContainsAny(src, "[=") || bytes.HasPrefix(src, []byte("#!")):
		list, err = inventory.Parse(src, yaml, cmd.group, os.DirFS(filepath.Dir(cmd.hosts)),
			os.DirFS(cmd.plays))
	default:
		return nil, nil
	}
	switch {
	case errors.Is(err, inventory.ErrAnsible):
		return nil, usagef("inventory %s: %v; --ansible has ansible-inventory do it, which runs it", cmd.hosts, err)
	case err != nil:
		return nil, usagef("inventory %s: %v", cmd.hosts, err)
	}
	return list, nil
}

// keyFile is a path as an inventory has it, made whole.
func (cmd *fleetRunCommand) keyFile(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
