package mysql

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Stmt is a prepared statement of a connection.
type Stmt struct {
	Params  int // number of parameters
	Columns int // of the result, 0 if there is none or the server does not know

	id uint32
}

// Type is the type of a parameter.
type Type byte

// The types of parameters, with their numbers in the protocol.
const (
	Null   Type = 6
	Int    Type = 8
	Uint   Type = 9 // in the protocol, Int with a flag
	Double Type = 5
	Text   Type = 253
	Blob   Type = 252
)

// Param is a value for a parameter.
type Param struct {
	Type   Type
	Number uint64 // of Int: two's complement; of Double: its IEEE 754 bits
	Text   []byte
}

// TextParam returns text.
func TextParam(b []byte) Param { return Param{Type: Text, Text: b} }

// NullParam returns NULL.
func NullParam() Param { return Param{Type: Null} }

// IntParam returns a signed number.
func IntParam(n int64) Param { return Param{Type: Int, Number: uint64(n)} }

// UintParam returns an unsigned number.
func UintParam(n uint64) Param { return Param{Type: Uint, Number: n} }

// DoubleParam returns a floating-point number.
func DoubleParam(f float64) Param { return Param{Type: Double, Number: math.Float64bits(f)} }

// Prepare prepares a statement.
func (c *Conn) Prepare(text []byte) (*Stmt, error) {
	if err := c.command(comStmtPrepare, text); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	kind, err := c.first()
	if err != nil {
		return nil, err
	}
	if kind == 0xff {
		return nil, c.serverError()
	}
	p, err := c.whole(maxError)
	if err != nil {
		return nil, err
	}
	if len(p) < 12 || kind != 0 {
		return nil, c.violation("an invalid answer to the preparation of a statement")
	}
	s := &Stmt{
		id: binary.LittleEndian.Uint32(p[1:]), Columns: int(binary.LittleEndian.Uint16(p[5:])),
		Params: int(binary.LittleEndian.Uint16(p[7:])),
	}
	for _, n := range []int{s.Params, s.Columns} {
		if n > 0 {
			if err := c.definitions(n, nil); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Execute runs a prepared statement and reads all results, as Query does.
func (c *Conn) Execute(s *Stmt, params []Param, r *Result) error {
	if len(params) != s.Params {
		return fmt.Errorf("execute a prepared statement: %d values for %d parameters", len(params), s.Params)
	}
	if c.dead != nil {
		return c.dead
	}
	if r == nil {
		c.unseen = Result{}
		r = &c.unseen
	}
	if c.r != c.w {
		return c.command(comStmtExecute, nil) // returns the error for unexpected data
	}
	c.seq = 0
	c.out = append(c.out[:0], 0, 0, 0, 0, comStmtExecute)
	c.out = binary.LittleEndian.AppendUint32(c.out, s.id)
	c.out = append(c.out, 0, 1, 0, 0, 0) // no cursor; one execution
	if len(params) > 0 {
		nulls := len(c.out)
		c.out = append(c.out, make([]byte, (len(params)+7)/8)...)
		c.out = append(c.out, 1) // the types follow
		for i := range params {
			kind, flag := params[i].Type, byte(0)
			switch kind {
			case Null:
				c.out[nulls+i/8] |= 1 << (i % 8)
			case Uint:
				kind, flag = Int, 0x80
			}
			c.out = append(c.out, byte(kind), flag)
		}
		for i := range params {
			switch params[i].Type {
			case Null:
			case Int, Uint, Double:
				c.out = binary.LittleEndian.AppendUint64(c.out, params[i].Number)
			default:
				c.out = appendLenenc(c.out, uint64(len(params[i].Text)))
				c.out = append(c.out, params[i].Text...)
			}
		}
	}
	if err := c.send(nil); err != nil {
		return err
	}
	return c.results(r, true)
}

// CloseStmt closes a prepared statement. The server does not answer.
func (c *Conn) CloseStmt(s *Stmt) error {
	return c.command(comStmtClose, c.number(s))
}

// ResetStmt resets a prepared statement: an open cursor and long data.
func (c *Conn) ResetStmt(s *Stmt) error {
	return c.simple(comStmtReset, c.number(s))
}

func (c *Conn) number(s *Stmt) []byte { return binary.LittleEndian.AppendUint32(c.four[:0], s.id) }
