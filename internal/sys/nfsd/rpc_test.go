package nfsd

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
)

var handle = []byte{1, 0, 1, 0, 0, 0, 0, 9}

func services() []program { return []program{portMapper(), mountProtocol(handle)} }

// asked is a call as the kernel makes it, with a credential of user 0.
func asked(program, version, procedure uint32, arguments ...byte) []byte {
	credential := slices.Concat(words(7), opaque([]byte("host")), words(0, 0, 0))
	m := append(words(42, msgCall, rpcVersion, program, version, procedure, 1), opaque(credential)...)
	return slices.Concat(m, words(0, 0), arguments)
}

func TestCallsAreAnswered(t *testing.T) {
	accepted := func(results ...uint32) []byte {
		return append(words(42, msgReply, replyAccepted, 0, 0), words(results...)...)
	}
	mapping := words(100021, 4, 6, 32803)
	for name, c := range map[string]struct{ call, want []byte }{
		"null of the port mapper": {asked(100000, 2, 0), accepted(success)},
		"null of version 4":       {asked(100000, 4, 0), accepted(success)},
		"set":                     {asked(100000, 2, 1, mapping...), accepted(success, 1)},
		"set of version 4":        {asked(100000, 4, 1, mapping...), accepted(success, 1)},
		"unset":                   {asked(100000, 4, 2, mapping...), accepted(success, 1)},
		"getport":                 {asked(100000, 2, 3, mapping...), accepted(procedureUnavailable)},
		"null of the mount":       {asked(100005, 3, 0), accepted(success)},
		"mnt": {asked(100005, 3, 1, opaque([]byte("/"))...),
			accepted(success, 0, 8, 0x01000100, 9, 1, 1)},
		"mnt of another": {asked(100005, 3, 1, opaque([]byte("/etc"))...), accepted(success, 2)},
		"mnt of nothing": {asked(100005, 3, 1), accepted(garbageArguments)},
		"mnt of a long path": {asked(100005, 3, 1, opaque(bytes.Repeat([]byte("/"), 1025))...),
			accepted(garbageArguments)},
		"umnt":                   {asked(100005, 3, 3, opaque([]byte("/"))...), accepted(success)},
		"umntall":                {asked(100005, 3, 4), accepted(success)},
		"export":                 {asked(100005, 3, 5), accepted(procedureUnavailable)},
		"version 1 of the mount": {asked(100005, 1, 1), accepted(programMismatch, 3, 3)},
		"another program":        {asked(100003, 3, 0), accepted(programUnavailable)},
		"another version of RPC": {words(42, msgCall, 3, 100005, 3, 0),
			words(42, msgReply, replyDenied, rpcMismatch, 2, 2)},
		"a reply":     {words(42, msgReply, 0, 0, 0, 0), nil},
		"nothing":     {nil, nil},
		"half a call": {asked(100005, 3, 0)[:30], nil},
		"a credential of 500": {slices.Concat(words(42, msgCall, rpcVersion, 100005, 3, 0, 1),
			opaque(make([]byte, 500)), words(0, 0)), nil},
		"a credential without end": {words(42, msgCall, rpcVersion, 100005, 3, 0, 1, 0xffffffff, 0, 0), nil},
	} {
		got, err := answer(c.call, services())
		if !bytes.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %x, %v, want %x", name, got, err, c.want)
		}
	}
}

func TestMessagesComeInFragments(t *testing.T) {
	stream := slices.Concat(words(2), []byte("ab"), words(0), words(lastFragment|1), []byte("c"),
		framed([]byte("next")))
	r := bytes.NewReader(stream)
	for _, want := range []string{"abc", "next"} {
		if got, err := readMessage(r); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := readMessage(r); err != io.EOF {
		t.Errorf("the end of the stream is %v", err)
	}
	for name, bad := range map[string][]byte{
		"too long": append(words(lastFragment|(maxMessage+1)), make([]byte, maxMessage+1)...),
		"too long in pieces": slices.Concat(words(maxMessage), make([]byte, maxMessage), words(lastFragment|1),
			[]byte("x")),
		"fragments and no end": bytes.Repeat(words(0), 2*maxFragments),
		"cut short":            append(words(lastFragment|9), "abc"...),
	} {
		if got, err := readMessage(bytes.NewReader(bad)); err == nil {
			t.Errorf("%s: %q is a message", name, got)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(framed(asked(100005, 3, 1, opaque([]byte("/"))...)))
	f.Add(framed(asked(100000, 4, 1)))
	f.Add(slices.Concat(words(2), []byte("ab"), words(lastFragment|1), []byte("c")))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for r := bytes.NewReader(stream); ; {
			message, err := readMessage(r)
			if err != nil {
				return
			}
			if len(message) > maxMessage {
				t.Fatalf("a message of %d bytes", len(message))
			}
			reply, err := answer(message, services())
			if err != nil {
				continue
			}
			if len(reply) < 24 || len(reply)%4 != 0 || !bytes.Equal(reply[:4], message[:4]) ||
				binary.BigEndian.Uint32(reply[4:]) != msgReply {
				t.Fatalf("%x is answered by %x", message, reply)
			}
			if bytes.Contains(reply, handle) && !bytes.Contains(message, append(words(1), root...)) {
				t.Fatalf("%x gets the handle", message)
			}
		}
	})
}

func TestKernelIsToldThatItHadNoClients(t *testing.T) {
	question := func(command byte, length int) []byte {
		m := make([]byte, length)
		m[0], m[memoryCommand], m[4] = 2, command, 99
		binary.NativeEndian.PutUint16(m[memoryStatus:], 0xfffb)
		return m
	}
	for command, length := range map[byte]int{0: 1067, 4: 1034, commandVersion: 1067} {
		asked := question(command, length)
		got := remembered(asked)
		want := question(command, length)
		want[memoryStatus], want[memoryStatus+1] = 0, 0
		if command == commandVersion {
			want[memoryAbout] = memoryVersion
		}
		if !bytes.Equal(got, want) {
			t.Errorf("command %d: %x, want %x", command, got[:12], want[:12])
		}
		if asked[memoryStatus] == 0 {
			t.Error("the question was changed")
		}
	}
	for _, length := range []int{0, 8, maxMemory + 1} {
		if got := remembered(make([]byte, length)); got != nil {
			t.Errorf("%d bytes are answered", length)
		}
	}
}

func FuzzRemembered(f *testing.F) {
	f.Add([]byte("\x02\x05\xfb\xff\x01\x00\x00\x00" + strings.Repeat("\x00", 1059)))
	f.Fuzz(func(t *testing.T, message []byte) {
		if got := remembered(message); got != nil &&
			(len(got) != len(message) || !bytes.Equal(got[4:8], message[4:8])) {
			t.Errorf("%x is answered by %x", message, got)
		}
	})
}
