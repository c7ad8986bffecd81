package dbserver

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// account is the user that a server runs as. None of the servers runs as root.
type account struct {
	name     string
	uid, gid uint32
	change   bool      // it is not the user of this process
	reach    []uintptr // capabilities that it needs to reach its directories
}

// serverAccount chooses the user: for root the first of names that exists, else the user of this process.
func serverAccount(product Product, names ...string) (account, error) {
	if os.Geteuid() != 0 {
		a := account{name: strconv.Itoa(os.Geteuid())}
		if u, err := user.Current(); err == nil {
			a.name = u.Username
		}
		return a, nil
	}
	names = append(names, "nobody")
	for _, name := range names {
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
		return account{name: name, uid: uint32(uid), gid: uint32(gid), change: true}, nil
	}
	return account{}, failure("refused", "", "start %s: it does not run as root, and this environment has none of the "+
		"users %v; add one of them", product, names)
}

// give makes the account the owner of a file or directory.
func (a *account) give(path string) error {
	if !a.change {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// become makes a command run as the account.
func (a *account) become(cmd *proc.Cmd) {
	if !a.change {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	cmd.SysProcAttr.AmbientCaps = a.reach
}

// reachTo ensures that the account can reach a directory. If a parent directory is closed to other users, as tare's own
// directories are, the server keeps a capability for that.
func (a *account) reachTo(dir string) error {
	if !a.change || len(a.reach) > 0 {
		return nil
	}
	open := true
	for d := dir; ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return err
		}
		open = open && st.Mode().Perm()&1 != 0
		if d == filepath.Dir(d) {
			break
		}
	}
	if open {
		return nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for _, c := range []uint{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} { // the lesser first
		if have[0].Permitted>>c&1 != 0 {
			a.reach = []uintptr{uintptr(c)}
			return nil
		}
	}
	return failure("refused", "", "%s", fmt.Sprintf("user %s, which runs the database server, cannot reach %s: give "+
		"the environment a work directory that other users can enter (chmod o+x), or run the agent as a user other "+
		"than root", a.name, dir))
}
