package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
)

// mbwMiB is the size of each array.
const mbwMiB = 256

//go:embed testdata/mbw20.c
var mbwSource []byte

// mbwOwnRow compares a copy with the definition of mbw 2.0, compiled here.
func mbwOwnRow(method string) row {
	return row{
		name: "mbw-2.0-" + method, what: strings.ToUpper(method) +
			fmt.Sprintf(" of two arrays of %d MiB, as mbw 2.0 defines it", mbwMiB), peer: "C, gcc -O2",
		programs: []string{"gcc"},
		figures:  []figure{{unit: "MiB/s", goal: 0.98, agrees: true}},
		open: func(ctx context.Context, b *bench) (*contest, error) {
			program := filepath.Join(b.dir, "mbw20")
			if err := compile(ctx, program, mbwSource); err != nil {
				return nil, err
			}
			return openCopy(ctx, b, map[string]string{"method": method}, func(passes int64) []string {
				return []string{program, method, strconv.Itoa(mbwMiB), "262144", strconv.FormatInt(passes, 10)}
			})
		},
	}
}

// compile makes a program from C source.
func compile(ctx context.Context, out string, source []byte, options ...string) error {
	if err := os.WriteFile(out+".c", source, 0o600); err != nil {
		return err
	}
	argv := append([]string{"gcc", "-O2", "-Wall", "-Werror", "-o", out, out + ".c"}, options...)
	if _, err := program(ctx, argv...); err != nil {
		return fmt.Errorf("compile %s.c: %w", filepath.Base(out), err)
	}
	return nil
}

// mbwPackagedRow compares a copy with the distribution's mbw, under what it does and not what it calls it.
func mbwPackagedRow(method string) row {
	return row{
		name: "mbw-packaged-" + method, what: strings.ToUpper(method) +
			fmt.Sprintf(" of two arrays of %d MiB, as the distribution's mbw does it", mbwMiB), peer: "mbw",
		programs: []string{"mbw"},
		figures:  []figure{{unit: "MiB/s", goal: 0.98, agrees: true}},
		open: func(ctx context.Context, b *bench) (*contest, error) {
			version, err := mbwVersion(ctx)
			if err != nil {
				return nil, err
			}
			labels, label, err := mbwLabels(version, method)
			if err != nil {
				return nil, err
			}
			option := map[string]string{"memcpy": "-t0", "dumb": "-t1", "mcblock": "-t2"}[label]
			return openCopy(ctx, b, map[string]string{"method": label, "labels": labels}, func(passes int64) []string {
				return []string{"mbw", "-q", "-n", strconv.FormatInt(passes, 10), option, strconv.Itoa(mbwMiB)}
			})
		},
	}
}

// openCopy compares memory.copy with a program that copies as often and prints mbw's report.
func openCopy(ctx context.Context, b *bench, params map[string]string,
	argvFor func(passes int64) []string) (*contest, error) {
	params["size"] = fmt.Sprintf("%dMiB", mbwMiB)
	w, err := b.weigh(ctx, "memory.copy", params)
	if err != nil {
		return nil, err
	}
	argv := argvFor(w.work)
	return &contest{
		tare: w.metric("mib_per_second"),
		peer: func(ctx context.Context) ([]float64, error) {
			out, err := program(ctx, argv...)
			if err != nil {
				return nil, err
			}
			r, err := parseMbw(string(out))
			if err != nil {
				return nil, err
			}
			if r.passes != w.work || r.mib != mbwMiB {
				return nil, fmt.Errorf("%s did %d passes of %g MiB where %d of %d MiB were asked for: the work is "+
					"not the same", argv[0], r.passes, r.mib, w.work, mbwMiB)
			}
			return []float64{r.rate}, nil
		},
		notes: []string{w.note("passes"), filepath.Base(argv[0]) + ": `" +
			strings.Join(append([]string{filepath.Base(argv[0])}, argv[1:]...), " ") + "`"},
		after: w.doubts,
		close: w.close,
	}, nil
}

// mbwVersion asks the package manager, because mbw does not tell its version.
func mbwVersion(ctx context.Context) (string, error) {
	if _, err := proc.LookPath("dpkg-query"); err != nil {
		return "", missing{"mbw does not tell its version, and there is no dpkg-query to ask"}
	}
	out, err := program(ctx, "dpkg-query", "--show", "--showformat=${Version}", "mbw")
	if err != nil {
		return "", fmt.Errorf("ask for mbw's version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

var versionRE = regexp.MustCompile(`^(?:[0-9]+:)?([0-9]{1,4})\.([0-9]{1,4})`)

// mbwLabels tells under which of tare's labels, and under which method's name, a version of mbw does what method stands
// for. Versions below 1.3 have MEMCPY and DUMB the wrong way round, and their MCBLOCK copies one block again and again;
// in 1.3 only the names are wrong.
func mbwLabels(version, method string) (labels, label string, err error) {
	m := versionRE.FindStringSubmatch(version)
	if m == nil {
		return "", "", fmt.Errorf("read mbw's version: %.40q does not begin with two numbers", version)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	switch {
	case major > 1 || minor >= 4:
		return "mbw-2.0", method, nil
	case major == 1 && minor == 3:
		return "", "", missing{"mbw 1.3 is neither 1.2 nor 2.0, the definitions that tare has"}
	case method == "mcblock":
		return "mbw-1.2", method, nil
	}
	return "mbw-1.2", map[string]string{"memcpy": "dumb", "dumb": "memcpy"}[method], nil
}

// mbwReport is what mbw prints, over all passes.
type mbwReport struct {
	passes int64
	mib    float64 // of one pass
	rate   float64 // MiB/s
}

var (
	mbwPass = regexp.MustCompile(`(?m)^[0-9]+\tMethod: `)
	mbwAvg  = regexp.MustCompile(`(?m)^AVG\tMethod: [A-Z]+\tElapsed: ([0-9.]+)\tMiB: ([0-9.]+)\tCopy: ([0-9.]+) MiB/s$`)
)

// parseMbw reads the report of one method: a line for each pass and their average.
func parseMbw(out string) (r mbwReport, err error) {
	m := mbwAvg.FindAllStringSubmatch(out, 2)
	if len(m) != 1 {
		return r, fmt.Errorf("read mbw's report: it has %d averages instead of one: %.200q", len(m), out)
	}
	r.passes = int64(len(mbwPass.FindAllStringIndex(out, -1)))
	if r.mib, err = strconv.ParseFloat(m[0][2], 64); err == nil {
		r.rate, err = strconv.ParseFloat(m[0][3], 64)
	}
	if err == nil && r.rate <= 0 {
		err = fmt.Errorf("%v MiB/s", r.rate)
	}
	if err != nil {
		return r, fmt.Errorf("read mbw's report: %w", err)
	}
	return r, nil
}
