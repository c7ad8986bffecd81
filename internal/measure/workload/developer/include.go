package developer

import (
	"context"
	"fmt"
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
)

// The proportions of dev.compile are those of a real build, of Lua (https://github.com/lua/lua, commit 53b41d0c, 34
// translation units) with gcc 12.2 and binutils 2.40:
//
//	strace -f -y -e trace=%file,%desc -o trace make LOCAL=
//
// where one translation unit takes, without starting programs and without the system's folders:
//
//	130 openat of headers that are not there, in folders earlier on the include path
//	102 headers found: openat, fstat, one read of all of it, close; 148 headers in all, half of them below 1.9 KB
//	  2 looks of make at source and object, 2 of the assembler at an object that is not there yet
//	 12 writes of the object, 16 KB in all, and 8 reads of it while it is assembled
//	 15 reads of the object and 2 writes of the archive by ar and ranglib; 19 reads of the archive and 9 writes by ld
//
// Left out are files outside the project's folder (the compiler's own files, the assembler's input in TMPDIR), the 950
// readlinks by which cc1 resolves the path of each header (a path without links is resolved from memory), and the
// second reading of the source for diagnostics. lseek and read are one pread.
const (
	headerClasses  = 34 // sizes, see headerSizes
	headerVariants = 4  // headers of each size
	headersPerUnit = headerClasses * (headerVariants - 1)
	includeDirs    = 5
	sourceSize     = 23_000
	objectReads    = 8
	archiveReads   = 15
	archiveWrites  = 2
	linkReads      = 19
	linkWrites     = 9
	linkWrite      = 1060     // bytes
	readWhole      = 32 << 10 // bytes per read: more than any source or header has
)

// headerSizes are 34 mid-quantiles of the reads of headers in that build.
var headerSizes = [headerClasses]int{
	159, 206, 330, 398, 398, 398, 481, 867, 970, 1049, 1109, 1188, 1283, 1385, 1503, 1810, 1905,
	2283, 2867, 3176, 3737, 3912, 4286, 4508, 5706, 6355, 7036, 8933, 13275, 13275, 13275, 14561, 19460, 26665,
}

// headerDir is the folder of the include path that contains the headers of each class; the folders before it are
// searched in vain. The sum over the headers of a unit is 129.
var headerDir = [headerClasses]int{
	0, 1, 0, 2, 0, 4, 0, 1, 0, 3, 1, 0, 2, 0, 4, 1, 0, 2, 0, 1, 4, 0, 3, 0, 1, 2, 0, 4, 1, 0, 3, 2, 0, 1,
}

// objectWrites are the writes of one object: 12 mid-quantiles of the writes of objects in that build, 16.4 KB.
var objectWrites = [...]int{64, 4096, 768, 122, 4032, 448, 1688, 64, 2784, 1000, 185, 1216}

// objectSize is the size of an object, in bytes.
func objectSize() (n int) {
	for _, w := range objectWrites {
		n += w
	}
	return n
}

// included is one header as a unit includes it.
type included struct {
	misses []name // where it is looked for first
	at     name
	size   int
}

func headerPath(dir, class, variant int) string {
	return fmt.Sprintf("include%d/%s_%s%d.h", dir, stems[class%len(stems)], stems[(class*7+3)%len(stems)],
		class*headerVariants+variant)
}

func sourcePath(unit int) string { return fmt.Sprintf("src/unit%04d.c", unit) }

// Where the results of a build lie.
const (
	archivePath = "lib.a"
	programPath = "program"
)

func objectPath(unit int) string { return fmt.Sprintf("unit%04d.o", unit) }

// headers lists what unit number u includes: of each class all variants but one, so that all units read the same amount
// and each leaves out different headers.
func (s *site) headers(u int, all [headerClasses][headerVariants]included) []included {
	out := make([]included, 0, headersPerUnit)
	for k := range headersPerUnit + headerClasses {
		class, variant := k%headerClasses, k/headerClasses
		if variant != (u+class)%headerVariants {
			out = append(out, all[class][variant])
		}
	}
	return out
}

// plantProject makes the headers and sources, which outlive a trial, and the folders for objects.
func (c *compile) plantProject(ctx context.Context, b *workload.Bench) error {
	key := fmt.Sprintf("project of %d units, seed %d, form 1", c.units, b.Seed)
	bytes := int64(c.units)*(sourceSize+4096) + headerClasses*headerVariants*8192 + 1<<20
	pool := make([]byte, readWhole)
	fileio.FillRandom(pool, b.Seed)
	err := c.ensure(ctx, b, "project", key, bytes, int64(c.units)+headerClasses*headerVariants+includeDirs+2,
		func(ctx context.Context) error {
			for class := range headerClasses {
				for v := range headerVariants {
					if err := c.write(headerPath(headerDir[class], class, v), pool[:headerSizes[class]]); err != nil {
						return err
					}
				}
			}
			for u := range c.units {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := c.write(sourcePath(u), pool[:sourceSize]); err != nil {
					return err
				}
			}
			return nil
		})
	b.Check("project", fileio.Digest([]byte(strings.Join([]string{key, fileio.Digest(pool)}, " "))))
	return err
}

// nameAll makes the names of everything a build touches.
func (c *compile) nameAll() {
	var all [headerClasses][headerVariants]included
	for class := range headerClasses {
		for v := range headerVariants {
			h := included{size: headerSizes[class], at: c.from.name(headerPath(headerDir[class], class, v))}
			for d := range headerDir[class] {
				h.misses = append(h.misses, c.from.name(headerPath(d, class, v)))
			}
			all[class][v] = h
		}
	}
	for v := range headerVariants {
		c.include[v] = c.headers(v, all)
	}
	for u := range c.units {
		c.sources = append(c.sources, c.from.name(sourcePath(u)))
		c.objects = append(c.objects, c.to.name(objectPath(u)))
		c.temporary = append(c.temporary, c.to.name(objectPath(u)+".tmp"))
	}
	c.archive, c.program = c.to.name(archivePath), c.to.name(programPath)
}
