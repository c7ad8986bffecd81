package container

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/unit"
)

// throttle is a limit of a container's transfers to or from one block device.
type throttle struct {
	setting, option string
	bytes           bool // its rate is in bytes a second, else in operations
	of              func(*limits) []rate
}

// limits are the limits of control groups, as an engine reports them. The field names are the engines' own.
type limits struct {
	CpuShares                                 int64
	BlkioDeviceReadBps, BlkioDeviceWriteBps   []rate
	BlkioDeviceReadIOps, BlkioDeviceWriteIOps []rate
}

// rate is the limit of one device.
type rate struct {
	Path string
	Rate uint64
}

func throttles() []throttle {
	return []throttle{
		{"read_bps", "--device-read-bps", true, func(l *limits) []rate { return l.BlkioDeviceReadBps }},
		{"write_bps", "--device-write-bps", true, func(l *limits) []rate { return l.BlkioDeviceWriteBps }},
		{"read_iops", "--device-read-iops", false, func(l *limits) []rate { return l.BlkioDeviceReadIOps }},
		{"write_iops", "--device-write-iops", false, func(l *limits) []rate { return l.BlkioDeviceWriteIOps }},
	}
}

// Bounds of a weight, those of the engines: Linux maps them to its own.
const (
	leastWeight = 2
	mostWeight  = 262144
)

// limitSettings declares the settings of control groups.
func limitSettings() []env.Setting {
	all := []env.Setting{{Name: "weight", Default: "1024", Doc: "CPU time against other containers when all want the " +
		"processors, as Docker's --cpu-shares: 2 to 262144", Check: checkWeight}}
	for _, t := range throttles() {
		verb, what := "reads from", "bytes a second, such as /dev/vda:10MiB"
		if strings.HasPrefix(t.setting, "write") {
			verb = "writes to"
		}
		if !t.bytes {
			what = "operations a second, such as /dev/vda:100"
		}
		doc := fmt.Sprintf("limit of %s a block device of the engine's machine, DEVICE:RATE in %s. Where the kernel "+
			"has "+
			"cgroup v1, it holds for direct I/O and reads only", verb, what)
		all = append(all, env.Setting{Name: t.setting, Default: "none", Doc: doc, Moves: env.MovesFiles,
			Check: func(v string) error {
				_, err := t.parse(v)
				return err
			}})
	}
	return all
}

func checkWeight(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < leastWeight || n > mostWeight {
		return fmt.Errorf("%q is not a whole number from %d to %d", v, leastWeight, mostWeight)
	}
	return nil
}

var deviceRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/dev/[A-Za-z0-9][A-Za-z0-9/_.-]*$`) })

// parse reads DEVICE:RATE.
func (t *throttle) parse(v string) (r rate, err error) {
	device, amount, ok := strings.Cut(v, ":")
	if !ok || !deviceRE().MatchString(device) || strings.Contains(device, "..") {
		return r, fmt.Errorf("%q is not DEVICE:RATE, such as /dev/vda:10MiB", v)
	}
	n := int64(0)
	if t.bytes {
		n, err = unit.ParseSize(amount)
	} else {
		n, err = strconv.ParseInt(amount, 10, 64)
	}
	if err != nil || n < 1 {
		return r, fmt.Errorf("%q is not a rate above 0", amount)
	}
	return rate{device, uint64(n)}, nil
}

// limitOptions converts the settings of control groups to the options of `create`.
func limitOptions(s env.Spec) (opts []string, err error) {
	if v := s.Get("weight", ""); v != "" {
		opts = append(opts, "--cpu-shares", v)
	}
	for _, t := range throttles() {
		v := s.Get(t.setting, "")
		if v == "" {
			continue
		}
		r, err := t.parse(v)
		if err != nil {
			return nil, err
		}
		opts = append(opts, t.option, fmt.Sprintf("%s:%d", r.Path, r.Rate))
	}
	return opts, nil
}

// settings are the limits in effect.
func (l *limits) settings(into map[string]string) {
	if l.CpuShares > 0 {
		into["weight"] = strconv.FormatInt(l.CpuShares, 10)
	}
	for _, t := range throttles() {
		for _, r := range t.of(l) {
			if into[t.setting] = fmt.Sprintf("%s:%d", r.Path, r.Rate); t.bytes {
				into[t.setting] = r.Path + ":" + unit.FormatSize(int64(r.Rate))
			}
		}
	}
}

// dropped says which limit the engine did not take: one whose kernel cannot do it drops it with a warning.
func (l *limits) dropped(s env.Spec) error {
	has := map[string]string{}
	l.settings(has)
	for _, d := range limitSettings() {
		if v := s.Get(d.Name, ""); v != "" && has[d.Name] == "" {
			return fmt.Errorf("the engine dropped %s=%s, because its kernel or its control groups have no such limit; "+
				"its own `info` names what is missing", d.Name, v)
		}
	}
	return nil
}
