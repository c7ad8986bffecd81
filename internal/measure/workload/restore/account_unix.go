//go:build unix

package restore

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"tare/internal/record"
	"tare/internal/sys/proc"
)

// account is the user that runs the server: PostgreSQL refuses to run as root.
type account struct {
	name     string
	uid, gid uint32
	change   bool      // not the agent's own user
	reach    []uintptr // capabilities that it needs to reach its folder; Linux alone has them
}

// serverAccount chooses the user for a server whose files are below dir.
func serverAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		a := account{name: strconv.Itoa(os.Geteuid())}
		if u, err := user.Current(); err == nil {
			a.name = u.Username
		}
		return a, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		a := account{name: name, uid: uint32(uid), gid: uint32(gid), change: true}
		a.reach, err = wayInto(dir)
		return a, err
	}
	return account{}, &record.Failure{Kind: "refused",
		Message: fmt.Sprintf("restore: PostgreSQL does not run as root, and this environment has neither a user "+
			"postgres nor a user nobody; add one, or use load=%s", loadNone)}
}

// give makes the account the owner of a folder.
func (a account) give(path string) error {
	if !a.change {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// giveIn makes the account the owner of the file or folder of that name in a root.
func (a account) giveIn(root *os.Root, name string) error {
	if !a.change {
		return nil
	}
	return root.Lchown(name, int(a.uid), int(a.gid))
}

// reachAlso makes sure that the account can reach another folder, too.
func (a *account) reachAlso(dir string) error {
	if !a.change || len(a.reach) > 0 {
		return nil
	}
	var err error
	a.reach, err = wayInto(dir)
	return err
}

// become makes a command run as the account.
func (a account) become(cmd *proc.Cmd) {
	if !a.change {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	keepReach(cmd.SysProcAttr, a.reach)
}
