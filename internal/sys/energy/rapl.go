package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// rapl are the counters of the processors: zones of the kernel's class powercap.
type rapl struct {
	sys   string
	zones []zone // nil until they were looked for
}

// zone is a counter: of a package (a processor with all that is on its chip), of the memory at it, or of a part of it.
type zone struct {
	dir, name string
	most      float64
	inside    bool
}

// raplLeast is the least time between two readings: the processor adds to its counters once in about a millisecond.
const raplLeast = 50 * time.Millisecond

// Name implements Source.
func (r *rapl) Name() string { return RAPL }

// Read implements Source.
func (r *rapl) Read(context.Context) (Reading, error) {
	if r.zones == nil {
		var err error
		if r.zones, err = zones(r.sys); err != nil {
			return Reading{}, err
		}
	}
	got := Reading{Began: time.Now(), least: raplLeast}
	for _, z := range r.zones {
		v, err := count(z.dir, "energy_uj")
		if errors.Is(err, fs.ErrPermission) {
			return Reading{}, errors.New("the counters of the processor's energy (RAPL) may be read by root only, as " +
				"they tell of what other programs do (Linux, since 2020)")
		}
		if err != nil {
			return Reading{}, fmt.Errorf("read the energy of %s: %w", z.name, err)
		}
		got.counters = append(got.counters, counter{name: z.name, value: v, joules: 1e-6, most: z.most, step: 1,
			inside: z.inside})
	}
	got.Ended = time.Now()
	return got, nil
}

// prefix of the zones that are counters of the processor itself. Beside them the kernel may show the same ones as
// intel-rapl-mmio; they are not counted twice. Those of AMD have this name, too.
const raplPrefix = "intel-rapl:"

// zones finds the counters. The sum is of packages and memory: the parts of a package (core, uncore) are in its
// counter, and a whole platform (psys) has the packages in it.
func zones(sys string) (all []zone, err error) {
	names := map[string]string{}
	sum, platform := false, -1
	for _, entry := range class(sys, "powercap") {
		number, ok := strings.CutPrefix(entry, raplPrefix)
		if !ok {
			continue
		}
		z := zone{dir: filepath.Join(sys, "class", "powercap", entry)}
		if z.name, err = text(z.dir, "name"); err != nil {
			return nil, fmt.Errorf("read the name of %s: %w", entry, err)
		}
		if z.most, err = count(z.dir, "max_energy_range_uj"); err != nil || z.most == 0 {
			return nil, fmt.Errorf("it is not known when the counter of %s starts again at 0", z.name)
		}
		names[number] = z.name
		of, _, part := strings.Cut(number, ":")
		switch {
		case z.name == "psys":
			z.inside, platform = true, len(all)
		case part:
			z.inside = z.name != "dram"
			z.name = strings.TrimSpace(names[of] + " " + z.name)
		default:
			sum = true
		}
		all = append(all, z)
	}
	if !sum && platform >= 0 {
		all[platform].inside = false
	}
	if len(all) == 0 {
		return nil, errors.New("there are no counters of the processor's energy (RAPL) in /sys/class/powercap: they " +
			"are for Linux on real hardware, and virtual machines do not show them")
	}
	return all, nil
}
