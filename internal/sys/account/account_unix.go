//go:build unix

package account

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// User is the user that a server runs as.
type User struct {
	Name     string
	uid, gid uint32
	change   bool      // it is not the user of this process
	reach    []uintptr // capabilities that it needs to reach its directories; only Linux has them
}

// Choose returns the user of this process or, for root, the first of names that exists and is not root.
func Choose(names ...string) (User, error) {
	if os.Geteuid() != 0 {
		u := User{Name: strconv.Itoa(os.Geteuid())}
		if known, err := user.Current(); err == nil {
			u.Name = known.Username
		}
		return u, nil
	}
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
		return User{Name: name, uid: uint32(uid), gid: uint32(gid), change: true}, nil
	}
	return User{}, fmt.Errorf("%w: %v", ErrNone, names)
}

// Give makes the user the owner of a file or directory. It does not follow links.
func (u *User) Give(path string) error {
	if !u.change {
		return nil
	}
	return os.Lchown(path, int(u.uid), int(u.gid))
}

// GiveIn makes the user the owner of the file or directory of that name in a root.
func (u *User) GiveIn(root *os.Root, name string) error {
	if !u.change {
		return nil
	}
	return root.Lchown(name, int(u.uid), int(u.gid))
}

// Owns tells whether Give would change nothing about a file.
func (u *User) Owns(file os.FileInfo) bool {
	st, ok := file.Sys().(*syscall.Stat_t)
	return !u.change || ok && st.Uid == u.uid
}

// ReachTo ensures that the user can reach a directory. If the user cannot pass through it or a directory above it, as
// through tare's own, the user keeps a capability for that on Linux. Elsewhere, or if this process does not have it,
// the error is a *ClosedError.
func (u *User) ReachTo(dir string) error {
	if !u.change || len(u.reach) > 0 {
		return nil
	}
	for d := dir; ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return err
		}
		pass := os.FileMode(0o001)
		if u.Owns(st) {
			pass = 0o100
		}
		if st.Mode()&pass == 0 {
			return u.pass(&ClosedError{Dir: dir, At: d})
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}

// Privileged tells whether the user has kept a capability to reach a directory. It has it after the first exec.
func (u *User) Privileged() bool { return len(u.reach) > 0 }

// Become makes a command that is started with these attributes run as the user.
func (u *User) Become(attr *syscall.SysProcAttr) {
	if !u.change {
		return
	}
	attr.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	u.keepReach(attr)
}
