package sql

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// The ways to use TLS.
const (
	TLSOff     = "off"
	TLSRequire = "require" // encrypt; the server may be anybody
	TLSVerify  = "verify"  // verify the server's certificate, too
)

// maxPassword is the maximum length of a password in bytes. Servers accept less.
const maxPassword = 4 << 10

// Password returns the first line of a file.
func Password(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, maxPassword).ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("read the password: the first line of %s has more than %d bytes", path, maxPassword)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
