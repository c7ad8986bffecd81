package virtualbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/sys/proc"
)

// VirtualBox's service has its socket in a directory /tmp/.vbox-NAME-ipc, whatever TMPDIR says. In a root directory it
// is
// in the session's own mounts and ends with them.
const ipcPattern = "/tmp/.vbox-%s-ipc"

func removeIPC(id string) error {
	if err := os.RemoveAll(fmt.Sprintf(ipcPattern, id)); err != nil {
		return fmt.Errorf("remove the socket of VirtualBox's service: %w", err)
	}
	return nil
}

// cleanIPC removes the sockets of tare's sessions whose services have ended.
func cleanIPC(dry bool) (lines []string, err error) {
	found, _ := filepath.Glob(fmt.Sprintf(ipcPattern, ipcPrefix+"*"))
	var errs []error
	for _, dir := range found {
		if conn, err := net.Dial("unix", filepath.Join(dir, "ipcd")); err == nil {
			conn.Close()
			continue
		}
		if !dry {
			if err := os.RemoveAll(dir); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		lines = append(lines, "socket of VirtualBox's service "+dir)
	}
	return lines, errors.Join(errs...)
}

// explain makes an error of what VBoxManage printed: its first message, without the codes behind it.
func explain(args []string, err error) error {
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok {
		return err
	}
	for line := range strings.Lines(x.Stderr) {
		if message, ok := strings.CutPrefix(strings.TrimSpace(line), "VBoxManage: error: "); ok {
			return &refusedError{verb: args[0], message: message, err: x}
		}
	}
	return err
}

// refusedError is a refusal of VBoxManage.
type refusedError struct {
	verb, message string
	err           *proc.ExitError
}

func (e *refusedError) Error() string { return "VBoxManage " + e.verb + ": " + e.message }

func (e *refusedError) Unwrap() error { return e.err }
