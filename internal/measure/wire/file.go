package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// MaxFilePiece is the most bytes of a file that one frame carries.
const MaxFilePiece = 1 << 20

// MaxFile is the largest file that an agent takes, in bytes.
const MaxFile = 64 << 30

// fileHead is the length of what stands before the bytes of a piece: digest, size and offset.
const fileHead = 32 + 8 + 8

// FilePiece is a piece of a file that trials will read. The file's name is its SHA-256 digest, so that one that an
// agent has is not sent again. A piece without bytes asks how much of the file there is.
type FilePiece struct {
	Digest [32]byte
	Size   int64 // of the whole file, in bytes
	Offset int64 // of the first byte of Data
	Data   []byte
}

// Name is the file's name in the agent's directory.
func (p *FilePiece) Name() string { return hex.EncodeToString(p.Digest[:]) }

// Pack makes the payload of a file frame: the digest, size and offset as u64, the bytes; all little endian.
func (p *FilePiece) Pack() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("pack a piece of a file: %w", err)
	}
	b := make([]byte, 0, fileHead+len(p.Data))
	b = append(b, p.Digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Size))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Offset))
	return append(b, p.Data...), nil
}

// UnpackFilePiece reads what Pack made and refuses everything else. Data is a part of payload.
func UnpackFilePiece(payload []byte) (p FilePiece, err error) {
	if len(payload) < fileHead {
		return p, fmt.Errorf("unpack a piece of a file: %d bytes are too few", len(payload))
	}
	copy(p.Digest[:], payload)
	p.Size = int64(binary.LittleEndian.Uint64(payload[32:]))
	p.Offset = int64(binary.LittleEndian.Uint64(payload[40:]))
	p.Data = payload[fileHead:]
	if err := p.check(); err != nil {
		return FilePiece{}, fmt.Errorf("unpack a piece of a file: %w", err)
	}
	return p, nil
}

func (p *FilePiece) check() error {
	switch {
	case p.Size < 0 || p.Size > MaxFile:
		return fmt.Errorf("a file of %d bytes; at most %d", p.Size, int64(MaxFile))
	case len(p.Data) > MaxFilePiece:
		return fmt.Errorf("%d bytes at once; at most %d", len(p.Data), MaxFilePiece)
	case p.Offset < 0 || p.Offset > p.Size-int64(len(p.Data)):
		return errors.New("it lies outside the file")
	}
	return nil
}

// FileHeld is an agent's answer to a piece of a file.
type FileHeld struct {
	Have int64 `json:"have"` // bytes from the file's beginning; its size once the digest was checked
}
