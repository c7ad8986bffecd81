package developer

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// project is a generated C project: C99 that all compilers accept. Its program prints one number, which is known in
// advance, so that a wrong build of any unit is detected.
type project struct {
	units, headers, functions int
	seed                      uint64
}

// includesPerUnit is the number of the project's headers that a unit includes; each of these includes some of the
// others.
const includesPerUnit = 12

// stepOf is one function: x*mul + add, then x ^= x >> shift, on 64 bits.
type stepOf struct {
	mul, add uint64
	shift    uint
}

func (s stepOf) apply(x uint64) uint64 {
	x = x*s.mul + s.add
	return x ^ x>>s.shift
}

func (p *project) steps(kind, number, n int) []stepOf {
	g := rand.New(rand.NewPCG(p.seed, uint64(kind)<<32|uint64(number)))
	steps := make([]stepOf, n)
	for i := range steps {
		steps[i] = stepOf{g.Uint64() | 1, g.Uint64(), 7 + g.UintN(40)}
	}
	return steps
}

// Kinds of generated numbers.
const (
	ofUnit = iota
	ofHeader
)

// headersOf lists the headers that unit u includes.
func (p *project) headersOf(u int) []int {
	var out []int
	for i := range min(includesPerUnit, p.headers) {
		out = append(out, (u*5+i*i+i)%p.headers)
	}
	return out
}

// answer is the number that the program prints.
func (p *project) answer() uint64 {
	x := uint64(1)
	for u := range p.units {
		for _, s := range p.steps(ofUnit, u, p.functions) {
			x = s.apply(x)
		}
		for _, h := range p.headersOf(u) {
			x = p.steps(ofHeader, h, 1)[0].apply(x)
		}
	}
	return x
}

// files are the project's files by path.
func (p *project) files() map[string][]byte {
	out := map[string][]byte{"Makefile": p.makefile(), "main.c": p.main()}
	for h := range p.headers {
		out[fmt.Sprintf("include/part%03d.h", h)] = p.header(h)
	}
	for u := range p.units {
		out[fmt.Sprintf("src/unit%04d.c", u)] = p.unit(u)
	}
	return out
}

// makefile builds with POSIX make. Variables on its command line override those in the file.
func (p *project) makefile() []byte {
	var objects strings.Builder
	for u := range p.units {
		fmt.Fprintf(&objects, " src/unit%04d.o", u)
	}
	return fmt.Appendf(nil, `.SUFFIXES: .c .o
CC = cc
AR = ar
CFLAGS = -O1
OBJECTS =%s

program: main.o libunits.a
	$(CC) $(CFLAGS) -o program main.o libunits.a

libunits.a: $(OBJECTS)
	rm -f libunits.a
	$(AR) rc libunits.a $(OBJECTS)

.c.o:
	$(CC) $(CFLAGS) -std=c99 -Iinclude -c -o $@ $<

clean:
	rm -f program libunits.a main.o $(OBJECTS)

check:
	./program > output.txt
	-$(CC) --version > version.txt
`, objects.String())
}

func (p *project) main() []byte {
	var b strings.Builder
	b.WriteString("#include <stdint.h>\n#include <stdio.h>\n\n")
	for u := range p.units {
		fmt.Fprintf(&b, "uint64_t unit%04d(uint64_t x);\n", u)
	}
	b.WriteString("\nint main(void)\n{\n\tuint64_t x = 1;\n")
	for u := range p.units {
		fmt.Fprintf(&b, "\tx = unit%04d(x);\n", u)
	}
	b.WriteString("\tprintf(\"%08lx%08lx\\n\", (unsigned long)(x >> 32), (unsigned long)(x & 0xffffffffu));\n" +
		"\treturn 0;\n}\n")
	return []byte(b.String())
}

// header declares a type, an inline function, and enough more to have the size of a real header.
func (p *project) header(h int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b,
		"#ifndef PART%03d_H\n#define PART%03d_H\n\n#include <stdint.h>\n#include <stddef.h>\n#include <string.h>\n", h,
		h)
	if next := h*2 + 1; next < p.headers {
		fmt.Fprintf(&b, "#include \"part%03d.h\"\n", next)
	}
	fmt.Fprintf(&b, "\nstruct part%03d {\n\tuint64_t key;\n\tconst char *name;\n\tstruct part%03d *next;\n};\n\n", h, h)
	for i := range 10 + h%50 {
		fmt.Fprintf(&b, "/* Says how many entries of kind %d the table of part %d has room for. */\n"+
			"#define PART%03d_LIMIT_%02d %d\nextern size_t part%03d_count_%02d(const struct part%03d *p, int deep);\n",
			i, h, h, i, i*17+h, h, i, h)
	}
	s := p.steps(ofHeader, h, 1)[0]
	fmt.Fprintf(&b, "\nstatic inline uint64_t part%03d_mix(uint64_t x)\n{\n\tx = x * UINT64_C(%d) + UINT64_C(%d);\n"+
		"\treturn x ^ x >> %d;\n}\n\n#endif\n", h, s.mul, s.add, s.shift)
	return []byte(b.String())
}

func (p *project) unit(u int) []byte {
	var b strings.Builder
	b.WriteString("#include <stdlib.h>\n#include <stdio.h>\n#include <errno.h>\n")
	for _, h := range p.headersOf(u) {
		fmt.Fprintf(&b, "#include \"part%03d.h\"\n", h)
	}
	steps := p.steps(ofUnit, u, p.functions)
	for i, s := range steps {
		fmt.Fprintf(&b, "\nstatic uint64_t step%d(uint64_t x, unsigned n)\n{\n\tstruct part%03d list[4];\n"+
			"\tunsigned i;\n\n\tmemset(list, 0, sizeof list);\n"+
			"\tfor (i = 0; i < n; i++) {\n\t\tlist[i & 3].key = x * UINT64_C(%d) + UINT64_C(%d);\n"+
			"\t\tlist[i & 3].next = &list[(i + 1) & 3];\n\t\tswitch (i) {\n\t\tcase 0:\n"+
			"\t\t\tx = list[0].key ^ list[0].key >> %d;\n\t\t\tbreak;\n"+
			"\t\tdefault:\n\t\t\tx = list[i & 3].next->key;\n\t\t}\n\t}\n\treturn x;\n}\n", i, p.headersOf(u)[0], s.mul,
			s.add, s.shift)
	}
	fmt.Fprintf(&b, "\nuint64_t unit%04d(uint64_t x);\n\nuint64_t unit%04d(uint64_t x)\n{\n", u, u)
	for i := range steps {
		fmt.Fprintf(&b, "\tx = step%d(x, 1);\n", i)
	}
	for _, h := range p.headersOf(u) {
		fmt.Fprintf(&b, "\tx = part%03d_mix(x);\n", h)
	}
	b.WriteString("\treturn x;\n}\n")
	return []byte(b.String())
}
