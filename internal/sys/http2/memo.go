package http2

import (
	"golang.org/x/net/http2/hpack"
)

// Memo keeps what blocks of fields say that say the same whatever was sent before, because a server repeats them. nginx
// sends nothing else: it puts fields into the table, but never refers to them. Sessions of one goroutine may share one.
type Memo struct {
	known   map[string]known
	decoder *hpack.Decoder // without a table
	session *Session       // whose block is decoded
}

type known struct {
	head    Head
	block   string
	inserts bool // it puts fields into the table
}

// NewMemo makes one.
func NewMemo() *Memo {
	m := &Memo{known: map[string]known{}}
	m.decoder = hpack.NewDecoder(0, func(f hpack.HeaderField) { m.session.field(f) })
	m.decoder.SetMaxStringLength(maxHead)
	return m
}

// entries is how many fields a table may have at most: each takes 32 bytes and what it says.
const entries = tableSize / 32

// skipped is blocks that a decoder has not been told of, as they were known. Each puts at least one field into the
// table, so that those before the last ones no longer matter.
type skipped struct {
	blocks []string
	oldest int
}

func (k *skipped) add(block string) {
	if len(k.blocks) < entries {
		k.blocks = append(k.blocks, block)
		return
	}
	k.blocks[k.oldest] = block
	k.oldest = (k.oldest + 1) % entries
}

// tell has a decoder know them after all.
func (k *skipped) tell(d *hpack.Decoder) error {
	if len(k.blocks) == 0 {
		return nil
	}
	d.SetEmitEnabled(false)
	for i := range k.blocks {
		if _, err := d.Write([]byte(k.blocks[(k.oldest+i)%len(k.blocks)])); err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	k.reset()
	return nil
}

func (k *skipped) reset() { k.blocks, k.oldest = k.blocks[:0], 0 }

// independent tells whether a block says the same whatever was sent before, as it refers to the static table only and
// leaves the size of the other one; and whether it puts fields into that.
func independent(block []byte) (ok, inserts bool) {
	const static = 61
	for len(block) > 0 {
		b := block[0]
		if b&0x80 != 0 {
			if b&0x7f > static || b == 0x80 {
				return false, false
			}
			block = block[1:]
			continue
		}
		bits := 4
		switch {
		case b&0x40 != 0:
			bits, inserts = 6, true
		case b&0x20 != 0: // another size
			return false, false
		}
		n, rest, ok := integer(block, bits)
		if !ok || n > static {
			return false, false
		}
		strings := 1
		if n == 0 {
			strings = 2
		}
		for range strings {
			if n, rest, ok = integer(rest, 7); !ok || n > len(rest) {
				return false, false
			}
			rest = rest[n:]
		}
		block = rest
	}
	return true, inserts
}

// integer reads a number whose first byte has so many bits of it (RFC 7541, section 5.1).
func integer(p []byte, bits int) (n int, rest []byte, ok bool) {
	if len(p) == 0 {
		return 0, nil, false
	}
	most := 1<<bits - 1
	if n = int(p[0]) & most; n < most {
		return n, p[1:], true
	}
	for i, shift := 1, 0; i < len(p) && shift < 28; i, shift = i+1, shift+7 {
		n += int(p[i]&0x7f) << shift
		if p[i]&0x80 == 0 {
			return n, p[i+1:], true
		}
	}
	return 0, nil, false
}
