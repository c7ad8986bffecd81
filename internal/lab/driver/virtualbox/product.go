package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/sys/proc"
)

// product is an installation of VirtualBox: this machine's, or that in the root directory of another system.
type product struct {
	root   string // "" for this machine's
	manage string // VBoxManage, as it is called there
}

// Where a distribution's packages put the programs themselves. The one in the PATH is a script that needs a shell.
var programFolders = []string{"/usr/lib/virtualbox", "/opt/VirtualBox", "/usr/lib64/virtualbox"}

const (
	installRemedy = "install VirtualBox (https://www.virtualbox.org), or name a root directory that has it with " +
		"root=DIR"
	// The oldest release that has the controllers and the options that are used here.
	oldestMajor, oldestMinor = 6, 1
	// askTime bounds a question to VBoxManage, which may have to start VirtualBox's service first.
	askTime = 2 * time.Minute
)

// find looks for VirtualBox in a root directory, or on this machine.
func find(root string) (product, error) {
	p := product{root: root}
	if root == "" {
		manage, err := proc.LookPath("VBoxManage")
		if err != nil {
			for _, dir := range installed() {
				if path, err := proc.LookPath(filepath.Join(dir, "VBoxManage")); err == nil {
					p.manage = path
					return p, nil
				}
			}
			if path := forbidden(); path != "" {
				return p, fmt.Errorf("%s is there, but this user may not run it", path)
			}
			return p, errors.New("VBoxManage is not installed")
		}
		p.manage = manage
		return p, nil
	}
	if runtime.GOOS != "linux" {
		return p, errors.New("root= needs namespaces, which only Linux has")
	}
	for _, dir := range programFolders {
		if info, err := os.Stat(filepath.Join(root, dir, "VBoxManage")); err == nil && info.Mode().IsRegular() {
			p.manage = filepath.Join(dir, "VBoxManage")
			return p, nil
		}
	}
	return p, fmt.Errorf("%s has no VBoxManage in %s", root, strings.Join(programFolders, ", "))
}

// forbidden is a VBoxManage that another user may run, and this one may not; "" if there is none.
func forbidden() string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), installed()...) {
		path := filepath.Join(dir, "VBoxManage")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// installed lists the folders of VirtualBox's own installers on systems where they put nothing into the PATH.
func installed() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"/Applications/VirtualBox.app/Contents/MacOS"}
	case "windows":
		return []string{os.Getenv("VBOX_MSI_INSTALL_PATH"), `C:\Program Files\Oracle\VirtualBox`}
	}
	return programFolders
}

// folder is where VirtualBox's other programs and libraries are, as they are called there.
func (p product) folder() string {
	if path, err := filepath.EvalSymlinks(p.manage); err == nil && p.root == "" {
		if dir := filepath.Dir(path); exists(filepath.Join(dir, "VBoxHeadless.so")) ||
			exists(filepath.Join(dir, "VBoxHeadless.exe")) {
			return dir
		}
		for _, dir := range installed() {
			if exists(filepath.Join(dir, "VBoxHeadless.so")) {
				return dir
			}
		}
	}
	return filepath.Dir(p.manage)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// outside is a path of the product's system as this process finds it.
func (p product) outside(path string) string { return filepath.Join(p.root, path) }

// driverLoaded tells whether VirtualBox's own kernel driver is there. On other systems only a start tells.
func driverLoaded() bool {
	return runtime.GOOS != "linux" || exists(driverDevice)
}

const vboxdrv = "/dev/vboxdrv"

// driverDevice is for tests.
var driverDevice = vboxdrv

// version asks for the release: "7.2.22_Debianr12345".
func (s *session) version(ctx context.Context) (string, error) {
	out, err := s.run(ctx, "--version")
	if err != nil {
		return "", err
	}
	v := lastLine(out)
	if err := checkVersion(v); err != nil {
		return "", err
	}
	return v, nil
}

// checkVersion says why a release is not good enough.
func checkVersion(v string) error {
	major, minor, ok := parseVersion(v)
	if !ok {
		return fmt.Errorf("VBoxManage --version printed %q, which is not a version", v)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("VirtualBox %s is too old; %d.%d is the oldest that can be used", v, oldestMajor, oldestMinor)
	}
	return nil
}

func parseVersion(v string) (major, minor int, ok bool) {
	parts := strings.SplitN(v, ".", 3)
	if len(parts) < 3 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err == nil && err2 == nil && major > 0 && minor >= 0
}

// lastLine is the last line of an output: VBoxManage warns about a missing driver in the lines before.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(proc.Printable(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// probe tells whether VirtualBox can be used here. It starts nothing of VirtualBox's but VBoxManage, which asks no
// service for its version.
func probe(ctx context.Context) env.Status {
	p, err := find(os.Getenv(rootVar))
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: installRemedy}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	argv := []string{p.manage, "--version"}
	if p.root != "" {
		// It wants to find its own program in /proc.
		argv = append([]string{"unshare", "--mount", "sh", "-c",
			`mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`,
			p.root}, argv...)
	}
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		return env.Status{Detail: "VBoxManage does not answer: " + err.Error(), Remedy: installRemedy}
	}
	v := lastLine(out)
	if err := checkVersion(v); err != nil {
		return env.Status{Detail: err.Error(), Remedy: installRemedy}
	}
	if status := medium.Probe(ctx); !status.OK {
		return env.Status{Detail: "VirtualBox " + v + ", but no medium to boot from: " + status.Detail,
			Remedy: status.Remedy}
	}
	if _, err := proc.LookPath("mke2fs"); err != nil {
		return env.Status{Detail: "VirtualBox " + v + ", but no mke2fs for the scratch disk", Remedy: mkfsRemedy}
	}
	if !driverLoaded() {
		return env.Status{OK: true, Detail: "VirtualBox " + v + ", interpreted: " + noDriver}
	}
	return env.Status{OK: true, Detail: "VirtualBox " + v}
}

const (
	noDriver     = "VirtualBox's kernel driver is not loaded (there is no " + vboxdrv + ")"
	driverRemedy = "load it: modprobe vboxdrv, or /sbin/vboxconfig builds it; engine=interpreter does " +
		"without, with one CPU and about 100 times slower"
)
