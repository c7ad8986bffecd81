package http2

import (
	"encoding/binary"
	"fmt"
)

// kind is the type of a frame (RFC 9113, section 6).
type kind byte

const (
	frameData kind = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation
)

var kinds = [...]string{"DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY",
	"WINDOW_UPDATE", "CONTINUATION"}

func (k kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("of the unknown type %d", byte(k))
}

// flags say more about a frame. What a bit means depends on its kind.
type flags byte

const (
	flagAck        flags = 0x1 // of SETTINGS and PING
	flagEndStream  flags = 0x1 // of DATA and HEADERS
	flagEndHeaders flags = 0x4
	flagPadded     flags = 0x8
	flagPriority   flags = 0x20
)

func (f flags) has(one flags) bool { return f&one != 0 }

// when is the flag if the condition holds.
func (f flags) when(holds bool) flags {
	if holds {
		return f
	}
	return 0
}

// setting is what a number in SETTINGS is about (section 6.5.2; RFC 8441).
type setting uint16

const (
	settingTable   setting = 1 // size of the table of fields
	settingPush    setting = 2
	settingStreams setting = 3 // at a time
	settingWindow  setting = 4 // of a new stream
	settingFrame   setting = 5 // size of a frame
	settingHead    setting = 6 // size of a header
	settingConnect setting = 8 // CONNECT with a protocol
)

// Sizes of what is in frames, in bytes.
const (
	settingSize  = 6
	numberSize   = 4
	prioritySize = 5
	pingSize     = 8
	goAwaySize   = 8 // without what it says to people
)

// valid returns an error if the protocol does not allow the value.
func (s setting) valid(v uint32) error {
	name, ok := "", true
	switch s {
	case settingPush:
		name, ok = "ENABLE_PUSH", v <= 1
	case settingWindow:
		name, ok = "INITIAL_WINDOW_SIZE", v <= maxStream
	case settingFrame:
		name, ok = "MAX_FRAME_SIZE", v >= maxFrame && v < 1<<24
	case settingConnect:
		name, ok = "ENABLE_CONNECT_PROTOCOL", v <= 1
	}
	if !ok {
		return fmt.Errorf("the server's settings are not valid: %s is %d", name, v)
	}
	return nil
}

// code is why a stream or a connection is given up (section 7).
type code uint32

const (
	codeNone   code = 0
	codeCancel code = 8
)

var codes = [...]string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR",
	"ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"}

func (c code) String() string {
	if int64(c) < int64(len(codes)) {
		return codes[c]
	}
	return fmt.Sprintf("the unknown code %d", uint32(c))
}

// shaped tells whether a frame that is no part of a response has the size and the stream that its kind must have.
func shaped(k kind, f flags, id uint32, payload []byte) bool {
	n := len(payload)
	switch k {
	case framePriority:
		return id != 0 && n == prioritySize
	case frameReset:
		return id != 0 && n == numberSize
	case frameSettings:
		return id == 0 && n%settingSize == 0 && (n == 0 || !f.has(flagAck))
	case framePing:
		return id == 0 && n == pingSize
	case frameGoAway:
		return id == 0 && n >= goAwaySize
	case frameWindow:
		return n == numberSize && binary.BigEndian.Uint32(payload)&maxStream != 0
	}
	return true
}

// frame queues a frame to be sent.
func (s *Session) frame(k kind, f flags, id uint32, payload []byte) {
	n := len(payload)
	s.out = append(s.out, byte(n>>16), byte(n>>8), byte(n), byte(k), byte(f))
	s.out = binary.BigEndian.AppendUint32(s.out, id)
	s.out = append(s.out, payload...)
}

// number queues a frame whose payload is a number: WINDOW_UPDATE, RST_STREAM.
func (s *Session) number(k kind, id, n uint32) {
	var p [numberSize]byte
	binary.BigEndian.PutUint32(p[:], n)
	s.frame(k, 0, id, p[:])
}
