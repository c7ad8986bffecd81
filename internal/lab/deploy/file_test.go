package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/fileio"
	"tare/internal/measure/wire"
)

// counted counts the bytes that are read from a file.
type counted struct {
	*bytes.Reader
	read int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.read += n
	return n, err
}

func supply(data []byte) (deploy.File, *counted) {
	c := &counted{Reader: bytes.NewReader(data)}
	return deploy.File{Digest: sha256.Sum256(data), Size: int64(len(data)), Content: c}, c
}

// A worker reads the file that was sent. The file is sent once per connection and is gone with the agent.
func TestSupply(t *testing.T) {
	dir := t.TempDir()
	s, _ := connect(t, dir)
	data := make([]byte, 2*wire.MaxFilePiece+12345)
	fileio.FillRandom(data, 1)
	for _, data := range [][]byte{data, {}} {
		f, c := supply(data)
		for range 2 {
			if err := s.Supply(within(t, patience), f); err != nil {
				t.Fatal(err)
			}
		}
		if c.read != len(data) {
			t.Errorf("%d bytes of %d were sent", c.read, len(data))
		}
		j := job("t.supplied")
		j.Files = map[string]string{"log": hex.EncodeToString(f.Digest[:])}
		sum := sha256.Sum256(data)
		got := run(t, s, wire.Run{Job: j, Work: 1}).Result
		if got.Error != nil || got.Checks["sum"] != hex.EncodeToString(sum[:]) {
			t.Errorf("the worker read %v, %+v", got.Checks, got.Error)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := left(t, dir); len(n) != 0 {
		t.Errorf("left behind: %q", n)
	}
}

// A file that does not match its digest is rejected and not kept.
func TestSupplyOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	s, _ := connect(t, dir)
	f, _ := supply([]byte("what was meant"))
	f.Content = bytes.NewReader([]byte("what has come!"))
	err := s.Supply(within(t, patience), f)
	if err == nil || !strings.Contains(err.Error(), "not what its digest says") {
		t.Errorf("got %v", err)
	}
	if kept := left(t, filepath.Join(dir, left(t, dir)[0], "files.d")); len(kept) != 0 {
		t.Errorf("kept %q", kept)
	}
	good, _ := supply([]byte("what was meant"))
	if err := s.Supply(within(t, patience), good); err != nil {
		t.Error(err)
	}
	short, _ := supply([]byte("short"))
	short.Size = 10
	if err := s.Supply(within(t, patience), short); err == nil {
		t.Error("a file shorter than its size was sent")
	}
	if !s.Alive() {
		t.Error("the connection is lost")
	}
}
