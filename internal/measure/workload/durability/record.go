// Package durability writes records that identify themselves, reports each one when the system has acknowledged that it
// is on stable storage, and finds them again after a power loss.
//
// It is opinionated about acknowledgements: each class of promise has one system call, whose return is the
// acknowledgement. No place is written twice, except by replacing a file, so that a missing record is always a lost
// one. The caller, who has the list of records, judges the result.
package durability

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// Class is a way of asking for durability.
type Class uint8

// The classes.
const (
	Overwrite Class = 1 + iota // overwrite in a preallocated file, fdatasync
	Append                     // append, fsync
	Create                     // create and write a file, fsync it
	CreateDir                  // the same, and fsync its directory
	Rename                     // write a new file, fsync it, rename it over the old one, fsync the directory
	DSync                      // overwrite in a preallocated file opened with O_DSYNC
	Mapped                     // store into a mapped file, msync
	classEnd
)

var classNames = [...]string{"", "overwrite", "append", "create", "create-dir", "rename", "dsync", "mmap"}

var classDocs = [...]string{"", "overwrite + fdatasync", "append + fsync", "create + fsync",
	"create + fsync + fsync of the directory",
	"write new + fsync + rename over old + fsync of the directory", "overwrite with O_DSYNC",
	"store into a map + msync"}

// Classes lists them all.
func Classes() []Class {
	all := []Class{}
	for c := Overwrite; c < classEnd; c++ {
		all = append(all, c)
	}
	return all
}

// String is the class's name, as a user types it.
func (c Class) String() string {
	if c > 0 && c < classEnd {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Doc says in words what is done.
func (c Class) Doc() string {
	if c > 0 && c < classEnd {
		return classDocs[c]
	}
	return ""
}

// Promised tells whether POSIX guarantees that the record is found again. A file whose directory was not synced may
// lack its name; Linux's file systems write the name all the same.
func (c Class) Promised() bool { return c != Create }

// ParseClass is the class of a name.
func ParseClass(name string) (Class, error) {
	for c := Overwrite; c < classEnd; c++ {
		if classNames[c] == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %v", name, classNames[1:])
}

// Record is one record and its place.
type Record struct {
	Class  Class
	Whole  bool   // its contents are complete; always true in an acknowledgement
	Seq    uint64 // of its class, from 1
	File   uint32 // which file of the class
	Offset uint64 // bytes
	Length uint32 // bytes
	Hash   uint64 // FNV-1a of its contents
}

// RecordSize is a packed record's length in bytes.
const RecordSize = 34

// Pack appends the record to b: class u8, whole u8, seq u64, file u32, offset u64, length u32, hash u64, big endian.
func (r *Record) Pack(b []byte) []byte {
	whole := byte(0)
	if r.Whole {
		whole = 1
	}
	b = append(b, byte(r.Class), whole)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint32(b, r.File)
	b = binary.BigEndian.AppendUint64(b, r.Offset)
	b = binary.BigEndian.AppendUint32(b, r.Length)
	return binary.BigEndian.AppendUint64(b, r.Hash)
}

// Unpack reads packed records, one after the other.
func Unpack(b []byte) ([]Record, error) {
	if len(b)%RecordSize != 0 {
		return nil, fmt.Errorf("read records: %d bytes are not a whole number of records", len(b))
	}
	all := make([]Record, 0, len(b)/RecordSize)
	for ; len(b) > 0; b = b[RecordSize:] {
		r := Record{
			Class: Class(b[0]), Whole: b[1] == 1, Seq: binary.BigEndian.Uint64(b[2:]),
			File:   binary.BigEndian.Uint32(b[10:]),
			Offset: binary.BigEndian.Uint64(b[14:]), Length: binary.BigEndian.Uint32(b[22:]),
			Hash: binary.BigEndian.Uint64(b[26:]),
		}
		if r.Class == 0 || r.Class >= classEnd || b[1] > 1 {
			return nil, fmt.Errorf("read records: %s, %d is not a valid record", r.Class, b[1])
		}
		all = append(all, r)
	}
	return all, nil
}

const (
	magic      = 0x7461726541434b31 // "tareACK1"
	headerSize = 48
	slot       = 4096 // bytes of a record that is overwritten: a page
	appended   = 1600 // bytes of an appended record, not a divisor of a page or a sector
)

// blank is a place that never had a record.
var blank [slot]byte

// errNone means that a place never had a record, or that nothing is left of it.
var errNone = errors.New("there is no record")

// origin determines the contents of all records of a round. Rounds on one disk share the seed, and a block left by an
// older round must not be taken for one of this round.
type origin struct {
	seed  uint64
	round uint32
}

// fill makes the contents of a record: a header, noise from its origin, and in the header the hash of everything else.
func fill(p []byte, r *Record, from origin) {
	clear(p[:headerSize])
	binary.BigEndian.PutUint64(p[0:], magic)
	p[8] = byte(r.Class)
	binary.BigEndian.PutUint32(p[12:], from.round)
	binary.BigEndian.PutUint64(p[16:], r.Seq)
	binary.BigEndian.PutUint32(p[24:], r.File)
	binary.BigEndian.PutUint64(p[28:], r.Offset)
	binary.BigEndian.PutUint32(p[36:], uint32(len(p)))
	rng := rand.NewPCG(from.seed, uint64(from.round)<<40^r.Seq<<8|uint64(r.Class))
	for i := headerSize; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], rng.Uint64())
	}
	r.Length, r.Hash, r.Whole = uint32(len(p)), hash(p), true
	binary.BigEndian.PutUint64(p[40:], r.Hash)
}

func hash(p []byte) uint64 {
	h := fnv.New64a()
	h.Write(p[:40])
	h.Write(p[headerSize:])
	return h.Sum64()
}

// read returns the record at a place, whole or not, or errNone. A place that is not blank, but has no header or one of
// another round, counts as a torn record of unknown number.
func read(p []byte, at Record, round uint32) (Record, error) {
	if bytes.Equal(p, blank[:len(p)]) { // an interpreted processor is slow in loops over bytes
		return Record{}, errNone
	}
	at.Length = uint32(len(p))
	if len(p) < headerSize {
		return at, nil
	}
	at.Hash = hash(p)
	if binary.BigEndian.Uint64(p) != magic || p[8] != byte(at.Class) || binary.BigEndian.Uint32(p[12:]) != round ||
		binary.BigEndian.Uint32(p[24:]) != at.File || binary.BigEndian.Uint64(p[28:]) != at.Offset {
		return at, nil
	}
	at.Seq = binary.BigEndian.Uint64(p[16:])
	at.Whole = binary.BigEndian.Uint32(p[36:]) == at.Length && binary.BigEndian.Uint64(p[40:]) == at.Hash
	return at, nil
}
