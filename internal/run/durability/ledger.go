package durability

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tare/internal/measure/workload/durability"
)

// Entry is a line of the ledger: a record that was acknowledged.
type Entry struct {
	Cut    int       `json:"cut"` // the cut that the record had to survive, from 1
	Target string    `json:"target"`
	Time   time.Time `json:"time"` // when its acknowledgement arrived, controller's clock
	Class  string    `json:"class"`
	Seq    uint64    `json:"seq"`
	File   uint32    `json:"file"`
	Offset uint64    `json:"offset"`
	Length uint32    `json:"length"`
	Hash   uint64    `json:"hash"`
}

// Ledger is the controller's list of acknowledged records, in a file that is only appended to.
type Ledger struct {
	file *os.File
	out  *bufio.Writer
	enc  *json.Encoder
}

// CreateLedger makes a ledger at path, which must be new.
func CreateLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	l := &Ledger{file: f, out: bufio.NewWriter(f)}
	l.enc = json.NewEncoder(l.out)
	return l, nil
}

func (l *Ledger) append(cut int, target string, at time.Time, r *durability.Record) error {
	err := l.enc.Encode(Entry{
		Cut: cut, Target: target, Time: at, Class: r.Class.String(), Seq: r.Seq, File: r.File, Offset: r.Offset,
		Length: r.Length, Hash: r.Hash,
	})
	if err != nil {
		return fmt.Errorf("append to ledger: %w", err)
	}
	return nil
}

// sync puts all lines on stable storage.
func (l *Ledger) sync() error {
	err := l.out.Flush()
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

// Close ends the ledger.
func (l *Ledger) Close() error { return errors.Join(l.sync(), l.file.Close()) }

// account has the records that one round has acknowledged so far. It is closed before the plug is pulled.
type account struct {
	ledger *Ledger
	cut    int
	target string

	mu      sync.Mutex
	closed  bool
	records []durability.Record
	seen    map[durability.Class]int
	changed chan struct{} // has a token when there is something new
}

func newAccount(l *Ledger, cut int, target string) *account {
	return &account{ledger: l, cut: cut, target: target, seen: map[durability.Class]int{},
		changed: make(chan struct{}, 1)}
}

// tell takes packed records from the agent.
func (a *account) tell(packed []byte) error {
	rs, err := durability.Unpack(packed)
	if err != nil {
		return err
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	for i := range rs {
		if err := a.ledger.append(a.cut, a.target, now, &rs[i]); err != nil {
			return err
		}
		a.records = append(a.records, rs[i])
		a.seen[rs[i].Class]++
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return nil
}

// has tells whether every class was acknowledged at least once.
func (a *account) has(classes []durability.Class) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range classes {
		if a.seen[c] == 0 {
			return false
		}
	}
	return true
}

// close ends the counting and returns what counts, which is then on stable storage.
func (a *account) close() ([]durability.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.records, a.ledger.sync()
}
