package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// handshake agrees with a client on the one export. It returns errDone when the client only asked.
func handshake(rw io.ReadWriter, size int64) error {
	hello := binary.BigEndian.AppendUint64(nil, magicServer)
	hello = binary.BigEndian.AppendUint64(hello, magicOption)
	hello = binary.BigEndian.AppendUint16(hello, flagFixedNewstyle|flagNoZeroes)
	if _, err := rw.Write(hello); err != nil {
		return err
	}
	var b [16]byte
	if _, err := io.ReadFull(rw, b[:4]); err != nil {
		return fmt.Errorf("read the client's flags: %w", err)
	}
	flags := binary.BigEndian.Uint32(b[:4])
	if flags&flagFixedNewstyle == 0 || flags&^(flagFixedNewstyle|flagNoZeroes) != 0 {
		return fmt.Errorf("the client's flags %#x are not those of the fixed newstyle handshake", flags)
	}
	for range maxOptions {
		if _, err := io.ReadFull(rw, b[:]); err != nil {
			return fmt.Errorf("read option: %w", err)
		}
		if m := binary.BigEndian.Uint64(b[0:]); m != magicOption {
			return fmt.Errorf("read option: it begins with %#x", m)
		}
		opt, n := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
		if n > maxOption+maxName {
			return fmt.Errorf("read option %d: %d bytes are above the limit of %d", opt, n, maxOption+maxName)
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(rw, data); err != nil {
			return fmt.Errorf("read option %d: %w", opt, err)
		}
		ready, err := answer(rw, opt, data, size, flags&flagNoZeroes == 0)
		if ready || err != nil {
			return err
		}
	}
	return fmt.Errorf("the client sent more than %d options", maxOptions)
}

// errDone says that a client left during the handshake, as it may.
var errDone = errors.New("the client is done")

// answer serves an option. ready means that commands follow.
func answer(w io.Writer, opt uint32, data []byte, size int64, zeroes bool) (ready bool, err error) {
	switch opt {
	case optExportName:
		// The name is ignored: there is one export, and this option has no reply for an error.
		b := binary.BigEndian.AppendUint64(nil, uint64(size))
		b = binary.BigEndian.AppendUint16(b, transFlags)
		if zeroes {
			b = append(b, make([]byte, 124)...)
		}
		_, err = w.Write(b)
		return true, err
	case optAbort:
		return false, errors.Join(errDone, reply(w, opt, repAck, nil))
	case optList:
		if len(data) != 0 {
			return false, reply(w, opt, repErrInvalid, nil)
		}
		return false, errors.Join(reply(w, opt, repServer, make([]byte, 4)), reply(w, opt, repAck, nil))
	case optInfo, optGo:
		return info(w, opt, data, size)
	}
	return false, reply(w, opt, repErrUnsup, nil)
}

// info describes the export: name length u32, name, count u16, count wishes u16.
func info(w io.Writer, opt uint32, data []byte, size int64) (ready bool, err error) {
	if len(data) < 6 {
		return false, reply(w, opt, repErrInvalid, nil)
	}
	n := binary.BigEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-6) {
		return false, reply(w, opt, repErrInvalid, nil)
	}
	if n > maxName {
		return false, reply(w, opt, repErrTooBig, nil)
	}
	if n != 0 {
		return false, reply(w, opt, repErrUnknown, []byte("the only export has no name"))
	}
	if wishes := binary.BigEndian.Uint16(data[4:]); len(data) != 6+2*int(wishes) {
		return false, reply(w, opt, repErrInvalid, nil)
	}
	export := binary.BigEndian.AppendUint16(nil, infoExport)
	export = binary.BigEndian.AppendUint64(export, uint64(size))
	export = binary.BigEndian.AppendUint16(export, transFlags)
	blocks := binary.BigEndian.AppendUint16(nil, infoBlockSize)
	for _, v := range []uint32{blockMin, blockBest, MaxTransfer} {
		blocks = binary.BigEndian.AppendUint32(blocks, v)
	}
	err = errors.Join(reply(w, opt, repInfo, export), reply(w, opt, repInfo, blocks), reply(w, opt, repAck, nil))
	return opt == optGo, err
}

func reply(w io.Writer, opt, kind uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(nil, magicOptReply)
	b = binary.BigEndian.AppendUint32(b, opt)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	if _, err := w.Write(append(b, data...)); err != nil {
		return fmt.Errorf("answer option %d: %w", opt, err)
	}
	return nil
}
