package nfsd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bounds of incoming messages: no supported call is longer than a path and a credential.
const (
	maxMessage   = 8 << 10 // bytes of a message
	maxFragments = 16      // of one message
)

// lastFragment marks the last fragment of a message on a stream (RFC 5531, section 11).
const lastFragment = 1 << 31

// readMessage reads one message of a stream.
func readMessage(r io.Reader) ([]byte, error) {
	var message []byte
	for range maxFragments {
		var mark [4]byte
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ lastFragment)
		if n > maxMessage-len(message) {
			return nil, fmt.Errorf("read message: it is longer than %d bytes", maxMessage)
		}
		begin := len(message)
		message = append(message, make([]byte, n)...)
		if _, err := io.ReadFull(r, message[begin:]); err != nil {
			return nil, err
		}
		if m&lastFragment != 0 {
			return message, nil
		}
	}
	return nil, fmt.Errorf("read message: it has more than %d fragments", maxFragments)
}

// framed is a message for a stream, in one fragment.
func framed(message []byte) []byte {
	return append(words(lastFragment|uint32(len(message))), message...)
}

// words writes numbers as XDR does (RFC 4506).
func words(numbers ...uint32) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// opaque writes bytes with their length before them, filled up to a multiple of four.
func opaque(p []byte) []byte {
	b := append(words(uint32(len(p))), p...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// reader reads XDR. After the first missing value all others are zero, and short is set.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) word() uint32 {
	if len(r.rest) < 4 {
		r.short, r.rest = true, nil
		return 0
	}
	w := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return w
}

// opaque reads bytes, up to a maximum length.
func (r *reader) opaque(most uint32) []byte {
	n := r.word()
	padded := (uint64(n) + 3) &^ 3
	if n > most || padded > uint64(len(r.rest)) {
		r.short, r.rest = true, nil
		return nil
	}
	p := r.rest[:n]
	r.rest = r.rest[padded:]
	return p
}

// Numbers of RFC 5531, sections 8 and 9.
const (
	msgCall, msgReply                 = 0, 1
	rpcVersion                        = 2
	replyAccepted, replyDenied        = 0, 1
	rpcMismatch                       = 0
	maxAuth                           = 400 // bytes of a credential or verifier
	success                           = 0
	programUnavailable                = 1
	programMismatch                   = 2
	procedureUnavailable              = 3
	garbageArguments                  = 4
	procedureNull              uint32 = 0 // of every program
)

// program is a service. call carries out a procedure other than the null one, and returns its results and its status:
// success, procedureUnavailable or garbageArguments.
type program struct {
	number    uint32
	low, high uint32 // versions
	call      func(procedure uint32, arguments *reader) (results []byte, status uint32)
}

// answer returns the reply to a call. The error means that the message is not a call and cannot be answered.
func answer(message []byte, programs []program) ([]byte, error) {
	r := &reader{rest: message}
	id, kind, rpc := r.word(), r.word(), r.word()
	if r.short || kind != msgCall {
		return nil, errors.New("answer: this is not a call")
	}
	if rpc != rpcVersion {
		return words(id, msgReply, replyDenied, rpcMismatch, rpcVersion, rpcVersion), nil
	}
	number, version, procedure := r.word(), r.word(), r.word()
	for range 2 { // the credential and its verifier: access is decided by the caller's address
		r.word()
		r.opaque(maxAuth)
	}
	if r.short {
		return nil, errors.New("answer: the call is truncated")
	}
	const noVerifier = 0
	reply := func(status uint32, results ...byte) []byte {
		return append(words(id, msgReply, replyAccepted, noVerifier, 0, status), results...)
	}
	for _, p := range programs {
		switch {
		case p.number != number:
			continue
		case version < p.low || version > p.high:
			return reply(programMismatch, words(p.low, p.high)...), nil
		case procedure == procedureNull:
			return reply(success), nil
		}
		results, status := p.call(procedure, r)
		return reply(status, results...), nil
	}
	return reply(programUnavailable), nil
}
