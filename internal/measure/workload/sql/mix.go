package sql

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/sys/sql/trace"
)

// The mixes, which are sysbench's scripts.
const (
	mixPoint     = "point"      // oltp_point_select
	mixReadOnly  = "read-only"  // oltp_read_only
	mixReadWrite = "read-write" // oltp_read_write
	mixWriteOnly = "write-only" // oltp_write_only
)

// arg is the kind of a statement's parameter.
type arg uint8

const (
	argID  arg = iota // a row's number, which begins the range if there is one
	argEnd            // the number of the range's last row
	argKey            // a value of k
	argText
	argPad
)

func (a arg) kind() trace.Type {
	if a == argText || a == argPad {
		return trace.Text
	}
	return trace.Int
}

// mixStatement is one statement of a step. In its text # is the number of the table and ? a parameter, in quotes if it
// is text.
type mixStatement struct {
	text string
	args []arg
}

// step is a part of a transaction: statements that are repeated, with other rows of the same table.
type step struct {
	param      string // the name of the kind's parameter with the number of repetitions
	doc        string
	times      string // the default
	writes     bool
	statements []mixStatement
}

var steps = []step{
	{"points", "selections of a row by its key", "10", false, []mixStatement{
		{"SELECT c FROM sbtest# WHERE id=?", []arg{argID}}}},
	{"simple-ranges", "selections of a range", "1", false, []mixStatement{
		{"SELECT c FROM sbtest# WHERE id BETWEEN ? AND ?", []arg{argID, argEnd}}}},
	{"sum-ranges", "sums over a range", "1", false, []mixStatement{
		{"SELECT SUM(k) FROM sbtest# WHERE id BETWEEN ? AND ?", []arg{argID, argEnd}}}},
	{"order-ranges", "selections of a range that are sorted", "1", false, []mixStatement{
		{"SELECT c FROM sbtest# WHERE id BETWEEN ? AND ? ORDER BY c", []arg{argID, argEnd}}}},
	{"distinct-ranges", "selections of different values in a range", "1", false, []mixStatement{
		{"SELECT DISTINCT c FROM sbtest# WHERE id BETWEEN ? AND ? ORDER BY c", []arg{argID, argEnd}}}},
	{"index-updates", "changes of an indexed column", "1", true, []mixStatement{
		{"UPDATE sbtest# SET k=k+1 WHERE id=?", []arg{argID}}}},
	{"other-updates", "changes of a column without an index", "1", true, []mixStatement{
		{"UPDATE sbtest# SET c='?' WHERE id=?", []arg{argText, argID}}}},
	{"delete-inserts", "deletions of a row, each with an insertion of the same row", "1", true, []mixStatement{
		{"DELETE FROM sbtest# WHERE id=?", []arg{argID}},
		{"INSERT INTO sbtest# (id, k, c, pad) VALUES (?, ?, '?', '?')", []arg{argID, argKey, argText, argPad}}}},
}

// mixParams are the parameters of the kind sql.oltp that say what a transaction does.
func mixParams() []workload.Param {
	params := []workload.Param{
		{Name: "mix", Type: workload.Choice, Default: mixReadOnly,
			Choices: []string{mixPoint, mixReadOnly, mixReadWrite, mixWriteOnly},
			Doc: "point: one selection of a row by its key, without BEGIN and COMMIT; read-only, " +
				"read-write, write-only: the reads or writes that the parameters below count"},
		{Name: "range", Type: workload.Int, Default: "100", Min: 1, Max: 1_000_000, Doc: "rows of a " +
			"range"},
	}
	for _, s := range steps {
		params = append(params, workload.Param{Name: s.param, Type: workload.Int, Default: s.times, Max: 1000,
			Doc: s.doc})
	}
	return params
}

// mix has the statements of a transaction.
type mix struct {
	explicit bool // it has BEGIN and COMMIT
	writes   bool
	steps    []mixStep
	width    int64 // rows of a range
}

type mixStep struct {
	times      int
	statements []*compiled
}

// compiled is a statement for all tables.
type compiled struct {
	id    uint32 // of the prepared statement for the first table; those of the others follow
	args  []arg
	types []trace.Type // of the parameters
	parts [][][]byte   // by table: the text before, between and after the parameters
}

// newMix compiles the statements for a number of tables.
func newMix(p workload.Params, count int) (*mix, error) {
	name := p["mix"]
	m := &mix{explicit: name != mixPoint, width: p.Int("range")}
	id := uint32(1)
	for i, s := range steps {
		times := int(p.Int(s.param))
		switch {
		case name == mixPoint:
			times = 0
			if i == 0 {
				times = 1
			}
		case s.writes && name == mixReadOnly, !s.writes && name == mixWriteOnly:
			times = 0
		}
		if times == 0 {
			continue
		}
		m.writes = m.writes || s.writes
		step := mixStep{times: times}
		for _, statement := range s.statements {
			step.statements = append(step.statements, statement.compile(id, count))
			id += uint32(count)
		}
		m.steps = append(m.steps, step)
	}
	if len(m.steps) == 0 {
		return nil, fmt.Errorf("mix=%s: a transaction would have no statement", name)
	}
	return m, nil
}

func (s mixStatement) compile(id uint32, tables int) *compiled {
	c := &compiled{id: id, args: s.args}
	for _, a := range s.args {
		c.types = append(c.types, a.kind())
	}
	for table := range tables {
		text := strings.ReplaceAll(s.text, "#", strconv.Itoa(table+1))
		c.parts = append(c.parts, bytes.Split([]byte(text), []byte("?")))
	}
	return c
}

// prepared returns the text to prepare for a table.
func (c *compiled) prepared(table int, numbered bool) []byte {
	var text []byte
	for i, part := range c.parts[table] {
		if i > 0 {
			text = append(text, '?')
			if numbered {
				text = append(text[:len(text)-1], '$', byte('0'+i))
			}
		}
		text = append(text, bytes.ReplaceAll(part, []byte("'"), nil)...)
	}
	return text
}

// prepare prepares the statements of a mix.
func (m *mix) prepare(c client) error {
	_, numbered := c.(*postgresClient)
	for _, s := range m.steps {
		for _, statement := range s.statements {
			for table := range statement.parts {
				text := statement.prepared(table, numbered)
				if err := c.prepare(statement.id+uint32(table), nil, text); err != nil {
					return fmt.Errorf("prepare %s: %w", text, err)
				}
			}
		}
	}
	return nil
}

// statementsOf is the number of statements of a transaction.
func (m *mix) statementsOf() (n int) {
	if m.explicit {
		n = 2
	}
	for _, s := range m.steps {
		n += s.times * len(s.statements)
	}
	return n
}

// maxArgs is the largest number of parameters of a statement.
const maxArgs = 4
