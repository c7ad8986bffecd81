package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Magic begins an agent's output. Like PNG's signature it contains a byte with the high bit set, a carriage return with
// a line feed and an end-of-file character, so that a connection that is not 8-bit clean (a terminal, a serial line in
// cooked mode) breaks it visibly instead of corrupting a frame later.
const Magic = "\x89TARE\r\n\x1a"

// MaxNoise bounds the bytes that are skipped, and kept, in search of the magic.
const MaxNoise = 64 << 10

// ErrNoMagic says that MaxNoise bytes came and none of them were the magic.
var ErrNoMagic = errors.New("there was no output of an agent")

// ErrMangled says that the magic arrived with a changed line end: the connection is not 8-bit clean.
var ErrMangled = errors.New("the connection changes bytes (is there a terminal in between?)")

// SkipNoise reads up to the end of the magic and returns what came before it, at most MaxNoise bytes. Whatever the
// error, the noise read so far is returned as evidence. Frames follow.
func (r *Reader) SkipNoise() (noise []byte, err error) {
	mangled := func(err error) error {
		if bytes.Contains(noise, []byte(Magic[:5])) {
			return fmt.Errorf("%w: %w", ErrMangled, err)
		}
		return err
	}
	// The first byte of the magic occurs nowhere else in it, so a failed match can only begin anew at the byte that
	// broke it.
	matched := 0
	for {
		c, err := r.r.ReadByte()
		if err != nil {
			noise = append(noise, Magic[:matched]...)
			if err == io.EOF {
				err = fmt.Errorf("%w: %w", ErrNoMagic, io.ErrUnexpectedEOF)
			}
			return noise, mangled(err)
		}
		if c == Magic[matched] {
			if matched++; matched == len(Magic) {
				return noise, nil
			}
			continue
		}
		noise = append(noise, Magic[:matched]...)
		if matched = 0; c == Magic[0] {
			matched = 1
		} else {
			noise = append(noise, c)
		}
		if len(noise) >= MaxNoise {
			return noise[:MaxNoise],
				mangled(fmt.Errorf("%w in the first %d KiB; suppress other output, such as that of login scripts and "+
					"banners", ErrNoMagic, MaxNoise>>10))
		}
	}
}

// Announce writes the magic.
func (w *Writer) Announce() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.w, Magic); err != nil {
		return fmt.Errorf("write magic: %w", err)
	}
	return nil
}
