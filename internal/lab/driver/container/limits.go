package container

import (
	"fmt"
	"strconv"
	"strings"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/unit"
)

// throttle is a limit of a container's transfers to or from one block device, with the engines' option.
type throttle struct {
	limited.Throttle
	option string
	of     func(*groupLimits) []rate
}

// groupLimits are the limits of control groups, as an engine reports them. The field names are the engines' own.
type groupLimits struct {
	CpuShares                                 int64
	BlkioDeviceReadBps, BlkioDeviceWriteBps   []rate
	BlkioDeviceReadIOps, BlkioDeviceWriteIOps []rate
}

// rate is the limit of one device.
type rate struct {
	Path string
	Rate uint64
}

func throttles() (all []throttle) {
	of := map[string]func(*groupLimits) []rate{
		"read_bps":   func(l *groupLimits) []rate { return l.BlkioDeviceReadBps },
		"write_bps":  func(l *groupLimits) []rate { return l.BlkioDeviceWriteBps },
		"read_iops":  func(l *groupLimits) []rate { return l.BlkioDeviceReadIOps },
		"write_iops": func(l *groupLimits) []rate { return l.BlkioDeviceWriteIOps },
	}
	for _, t := range limited.Throttles() {
		all = append(all, throttle{t, "--device-" + strings.ReplaceAll(t.Setting, "_", "-"), of[t.Setting]})
	}
	return all
}

// limitSettings declares the settings of control groups.
func limitSettings() []env.Setting {
	all := []env.Setting{{Name: limited.Weight, Default: "1024", Doc: "CPU time against others when all want the " +
		"processors, as Docker's --cpu-shares: 2 to 262144", Check: limited.CheckWeight}}
	for _, t := range throttles() {
		doc := "limit, as its name says, for a block device of the engine's machine: DEVICE:RATE in " + t.Rate()
		all = append(all, env.Setting{Name: t.Setting, Default: "none", Doc: doc, Moves: env.MovesFiles,
			Check: func(v string) error {
				_, err := t.parse(v)
				return err
			}})
	}
	return all
}

// parse reads DEVICE:RATE.
func (t *throttle) parse(v string) (rate, error) {
	device, n, err := t.Parse(v)
	if err == nil && device == "" {
		err = fmt.Errorf("%q is not DEVICE:RATE, such as /dev/vda:10MiB", v)
	}
	return rate{device, n}, err
}

// limitOptions converts the settings of control groups to the options of `create`.
func limitOptions(s env.Spec) (opts []string, err error) {
	if v := s.Get(limited.Weight, ""); v != "" {
		opts = append(opts, "--cpu-shares", v)
	}
	for _, t := range throttles() {
		v := s.Get(t.Setting, "")
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
func (l *groupLimits) settings(into map[string]string) {
	if l.CpuShares > 0 {
		into[limited.Weight] = strconv.FormatInt(l.CpuShares, 10)
	}
	for _, t := range throttles() {
		for _, r := range t.of(l) {
			if into[t.Setting] = fmt.Sprintf("%s:%d", r.Path, r.Rate); t.Bytes {
				into[t.Setting] = r.Path + ":" + unit.FormatSize(int64(r.Rate))
			}
		}
	}
}

// dropped says which limit the engine did not take: one whose kernel cannot do it drops it with a warning.
func (l *groupLimits) dropped(s env.Spec) error {
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
