package mount

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"

	"tare/internal/sys/proc"
)

// sftpGreeting is an SFTP server's greeting of a client.
type sftpGreeting struct {
	version  string // of OpenSSH: "9.2p1"
	protocol int
	fsync    bool // it can flush a file; if it cannot, sshfs reports success for fsync and does nothing
}

// opensshRE finds the server's version in the output of ssh -v.
var opensshRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`remote software version OpenSSH_([0-9A-Za-z.]+)`)
})

// greetSFTP connects with the real client, as the guest will, and reads the SFTP server's greeting.
func greetSFTP(ctx context.Context, ssh, config string) (g sftpGreeting, err error) {
	ctx, cancel := proc.WithTimeout(ctx, patience)
	defer cancel()
	s, err := proc.Start(proc.Command(ctx, ssh, "-v", "-F", config, "-s", "tare", "sftp"))
	if err != nil {
		return g, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Kill() })()
	const initialise, version3 = 1, 3
	if _, err = s.Write([]byte{0, 0, 0, 5, initialise, 0, 0, 0, version3}); err == nil {
		g, err = readSFTPVersion(s)
	}
	if err != nil {
		select {
		case <-s.Done(): // so that its output is complete
		case <-ctx.Done():
		}
		said := s.Stderr()
		if bytes.Contains(said, []byte("Permission denied")) {
			return g, finalError{&loginError{lastLine(said)}}
		}
		if bytes.Contains(said, []byte("Host key verification failed")) {
			return g, finalError{fmt.Errorf("log in: %s", lastLine(said))}
		}
		return g, fmt.Errorf("log in: %w: %s", err, lastLine(s.Diagnose()))
	}
	if m := opensshRE().FindSubmatch(s.Stderr()); m != nil {
		g.version = string(m[1])
	}
	return g, nil
}

// loginError is the error of a server that works but does not accept the user.
type loginError struct{ said string }

func (e *loginError) Error() string { return "log in: " + e.said }

// readSFTPVersion reads SSH_FXP_VERSION (draft-ietf-secsh-filexfer-02, sections 3 and 4): length, type 2, version, and
// pairs of an extension's name and data.
func readSFTPVersion(r io.Reader) (g sftpGreeting, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return g, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < 5 || n > 64<<10 {
		return g, fmt.Errorf("a greeting of %d bytes is not SFTP", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return g, err
	}
	if b[0] != 2 {
		return g, fmt.Errorf("message %d is not SFTP's greeting", b[0])
	}
	g.protocol = int(binary.BigEndian.Uint32(b[1:]))
	for b = b[5:]; len(b) > 0; {
		var name []byte
		for i := range 2 {
			if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
				return g, errors.New("SFTP's greeting is truncated")
			}
			n := binary.BigEndian.Uint32(b)
			if i == 0 {
				name = b[4 : 4+n]
			}
			b = b[4+n:]
		}
		if string(name) == "fsync@openssh.com" {
			g.fsync = true
		}
	}
	return g, nil
}
