package restore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// rows counts and hashes the rows of each table, in the server or in the dump.
func (t *trial) rows() (count [tableCount]int64, digest [tableCount]string, err error) {
	if t.load {
		return t.database.rows()
	}
	f, err := os.Open(t.merged())
	if err != nil {
		return count, digest, err
	}
	defer f.Close()
	return sumDump(f)
}

// sumDump counts and hashes the rows in a dump.
func sumDump(r io.Reader) (count [tableCount]int64, digest [tableCount]string, err error) {
	l := newLines("merged dump")
	l.reset(r)
	var h hash.Hash
	at := -1
	for i := range digest {
		digest[i] = hex.EncodeToString(sha256.New().Sum(nil))
	}
	for {
		line, err := l.next()
		if err == io.EOF {
			if at >= 0 {
				err = fmt.Errorf("the rows of %s have no end mark", tables[at].name)
				return count, digest, err
			}
			return count, digest, nil
		}
		if err != nil {
			return count, digest, err
		}
		switch {
		case at >= 0 && string(line) == string(endOfCopy):
			digest[at], at = hex.EncodeToString(h.Sum(nil)), -1
		case at >= 0:
			h.Write(line)
			count[at]++
		default:
			if name, ok := copyTable(line); ok {
				if at = tableNumber(name); at < 0 {
					return count, digest, l.wrong("there is no table %.60q", name)
				}
				h = sha256.New()
			}
		}
	}
}

func tableNumber(name string) int {
	for i, t := range tables {
		if t.name == name {
			return i
		}
	}
	return -1
}
