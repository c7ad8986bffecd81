package bzip2

import (
	"encoding/binary"
	"io"
	"runtime"
	"sync"
)

// Reader decompresses. It is not safe for concurrent use.
type Reader struct {
	table    *pairSet
	splitter splitter
	all      []*segment
	free     chan *segment // for the splitter
	order    chan *segment // from the splitter
	work     chan *segment // blocks for the workers
	quit     chan struct{}
	running  sync.WaitGroup // the splitter
	workers  sync.WaitGroup

	serial serial
	held   *segment // whose text is being read
	text   expander
	err    error
	copied []byte // for WriteTo
}

// NewReader returns a Reader of src that decodes as many blocks at a time as it has workers, GOMAXPROCS when 0; more
// than 64 are not used. It takes up to 24 MB and 18 MB more for each worker; half of that where the input is sound. It
// must be closed.
func NewReader(src io.Reader, workers int) *Reader {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, 64)
	r := &Reader{table: newPairSet(), work: make(chan *segment, 3*workers+2)}
	for range cap(r.work) {
		r.all = append(r.all, &segment{done: make(chan struct{}, 1), flat: make([]byte, maxBlock)})
	}
	for range workers {
		r.workers.Go(func() { attend(newDecoder(), r.work) })
	}
	r.start(src)
	return r
}

// attend decodes blocks until there are no more.
func attend(d *decoder, work <-chan *segment) {
	for g := range work {
		base := g.start / 8 * 8
		var end int
		g.text, g.crc, end, g.wrong = d.decode(g.packed, int(g.start-base), int(g.end-base), g.flat)
		g.after = base + int64(end)
		g.done <- struct{}{}
	}
}

// start begins with another source.
func (r *Reader) start(src io.Reader) {
	n := len(r.all)
	r.free, r.order, r.quit = make(chan *segment, n), make(chan *segment, n), make(chan struct{})
	for _, g := range r.all {
		r.free <- g
	}
	r.splitter.reset(src)
	r.serial.reset()
	r.held, r.text, r.err = nil, expander{}, nil
	r.running.Go(func() { r.split(r.free, r.order, r.quit) })
}

// split gives segments to the workers and, in order, to the reader.
func (r *Reader) split(free <-chan *segment, order chan<- *segment, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case g := <-free:
			r.splitter.cut(r.table, g)
			if g.block {
				r.work <- g
			}
			last := g.last
			order <- g
			if last {
				return
			}
		}
	}
}

// stop ends the splitter and waits until no worker has a segment. It also waits for a running Read of the source.
func (r *Reader) stop() {
	close(r.quit)
	r.running.Wait()
	close(r.order)
	for g := range r.order {
		if g.block {
			<-g.done
		}
	}
}

// Reset makes the Reader read another source as if it were new, and keeps its memory.
func (r *Reader) Reset(src io.Reader) {
	r.stop()
	r.start(src)
}

// Close ends the workers. The source is not closed.
func (r *Reader) Close() error {
	if r.work != nil {
		r.stop()
		close(r.work)
		r.workers.Wait()
		r.work, r.err = nil, io.ErrClosedPipe
	}
	return nil
}

// Read reads decompressed data. A damaged input gives an *Error; the data read before had the right checksums.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, r.err
	}
	for r.err == nil {
		n, err := r.text.expand(p)
		if n > 0 || err != nil {
			return n, err
		}
		r.release()
		r.err = r.advance()
	}
	return 0, r.err
}

// WriteTo writes all that is left to w.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	if r.copied == nil {
		r.copied = make([]byte, 256<<10)
	}
	var total int64
	for {
		n, err := r.Read(r.copied)
		if n > 0 {
			m, err := w.Write(r.copied[:n])
			total += int64(m)
			if err != nil {
				return total, err
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// take returns the next segment, when its worker has finished with it.
func (r *Reader) take() *segment {
	g := <-r.order
	if g.block {
		<-g.done
	}
	return g
}

func (r *Reader) release() {
	if r.held != nil {
		r.free <- r.held
		r.held = nil
	}
}

// advance gets the text of the next block ready, or returns why there is none; at a regular end this is io.EOF.
func (r *Reader) advance() error {
	s := &r.serial
	for {
		if s.at == s.end && !s.last {
			g := r.take()
			if s.inStream && g.block && g.wrong == nil && g.after == g.end {
				if err := s.count(len(g.text), g.crc); err != nil {
					return err
				}
				s.skip(g)
				r.held, r.text = g, expander{text: g.text}
				return nil
			}
			s.add(g)
			r.free <- g
		}
		text, err := s.step(r)
		if err != nil {
			return err
		}
		if text != nil {
			r.text = expander{text: text}
			return nil
		}
	}
}

// serial reads the input in order. It reads headers and ends of streams, and blocks that contain a false beginning.
type serial struct {
	rest []byte // valid from the byte that contains at, to end; no padding
	base int64  // bits before rest
	at   int64  // bit at which to continue
	end  int64  // bit after rest
	last bool   // nothing follows
	err  error  // of the source

	inStream bool
	level    int
	streams  int
	sum      uint32 // of the stream's blocks so far

	decoder *decoder // made when it is needed
	flat    []byte
}

func (s *serial) reset() { *s = serial{rest: s.rest[:0], decoder: s.decoder, flat: s.flat} }

// add appends a segment, which begins where the rest ends.
func (s *serial) add(g *segment) {
	if drop := s.at/8 - s.base/8; drop > 0 {
		drop = min(drop, int64(len(s.rest)))
		s.rest = s.rest[:copy(s.rest, s.rest[drop:])]
		s.base += drop * 8
	}
	if len(s.rest) == 0 {
		s.base = g.start / 8 * 8
	}
	// The byte in which one segment ends and the next begins is in both.
	have := int(s.base/8) + len(s.rest) - int(g.start/8)
	s.rest = append(s.rest, g.packed[have:len(g.packed)-padding]...)
	s.end, s.last, s.err = g.end, g.last, g.err
}

// skip passes over a segment that was read elsewhere.
func (s *serial) skip(g *segment) {
	s.rest, s.base = s.rest[:0], g.end/8*8
	s.at, s.end, s.last, s.err = g.end, g.end, g.last, g.err
	if g.end%8 != 0 {
		s.rest = append(s.rest, g.packed[len(g.packed)-padding-1])
	}
}

// ensure makes n more bits available, if there are so many, and tells whether there are.
func (s *serial) ensure(r *Reader, n int64) bool {
	for s.end-s.at < n && !s.last {
		g := r.take()
		s.add(g)
		r.free <- g
	}
	return s.end-s.at >= n
}

// peek returns the next n <= 48 bits.
func (s *serial) peek(n int) uint64 {
	from := int(s.at - s.base)
	var w [16]byte
	copy(w[:], s.rest[from/8:])
	off := from % 8
	hi, lo := binary.BigEndian.Uint64(w[:]), uint64(w[8])
	return (hi<<off | lo>>(8-off)) >> (64 - n)
}

func (s *serial) wrong(what string) error { return &Error{s.at, what} }

// short is the error of an input that ends too early.
func (s *serial) short(what string) error {
	if s.err != nil {
		return s.err
	}
	return s.wrong(what)
}

// count checks a block against its stream and adds its checksum.
func (s *serial) count(n int, crc uint32) error {
	if n > s.level*levelStep {
		return s.wrong("a block is longer than its stream's level allows")
	}
	s.sum = combine(s.sum, crc)
	return nil
}

// step reads one header, end of stream or block, and returns the block's text.
func (s *serial) step(r *Reader) ([]byte, error) {
	if !s.inStream {
		return nil, s.header(r)
	}
	if !s.ensure(r, magicBits) {
		return nil, s.short("the data ends within a stream")
	}
	switch s.peek(magicBits) {
	case streamMagic:
		return nil, s.trailer(r)
	case blockMagic:
		return s.block(r)
	}
	return nil, s.wrong("there is neither a block nor the end of the stream where one must be: the data is damaged")
}

func (s *serial) header(r *Reader) error {
	if !s.ensure(r, 1) && s.streams > 0 {
		if s.err != nil {
			return s.err
		}
		return io.EOF
	}
	if !s.ensure(r, 32) {
		return s.short("the data ends within a header, or is not a bzip2 file")
	}
	h := s.peek(32)
	level := int(h&0xff) - '0'
	if h>>8 != 'B'<<16|'Z'<<8|'h' || level < 1 || level > 9 {
		if s.streams > 0 {
			return s.wrong("other data follows the end of the stream")
		}
		return s.wrong("this is not a bzip2 file")
	}
	s.at += 32
	s.inStream, s.level, s.sum = true, level, 0
	s.streams++
	return nil
}

func (s *serial) trailer(r *Reader) error {
	if !s.ensure(r, magicBits+32) {
		return s.short("the data ends within the end mark of a stream")
	}
	s.at += magicBits
	if uint32(s.peek(32)) != s.sum {
		return s.wrong("the stream's checksum is wrong: the data is damaged")
	}
	s.at = (s.at + 32 + 7) / 8 * 8
	s.inStream = false
	return nil
}

func (s *serial) block(r *Reader) ([]byte, error) {
	all := s.ensure(r, maxPacked*8)
	if s.decoder == nil {
		s.decoder, s.flat = newDecoder(), make([]byte, maxBlock)
	}
	n := len(s.rest)
	s.rest = append(s.rest, zeros[:]...)
	text, crc, end, err := s.decoder.decode(s.rest, int(s.at-s.base), int(s.end-s.base), s.flat)
	s.rest = s.rest[:n]
	if err == errShort && !all {
		return nil, s.short("the data ends within a block")
	}
	if err != nil {
		return nil, s.wrong(err.Error())
	}
	if err := s.count(len(text), crc); err != nil {
		return nil, err
	}
	s.at = s.base + int64(end)
	return text, nil
}
