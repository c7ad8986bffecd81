package nbd

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"tare/internal/sys/nbd/nbdtest"
)

// script is a client that sends bytes whatever it is told.
type script struct {
	io.Reader
	sent bytes.Buffer
}

func (s *script) Write(p []byte) (int, error) { return s.sent.Write(p) }

func option(opt uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, magicOption)
	b = binary.BigEndian.AppendUint32(b, opt)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

func FuzzHandshake(f *testing.F) {
	flags := []byte{0, 0, 0, 3}
	f.Add(append(bytes.Clone(flags), option(optGo, make([]byte, 6))...))
	f.Add(append(bytes.Clone(flags), append(option(8, nil), option(optExportName, nil)...)...))
	f.Add(append(bytes.Clone(flags), append(option(optList, nil), option(optAbort, nil)...)...))
	f.Add([]byte{0, 0, 0, 0})
	f.Add(append(bytes.Clone(flags), 0x49, 0x48))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{Reader: bytes.NewReader(b)}
		handshake(s, testSize)
		if s.sent.Len() > 18+200*maxOptions {
			t.Errorf("%d bytes were answered", s.sent.Len())
		}
	})
}

func FuzzTransmission(f *testing.F) {
	seed := func(qs ...nbdtest.Request) {
		var all []byte
		for _, q := range qs {
			all = q.Append(all, 0)
			if q.Command == cmdWrite {
				all = append(all, make([]byte, q.Length)...)
			}
		}
		f.Add(all)
	}
	type request = nbdtest.Request
	seed(request{Command: cmdWrite, Length: 512}, request{Command: cmdRead, Length: 512}, request{Command: cmdFlush},
		request{Command: cmdDisconnect})
	seed(request{Command: cmdWriteZeroes, Offset: 1 << 63, Length: 1 << 31}, request{Command: cmdTrim, Length: 4096},
		request{Command: 99})
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := file.Truncate(1 << 20); err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs)
		go func() {
			theirs.Write(b)
			theirs.Close()
		}()
		done := make(chan error, 1)
		v := &volatileCache{file: file, limit: 1 << 20}
		go func() { done <- newTransmission(ours, v, 1<<20).serve() }()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Fatal("the server hangs")
		}
		ours.Close()
		if _, err := v.arm(0, Tear, 1, 0); err != nil {
			t.Fatal(err)
		}
		if st, err := file.Stat(); err != nil || st.Size() != 1<<20 {
			t.Errorf("the disk has %d bytes, %v", st.Size(), err)
		}
	})
}
