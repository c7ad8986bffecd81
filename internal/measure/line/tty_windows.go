package line

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// OpenDevice opens a serial device (COM3) with 8 bits without parity, or the named pipe of a virtual machine's port,
// for which baud is 0. It has not been run on Windows yet.
func OpenDevice(name string, baud int) (*os.File, error) {
	if baud > 0 && len(name) < 8 {
		name = `\\.\` + name // COM10 and above have no other name
	}
	// Without overlapped I/O a read that waits would hold up every write.
	f, err := os.OpenFile(name, os.O_RDWR|windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil || baud == 0 {
		return f, err
	}
	h := windows.Handle(f.Fd())
	var state windows.DCB
	if err = windows.GetCommState(h, &state); err == nil {
		state.BaudRate, state.ByteSize, state.Parity, state.StopBits = uint32(baud), 8, 0, 0
		state.Flags = 1 // binary
		err = windows.SetCommState(h, &state)
	}
	if err == nil {
		// A read returns as soon as there is a byte.
		err = windows.SetCommTimeouts(h, &windows.CommTimeouts{ReadIntervalTimeout: 1<<32 - 1,
			ReadTotalTimeoutMultiplier: 1<<32 - 1, ReadTotalTimeoutConstant: 1<<31 - 1})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("set up serial device %s with %d baud: %w", name, baud, err)
	}
	return f, nil
}
