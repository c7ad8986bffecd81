package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tare/internal/measure/sysinfo"
	"tare/internal/sys/proc"
)

// enter makes a command run in another root, in which /proc and the paths in its arguments are the same as here.
func enter(cmd *proc.Cmd, root string) {
	if root == "" {
		return
	}
	cmd.SysProcAttr.Chroot = root
	cmd.Dir = "/" // or its working directory would be outside of its root
}

// distro is the name of the system in another root, "" if it is not known.
func distro(root string) string { return sysinfo.DistroOf(root) }

// in records the root of the workers.
func (ms *mounts) in(root string) { ms.root = root }

// show makes a directory of this system visible at the same place in the root that workers have.
func (ms *mounts) show(dir string) error {
	if ms.root == "" || ms.shown[dir] {
		return nil
	}
	target := filepath.Join(ms.root, dir)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dir, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s into the root image: %w", dir, err)
	}
	if ms.shown == nil {
		ms.shown = map[string]bool{}
	}
	ms.shown[dir] = true
	return nil
}
