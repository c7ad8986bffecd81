package mount

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

func TestParseVirtiofsd(t *testing.T) {
	const c, rust = "    -o source=PATH             shared directory tree", "      --shared-dir <SHARED_DIR>"
	for _, k := range []struct {
		version, help, want string
		bad                 bool
	}{
		{"virtiofsd version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright", c, "virtiofsd 7.2.22 (C)", false},
		{"virtiofsd 1.14.0\n", rust, "virtiofsd 1.14.0 (Rust)", false},
		{"virtiofsd backend 1.4.0", rust, "virtiofsd 1.4.0 (Rust)", false},
		{"virtiofsd 1.0", "", "", true}, {"rsync 3.2", rust, "", true}, {"", rust, "", true},
		{"virtiofsd", rust, "", true},
	} {
		v, err := parseVirtiofsd("/x", k.version, k.help)
		if (err != nil) != k.bad || err == nil && v.String() != k.want {
			t.Errorf("%q: %v, %v", k.version, v, err)
		}
	}
}

func FuzzParseVirtiofsd(f *testing.F) {
	f.Add("virtiofsd 1.14.0", "--shared-dir")
	f.Fuzz(func(t *testing.T, version, help string) {
		if v, err := parseVirtiofsd("/x", version, help); err == nil && v.version == "" {
			t.Fatal("no version and no error")
		}
	})
}

func FuzzSFTPVersion(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05\x02\x00\x00\x00\x03"))
	f.Add([]byte("\x00\x00\x00\x1f\x02\x00\x00\x00\x03" +
		"\x00\x00\x00\x11fsync@openssh.com\x00\x00\x00\x011"))
	f.Add([]byte("\x00\x00\x00\x09\x02\x00\x00\x00\x03\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readSFTPVersion(bytes.NewReader(b))
		if err == nil && g.fsync && !bytes.Contains(b, []byte("fsync@openssh.com")) {
			t.Fatal("an extension that was not named")
		}
	})
}

func TestSFTPVersion(t *testing.T) {
	const answer = "\x00\x00\x00\x1f\x02\x00\x00\x00\x03\x00\x00\x00\x11fsync@openssh.com\x00\x00\x00\x011"
	g, err := readSFTPVersion(strings.NewReader(answer))
	if err != nil || !g.fsync || g.protocol != 3 {
		t.Errorf("%+v, %v", g, err)
	}
	if g, err := readSFTPVersion(strings.NewReader("\x00\x00\x00\x05\x02\x00\x00\x00\x03")); err != nil || g.fsync {
		t.Errorf("%+v, %v", g, err)
	}
	for _, bad := range []string{"", "\x00\x00\x00\x05\x02", "\xff\xff\xff\xff\x02",
		"\x00\x00\x00\x05\x03\x00\x00\x00\x03", "SSH-2.0-x"} {
		if _, err := readSFTPVersion(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(xdrInts(nil, 7, 1, 0, 0, 0, 0, 0), uint32(7))
	f.Add(xdrInts(nil, 7, 1, 0, 0, 0xffffffff, 0), uint32(7))
	f.Add(xdrInts(nil, 7, 1, 0, 0, 5, 0, 0, 0, 9), uint32(7))
	f.Fuzz(func(t *testing.T, b []byte, transaction uint32) {
		results, err := parseReply(b, transaction)
		if err == nil && (len(results) > len(b)-24 || binary.BigEndian.Uint32(b) != transaction) {
			t.Fatalf("%x gives %x", b, results)
		}
	})
}

func TestReply(t *testing.T) {
	got, err := parseReply(xdrInts(nil, 7, 1, 0, 0, 4, 99, 0, 5), 7)
	if err != nil || len(got) != 4 || got[3] != 5 {
		t.Errorf("%x, %v", got, err)
	}
	for name, bad := range map[string][]byte{
		"another's": xdrInts(nil, 8, 1, 0, 0, 0, 0), "a call": xdrInts(nil, 7, 0, 0, 0, 0, 0),
		"denied":       xdrInts(nil, 7, 1, 1, 0, 0, 0),
		"not accepted": xdrInts(nil, 7, 1, 0, 0, 0, 1), "short": xdrInts(nil, 7, 1, 0),
		"verifier": xdrInts(nil, 7, 1, 0, 0, 400, 0),
	} {
		if _, err := parseReply(bad, 7); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// duplex answers every request with the same bytes.
type duplex struct {
	io.Reader
	io.Writer
}

func FuzzGreetVhost(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x05\x00\x00\x00\x08\x00\x00\x0012345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := greetVhost(duplex{bytes.NewReader(b), io.Discard})
		if err == nil && len(b) < 20 {
			t.Fatal("a short answer is accepted")
		}
	})
}

func FuzzGreetSMB(f *testing.F) {
	answer := make([]byte, 4+64+64)
	answer[3] = 128
	copy(answer[4:], "\xfeSMB")
	copy(answer[4+64+4:], "\x10\x02")
	f.Add(answer)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := greetSMB(duplex{bytes.NewReader(b), io.Discard})
		if err == nil && !bytes.Contains(b, []byte("\xfeSMB")) {
			t.Fatalf("%x is accepted", b)
		}
	})
	if err := greetSMB(duplex{bytes.NewReader(answer), io.Discard}); err != nil {
		f.Error(err)
	}
}
