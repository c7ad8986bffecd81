package matrix

import (
	"fmt"
	"slices"
	"strings"

	"tare/internal/suggest"
)

// Op is an operation of the matrix: a column of iozone's table.
type Op int64

// The operations, in the order in which a pass does them.
const (
	Write Op = iota
	Rewrite
	Read
	Reread
	RandRead
	RandWrite
	BkwdRead
	RecRewrite
	StrideRead
	Fwrite
	Frewrite
	Fread
	Freread
	numOps
)

// column describes an operation.
type column struct {
	name   string // of the metric, and in the parameter ops
	test   int    // iozone's -i
	title  string // of the table that iozone -R prints
	width  int    // of the column that iozone prints
	writes bool
	stdio  bool
	doc    string
}

var columns = [numOps]column{
	Write:    {"write", 0, "Writer report", 9, true, false, "records written in order to an empty file"},
	Rewrite:  {"rewrite", 0, "Re-writer report", 9, true, false, "records written in order in place"},
	Read:     {"read", 1, "Reader report", 9, false, false, "records read in order"},
	Reread:   {"reread", 1, "Re-Reader report", 9, false, false, "records read in order right after they were read"},
	RandRead: {"randread", 2, "Random read report", 9, false, false, "every record read once in a random order"},
	RandWrite: {"randwrite", 2, "Random write report", 9, true, false,
		"every record written once in place in a random order"},
	BkwdRead:   {"bkwdread", 3, "Backward read report", 9, false, false, "records read from the last to the first"},
	RecRewrite: {"recrewrite", 4, "Record rewrite report", 10, true, false, "the first record written again and again"},
	StrideRead: {"strideread", 5, "Stride read report", 10, false, false, "records read 17 apart"},
	Fwrite:     {"fwrite", 6, "Fwrite report", 9, true, true, "records written through a stdio buffer of one record"},
	Frewrite:   {"frewrite", 6, "Re-Fwrite report", 9, true, true, "records written through a stdio buffer again"},
	Fread:      {"fread", 7, "Fread report", 9, false, true, "records read through a stdio buffer of one record"},
	Freread:    {"freread", 7, "Re-Fread report", 9, false, true, "records read through a stdio buffer again"},
}

// String returns the operation's name, which is also its metric's.
func (o Op) String() string { return columns[o].name }

// Title returns the title of the table that iozone's -R prints of the operation.
func (o Op) Title() string { return columns[o].title }

// Test returns the number that iozone's -i has for the operation, 0 to 7.
func (o Op) Test() int { return columns[o].test }

// AllOps returns the thirteen operations in order.
func AllOps() []Op {
	ops := make([]Op, numOps)
	for i := range ops {
		ops[i] = Op(i)
	}
	return ops
}

// ParseOps reads a list of names separated by commas or blanks, or "all", and returns the operations in the order in
// which a pass does them, each once.
func ParseOps(list string) ([]Op, error) {
	fields := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '+' })
	if len(fields) == 1 && fields[0] == "all" {
		return AllOps(), nil
	}
	names := make([]string, numOps)
	for i := range names {
		names[i] = columns[i].name
	}
	var ops []Op
	for _, f := range fields {
		i := slices.Index(names, f)
		if i < 0 {
			return nil, fmt.Errorf("ops: there is no operation %q%s", f,
				suggest.MeantOrAll(f, append(names, "all"), "there are:"))
		}
		if !slices.Contains(ops, Op(i)) {
			ops = append(ops, Op(i))
		}
	}
	if len(ops) == 0 {
		return nil, fmt.Errorf("ops: the list is empty; name some of %s, or write all", strings.Join(names, ", "))
	}
	slices.Sort(ops)
	return ops, nil
}

// Tests returns the operations that iozone does for the numbers given with -i, in order; all of them for none.
func Tests(numbers []int) ([]Op, error) {
	if len(numbers) == 0 {
		return AllOps(), nil
	}
	var ops []Op
	for _, n := range numbers {
		if n < 0 || n > 7 {
			return nil, fmt.Errorf("test %d is not in the matrix: choose 0 write, 1 read, 2 random, 3 backward, 4 "+
				"record rewrite, 5 stride, 6 fwrite or 7 fread", n)
		}
	}
	for _, o := range AllOps() {
		if slices.Contains(numbers, o.Test()) {
			ops = append(ops, o)
		}
	}
	return ops, nil
}
