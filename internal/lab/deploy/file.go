package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tare/internal/measure/wire"
)

// File is a file that the controller made for trials.
type File struct {
	Digest  [32]byte // SHA-256
	Size    int64    // bytes
	Content io.ReaderAt
}

// Supply sends a file to the agent unless the agent has it. If the agent has the beginning, only the rest is sent.
func (c *Conn) Supply(ctx context.Context, f File) error {
	buf := make([]byte, wire.MaxFilePiece)
	piece := wire.FilePiece{Digest: f.Digest, Size: f.Size}
	for sent := int64(-1); ; {
		have, err := c.piece(ctx, &piece)
		if err != nil {
			return fmt.Errorf("send a file of %d bytes: %w", f.Size, err)
		}
		if have == f.Size {
			return nil
		}
		if have <= sent || have > f.Size {
			return errors.New("send a file: the agent did not store the last piece")
		}
		sent = have
		n, err := f.Content.ReadAt(buf[:min(int64(len(buf)), f.Size-have)], have)
		if n == 0 {
			return fmt.Errorf("read the file to send: %w", err)
		}
		piece.Offset, piece.Data = have, buf[:n]
	}
}

// piece sends a piece of a file and returns how many bytes of the file the agent has.
func (c *Conn) piece(ctx context.Context, p *wire.FilePiece) (int64, error) {
	b, err := p.Pack()
	if err != nil {
		return 0, err
	}
	if err := c.requestPacked(ctx, wire.TypeFile, b); err != nil {
		return 0, err
	}
	a, err := c.next(ctx)
	if err != nil && ctx.Err() != nil && c.Alive() {
		return 0, c.interrupt(ctx, wire.TypeFile)
	}
	if err != nil {
		return 0, err
	}
	var held wire.FileHeld
	err = c.accept(a, wire.TypeFile, &held)
	return held.Have, err
}
