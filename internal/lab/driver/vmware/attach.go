package vmware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/driver/serial"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// attachable are the settings of a machine that exists.
var attachable = []string{"product", "vmrun", "boot"}

const (
	listRemedy   = "name the .vmx file of a machine that runs; `vmrun list` shows them"
	serialRemedy = "while it is off, give it a serial port that is a server: serial0.present = \"TRUE\", " +
		"serial0.fileType = \"pipe\", serial0.fileName = \"/tmp/NAME.serial\", serial0.pipe.endPoint = \"server\", " +
		"serial0.tryNoRxLoss = \"TRUE\"; and boot it from the medium of tare guest media"
)

// checkBelongs says which settings do not fit a machine that exists.
func checkBelongs(s *env.Spec) error {
	for k := range s.Settings {
		if !slices.Contains(attachable, k) {
			return fmt.Errorf("%s= is for a machine that tare makes; %s has its own", k, s.Arg)
		}
	}
	return nil
}

// existingMachine is a machine that tare did not make. It is met on its serial line only, and left as it was found.
type existingMachine struct {
	env.Env // by the driver serial
	facts   record.Facts
}

// Facts are those of the line, and those of the .vmx and of VMware's log.
func (e *existingMachine) Facts() record.Facts {
	f := e.Env.Facts()
	f.Hypervisor, f.Threads, f.MemoryBytes = e.facts.Hypervisor, e.facts.Threads, e.facts.MemoryBytes
	f.Settings, f.Command = maps.Clone(e.facts.Settings), slices.Clone(e.facts.Command)
	if f.Extra == nil {
		f.Extra = map[string]string{}
	}
	maps.Copy(f.Extra, e.facts.Extra)
	return f
}

// Diagnose implements env.Diagnoser.
func (e *existingMachine) Diagnose() []byte {
	if d, ok := e.Env.(env.Diagnoser); ok {
		return d.Diagnose()
	}
	return nil
}

// attach connects to the agent in a machine of the user's that runs.
func attach(ctx context.Context, o env.Options) (env.Env, error) {
	fail := func(op string, err error, fix string) (env.Env, error) {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, &env.OpenError{Env: o.Name, Op: op, Err: err, Remedy: cmp.Or(remedy(err), fix)}
	}
	err := checkBelongs(&o.Spec)
	if err != nil {
		return fail("read settings", err, "leave it out; there are: "+strings.Join(attachable, ", "))
	}
	c, err := parse(&env.Spec{Settings: o.Settings})
	if err != nil {
		return fail("read settings", err, "tare list environments shows the settings and their values")
	}
	if len(o.Mounts) > 0 || o.Scratch != "" {
		return fail("read settings", errors.New("a machine that tare did not make gets no disks and folders"),
			"let tare make a machine: vmware, without a path")
	}
	v := vmrun{product: c.product}
	if v.path, err = findVmrun(c.vmrun); err != nil {
		return fail("find VMware", err, installRemedy)
	}
	version, err := v.version(ctx)
	if err != nil {
		return fail("find VMware", err, installRemedy)
	}
	vmx, err := v.running(ctx, o.Arg)
	if err != nil {
		return fail("find the machine", err, listRemedy)
	}
	keys, err := readVMX(vmx)
	if err != nil {
		return fail("read the machine", err, "run tare as the user that uses VMware")
	}
	line, err := keys.line(filepath.Dir(vmx))
	if err != nil {
		return fail("find the serial port", err, serialRemedy)
	}
	e := &existingMachine{facts: record.Facts{Hypervisor: "vmware " + c.product, Settings: map[string]string{},
		Command: v.argv("list"), Extra: keys.facts()}}
	for _, k := range attachable {
		e.facts.Settings[k] = c.shown[k]
	}
	e.facts.Threads, _ = strconv.Atoi(keys["numvcpus"]) // 0 is not known
	if mib, err := strconv.ParseInt(keys["memsize"], 10, 32); err == nil && mib > 0 {
		e.facts.MemoryBytes = mib << 20
	}
	e.facts.Extra["vmrun.version"] = version
	maps.Copy(e.facts.Extra, parseLog((&vm{dir: filepath.Dir(vmx)}).log()))
	o.Spec = env.Spec{Name: o.Name, Driver: "serial", Arg: line, Settings: map[string]string{"wait": c.shown["boot"]}}
	if e.Env, err = serial.Infos()[0].Driver.Open(ctx, o); err != nil {
		return nil, err
	}
	return e, nil
}

// running is the path by which vmrun lists a machine that runs.
func (v vmrun) running(ctx context.Context, path string) (string, error) {
	want, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if want.IsDir() || !strings.EqualFold(filepath.Ext(path), ".vmx") {
		return "", fmt.Errorf("%s is not a .vmx file", path)
	}
	all, err := v.list(ctx)
	if err != nil {
		return "", err
	}
	for _, vmx := range all {
		if got, err := os.Stat(vmx); err == nil && os.SameFile(got, want) {
			return vmx, nil
		}
	}
	return "", fmt.Errorf("the machine %s does not run; start it first: vmrun -T %s start %[1]s nogui", path, v.product)
}

// vmxKeys are the keys of a .vmx, in small letters, and their values.
type vmxKeys map[string]string

// maxVMX bounds a .vmx, which has a few kilobytes.
const maxVMX = 1 << 20

func readVMX(path string) (vmxKeys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxVMX))
	return parseVMXKeys(string(text)), err
}

var escapeRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\|[0-9A-Fa-f]{2}`) })

// parseVMXKeys reads a .vmx. Comments and lines that are no assignment are passed over; of two values the last counts.
func parseVMXKeys(text string) vmxKeys {
	keys := vmxKeys{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if key = strings.ToLower(strings.TrimSpace(key)); !ok || key == "" || strings.HasPrefix(key, "#") {
			continue
		}
		value = strings.TrimSpace(value)
		if rest, quoted := strings.CutPrefix(value, `"`); quoted {
			value, _, _ = strings.Cut(rest, `"`)
		}
		keys[key] = escapeRE().ReplaceAllStringFunc(value, func(e string) string {
			n, _ := strconv.ParseUint(e[1:], 16, 8) // as the expression says
			return string([]byte{byte(n)})
		})
	}
	return keys
}

func (k vmxKeys) on(key string) bool { return strings.EqualFold(k[key], "TRUE") }

// line is where the first serial port ends, in the words of the driver serial.
func (k vmxKeys) line(dir string) (string, error) {
	at := k["serial0.filename"]
	switch kind := strings.ToLower(k["serial0.filetype"]); {
	case !k.on("serial0.present"):
		return "", errors.New("the machine has no first serial port")
	case kind != "pipe" || at == "":
		return "", fmt.Errorf("the machine's first serial port is of type %q, not a pipe", proc.Line(kind))
	case !strings.EqualFold(cmp.Or(k["serial0.pipe.endpoint"], "server"), "server"):
		return "", errors.New("the machine's first serial port is a client, not a server (serial0.pipe.endPoint)")
	case strings.HasPrefix(at, `\\.\pipe\`) || filepath.IsAbs(at):
		return at, nil
	}
	return filepath.Join(dir, at), nil
}

// facts are the properties of a machine that matter to a measurement. Paths, addresses and passwords are left out.
func (k vmxKeys) facts() map[string]string {
	f := map[string]string{}
	for _, key := range []string{"virtualHW.version", "guestOS", "firmware", "numvcpus", "memsize", "scsi0.virtualDev",
		"nvme0.present", "sata0.present", "ethernet0.virtualDev", "ethernet0.connectionType", "ulm.disableMitigations",
		"vhv.enable", "isolation.tools.hgfs.disable"} {
		if v := proc.Line(k[strings.ToLower(key)]); v != "" {
			f["vmx."+key] = strings.ToValidUTF8(v[:min(len(v), 100)], "")
		}
	}
	return f
}
