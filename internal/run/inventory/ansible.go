package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/sys/proc"
)

// ErrAnsible is returned for an inventory that is a program's or a plugin's: only Ansible can read it.
var ErrAnsible = errors.New("only Ansible can read it")

// ansibleTime bounds ansible-inventory, whose plugins may ask a cloud.
const ansibleTime = 2 * time.Minute

// Ansible has ansible-inventory read an inventory, whatever Ansible can read: files, folders, programs, the
// configuration of a plugin. That runs the user's own programs and plugins, by the ansible.cfg that counts here. It
// returns what ParseJSON reads. plays is the folder of the plan, whose group_vars and host_vars count as a playbook's.
func Ansible(ctx context.Context, path, plays string) ([]byte, error) {
	path, err := filepath.Abs(path) // it begins with no dash, and is no list of hosts
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	if plays, err = filepath.Abs(plays); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ansibleTime)
	defer cancel()
	cmd := proc.Command(ctx, "ansible-inventory", "-i", path, "--playbook-dir", plays, "--list")
	// Else a source that it cannot read would be an inventory without hosts.
	cmd.Env = append(os.Environ(), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true", "ANSIBLE_NOCOLOR=true")
	out, err := proc.RunCmd(cmd, nil)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("ansible-inventory took more than %v", ansibleTime)
	}
	if err == nil && len(out) >= min(proc.MaxOutput, MaxFile) {
		return nil, fmt.Errorf("ansible-inventory printed more than %d MiB", min(proc.MaxOutput, MaxFile)>>20)
	}
	return out, err
}
