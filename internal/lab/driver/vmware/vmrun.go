package vmware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

const installRemedy = "install VMware Workstation or Fusion, which have vmrun; Player needs VMware's VIX as well; " +
	"or name the program with vmrun=PATH"

// usual are the places of vmrun that are not in PATH.
var usual = map[string][]string{
	"darwin": {"/Applications/VMware Fusion.app/Contents/Library/vmrun",
		"/Applications/VMware Fusion.app/Contents/Public/vmrun"},
	"windows": {`C:\Program Files (x86)\VMware\VMware Workstation\vmrun.exe`,
		`C:\Program Files\VMware\VMware Workstation\vmrun.exe`, `C:\Program Files (x86)\VMware\VMware VIX\vmrun.exe`},
}

// findVmrun finds the program; path "" means to search.
func findVmrun(path string) (string, error) {
	if path != "" {
		found, err := proc.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s is not a program", path)
		}
		return filepath.Abs(found)
	}
	for _, p := range append([]string{"vmrun"}, usual[runtime.GOOS]...) {
		if found, err := proc.LookPath(p); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", errors.New("vmrun is not installed")
}

// vmrun is VMware's program for one product.
type vmrun struct {
	path    string
	product string // "ws", "fusion", "player"
}

// callTime bounds a call. Starting and stopping a machine may take as long as the product's own timeout.
const callTime = 3 * time.Minute

// argv is the command line of a call.
func (v vmrun) argv(words ...string) []string {
	return append([]string{v.path, "-T", v.product}, words...)
}

// run makes a call and returns what it printed. vmrun prints errors to standard output, as "Error: ...".
func (v vmrun) run(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := proc.WithTimeout(ctx, callTime)
	defer cancel()
	argv := v.argv(words...)
	out, err := proc.Run(ctx, nil, argv...)
	text := proc.Printable(out)
	if message := errorLine(text); message != "" {
		// Some versions print an error and exit with 0.
		return text, &callError{argv: argv, message: message}
	}
	if err != nil {
		return text, fmt.Errorf("vmrun %s: %w", words[0], err)
	}
	return text, nil
}

// callError is the message of a call of vmrun that failed.
type callError struct {
	argv    []string
	message string
}

func (e *callError) Error() string { return "vmrun says: " + e.message }

// errorLine is the message in vmrun's output; "" if there is none.
func errorLine(text string) string {
	for line := range strings.Lines(text) {
		if m, ok := strings.CutPrefix(strings.TrimSpace(line), "Error: "); ok {
			return m
		}
	}
	return ""
}

var versionRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^vmrun version ([0-9][0-9A-Za-z. -]{0,60})\r?$`)
})

// version asks for vmrun's version: without a command it prints that and its usage, and fails.
func (v vmrun) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := proc.Run(ctx, nil, v.path)
	if m := versionRE().FindStringSubmatch(string(out)); m != nil {
		return m[1], nil
	}
	if err != nil {
		return "", fmt.Errorf("ask vmrun for its version: %w", err)
	}
	return "", fmt.Errorf("%s does not say that it is vmrun", v.path)
}

// list returns the .vmx files of the machines that run.
func (v vmrun) list(ctx context.Context) ([]string, error) {
	out, err := v.run(ctx, "list")
	if err != nil {
		return nil, err
	}
	return parseList(out)
}

// parseList reads the output of vmrun list: a line with a number, and one for each machine.
func parseList(text string) ([]string, error) {
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "Total running VMs:") {
		return nil, fmt.Errorf("read vmrun's list: it begins with %.80q", first)
	}
	var all []string
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all, nil
}

// remedies has the advice on vmrun's messages, in the order of the search.
var remedies = []struct{ said, remedy string }{
	{"The file is already in use",
		"another program has the machine's files, or a crash left its lock (*.lck) behind; " +
			"end that program, or run tare clean"},
	{"in use",
		"another program has the machine's files, or a crash left its lock (*.lck) behind; end that program, or " +
			"run tare clean"},
	{"Cannot open VM", "the product rejects the .vmx; the evidence is its log"},
	{"virtual machine cannot be found",
		"its files must be on a disk that VMware can read; set TMPDIR to another folder"},
	{"not supported on this host", "enable VT-x or AMD-V in the firmware, or leave Hyper-V to the product"},
	{"Insufficient permissions", "run tare as the user that uses VMware"},
	{"There is not enough", "free some space, use a smaller disk= or memory=, or set TMPDIR"},
	{"No space left", "free some space, use a smaller disk=, or set TMPDIR"},
	{"license", "enter the product's licence in its own window"},
	{"not powered on", ""},
}

// remedy returns the advice on an error of vmrun.
func remedy(err error) string {
	e, ok := errors.AsType[*callError](err)
	if !ok {
		return ""
	}
	for _, r := range remedies {
		if strings.Contains(e.message, r.said) {
			return r.remedy
		}
	}
	return "try it by hand: " + strings.Join(e.argv, " ")
}

// off tells whether an error says that a machine does not run.
func off(err error) bool {
	e, ok := errors.AsType[*callError](err)
	return ok && (strings.Contains(e.message, "not powered on") || strings.Contains(e.message, "cannot be found"))
}

// runFolder begins the names of the folders that package leftover makes.
const runFolder = "tare-run-"

// clean stops the machines of killed runs, so that `tare clean` can remove their folders. A machine belongs to tare
// only
// if its .vmx is in the folder of a run.
func clean(ctx context.Context, dry bool) (lines []string, err error) {
	path, err := findVmrun("")
	if err != nil {
		return nil, nil
	}
	var errs []error
	for _, product := range []string{"ws", "fusion", "player"} {
		v := vmrun{path, product}
		running, err := v.list(ctx)
		if err != nil {
			continue // not this product
		}
		for _, vmx := range running {
			if !abandoned(vmx) {
				continue
			}
			lines = append(lines, "VMware machine "+vmx)
			if !dry {
				if _, err := v.run(ctx, "stop", vmx, "hard"); err != nil && !off(err) {
					errs = append(errs, fmt.Errorf("stop %s: %w", vmx, err))
				}
			}
		}
		break // each product lists the machines of all
	}
	return lines, errors.Join(errs...)
}

// abandoned tells whether a file is in the folder of a run that was killed.
func abandoned(file string) bool {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if strings.HasPrefix(filepath.Base(dir), runFolder) {
			for _, left := range leftover.Find(filepath.Dir(dir)) {
				if left == dir {
					return true
				}
			}
			return false
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// locked are the lock folders beside a .vmx, which a machine that runs has, or one that crashed.
func locked(vmx string) []string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(vmx), "*.lck"))
	var all []string
	for _, f := range found {
		if entries, err := os.ReadDir(f); err != nil || len(entries) > 0 {
			all = append(all, filepath.Base(f))
		}
	}
	return all
}
