package leftover

import (
	"errors"
	"io/fs"
	"strconv"

	"golang.org/x/sys/windows"
)

func startTime(pid int) (string, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return "", fs.ErrNotExist // there is no such process
	}
	if err != nil {
		return "", err
	}
	defer windows.CloseHandle(h)
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", err
	}
	if exited.Nanoseconds() > 0 && exited.LowDateTime|exited.HighDateTime != 0 {
		return "", fs.ErrNotExist // it has ended, but somebody holds a handle
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), nil
}

// machine tells this machine from others.
func machine() string {
	name, _ := windows.ComputerName()
	return name
}

// bootID is "": it is not known.
func bootID() string { return "" }

// pidSpace is "": all processes are in one.
func pidSpace() string { return "" }
