package verdict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// elides names the way in which a target is known to acknowledge a flush without one; "" when none is known.
func elides(t *Target) string {
	if t == nil {
		return ""
	}
	if d := t.Durability; d != nil && notWaiting[d.Class] {
		return classWords(t.Name, d.Class)
	}
	if t.Mount == nil && t.Outside.Settings["cache"] == "unsafe" {
		return t.Name + " was asked to ignore flushes (cache=unsafe)"
	}
	if t.Mount != nil && (t.Mount.Settings["cache"] == "unsafe" || t.Mount.Settings["strict_sync"] == "off") {
		return t.Name + " was asked to ignore flushes"
	}
	if t.Mount != nil && t.Mount.Type == "tmpfs" || strings.HasPrefix(t.Inside.WorkFS, "tmpfs ") {
		return classWords(t.Name, "memory")
	}
	return ""
}

// target returns the column of that name, or nil.
func (r *Result) target(name string) *Target {
	for i := range r.Targets {
		if r.Targets[i].Name == name {
			return &r.Targets[i]
		}
	}
	return nil
}

// aboveDevice is the least ratio of a figure to the device's own at which a cache is the only explanation.
const aboveDevice = 1.25

// transfer is a figure of file I/O as bytes per second.
type transfer struct {
	target, workload string
	read, random     bool
	direct           bool
	bs               int64 // bytes of a record
	settled          bool  // it differs from its baseline for certain, or is it
	flight           int64 // operations in flight
	mib              float64
}

// deviceFindings tells which figures are a cache's: those above what the baseline's device gives to the same or a
// larger request with its caches bypassed.
func deviceFindings(e *finder, r *Result) []Finding {
	all := e.transfers()
	var device []transfer
	for _, x := range all {
		if x.direct && x.target == e.Plan.Baseline {
			device = append(device, x)
		}
	}
	var out []Finding
	at := map[string]int{}
	worst := map[string]float64{}
	for _, x := range all {
		if x.direct && x.target == e.Plan.Baseline {
			continue
		}
		d, ok := deviceFor(device, x)
		if !ok || x.mib < aboveDevice*d.mib || x.direct && !x.settled {
			continue
		}
		n, known := at[x.target]
		if !known {
			n = len(out)
			at[x.target] = n
			out = append(out, Finding{
				Targets: []string{x.target},
				Remedy: "to measure the disks, set direct=yes on both sides; to measure the whole path, set " +
					"cache=cold or use a file larger than memory; as it is, the caches are measured",
			})
		}
		addWorkload(&out[n], x.workload)
		if over := x.mib / d.mib; over > worst[x.target] {
			worst[x.target] = over
			whose := "the speed of a cache and not of the disk"
			if x.direct {
				whose = "the speed of a cache below it, although it bypasses its own"
			}
			out[n].Text = fmt.Sprintf("%s %s moves %s MiB/s where the device of %s gives %s MiB/s when caches are "+
				"bypassed (%s): that is %s",
				x.target, x.workload, figure(x.mib), d.target, figure(d.mib), d.workload, whose)
		}
	}
	return out
}

// deviceFor finds the device's best figure that bounds x: same direction, requests as large, as many in flight, and not
// random where x is sequential, since a device may be slower at that by itself.
func deviceFor(device []transfer, x transfer) (best transfer, ok bool) {
	for _, d := range device {
		if d.read == x.read && d.bs >= x.bs && d.flight >= x.flight && (!d.random || x.random) && d.mib > best.mib {
			best, ok = d, true
		}
	}
	return best, ok
}

// transfers lists what the file workloads moved, once for each workload, target and direction.
func (e *finder) transfers() []transfer {
	var out []transfer
	seen := map[[3]string]bool{}
	for _, c := range e.cells {
		w, ok := e.Plan.Workload(c.Workload)
		if !ok || c.decision == nil || c.incomparable {
			continue
		}
		x, scale, ok := transferOf(w, c.Metric, c.Unit)
		if !ok {
			continue
		}
		for _, side := range []struct {
			target string
			center float64
			of     *series
		}{{c.Baseline, c.BaselineCenter, c.baseline}, {c.Target, c.Center, c.candidate}} {
			key := [3]string{side.target, c.Workload, c.Metric}
			if seen[key] || !(side.center > 0) {
				continue
			}
			seen[key] = true
			x.target, x.mib = side.target, side.center*scale
			x.settled = c.Verdict == record.Different || side.target == c.Baseline
			x.direct = slices.Equal(stateValues(side.of, "direct"), []string{"true"})
			out = append(out, x)
		}
	}
	return out
}

// mibIn has the factor from each unit of throughput to MiB/s.
var mibIn = map[string]float64{"MiB/s": 1, "KiB/s": 1.0 / 1024}

// transferOf returns the transfer that a metric is a figure of, and the factor from its unit to MiB/s.
func transferOf(w *plan.Workload, metric, in string) (x transfer, scale float64, ok bool) {
	x = transfer{workload: w.Label, bs: whole(w.Params, "bs"),
		flight: max(whole(w.Params, "threads"), 1) * max(whole(w.Params, "qd"), 1)}
	moves := is(w).Columns[metric]
	if all := is(w).Moves; all != nil {
		moves = *all
	}
	x.read, x.random, scale = moves.Read, moves.Random, mibIn[in]
	return x, scale, moves.Device && scale > 0 && x.bs > 0
}

// whole reads a number that a workload may or may not have; 0 without one. A bundle of an older tare lacks parameters.
func whole(p workload.Params, name string) int64 {
	n, err := unit.ParseSize(p[name])
	if err != nil {
		return 0
	}
	return n
}

// alignedKey is the fact that the disk doctor leaves: blocks of the host that a 4 KiB write of the guest touches.
const alignedKey = "disk.guest_blocks_per_write"

// alignmentFindings points at images whose data does not begin where the host's blocks do.
func alignmentFindings(_ *finder, r *Result) []Finding {
	var out []Finding
	at := map[string]int{}
	for i := range r.Targets {
		t := &r.Targets[i]
		n, err := strconv.ParseFloat(diskFact(alignedKey)(t), 64)
		if err != nil || !(n > 1) || math.IsInf(n, 0) {
			continue
		}
		what := "its image"
		if f := diskFact("disk.format")(t); f != "" {
			what = "its " + f + " image"
		}
		said := fmt.Sprintf("a 4 KiB write of the guest touches %.3g blocks of the host, because the data in %s "+
			"does not begin at a block boundary of the host", n, what)
		k, known := at[said]
		if !known {
			k = len(out)
			at[said] = k
			out = append(out, Finding{
				Remedy: "`tare disk inspect` shows where the data begins; recreate the image with an aligned " +
					"offset, or partition the guest's disk at 1 MiB",
			})
		}
		out[k].Targets = append(out[k].Targets, t.Name)
		out[k].Text = strings.Join(out[k].Targets, ", ") + ": " + said
	}
	return out
}

// lacksNFSUDP tells whether a mount failed because the guest's kernel has no NFS over UDP. The server's side puts the
// code before the message.
func lacksNFSUDP(t *Target) bool {
	return t.Error != nil && strings.Contains(t.Error.Message, "nfs-udp-unavailable")
}

func nfsRefusedFindings(e *finder, r *Result) []Finding {
	var out []Finding
	for i := range r.Targets {
		if t := &r.Targets[i]; lacksNFSUDP(t) {
			out = append(out, Finding{
				Targets: []string{t.Name},
				Text: fmt.Sprintf("%s did not open: the guest's kernel (%s) was built without NFS over UDP, as "+
					"most are since Linux 5.6", t.Name, known(e.kernelOf(r, t.Name))),
				Remedy: "use proto=tcp; in a Vagrantfile set nfs_udp: false, because Vagrant's default below NFS " +
					"version 4 is UDP",
			})
		}
	}
	return out
}

// kernelOf is the release of the kernel that a target runs on: of a mount that failed only its environment knows.
func (e *finder) kernelOf(r *Result, name string) string {
	if pe, ok := e.Plan.Target(name); ok {
		name = pe.Place()
	}
	t := r.target(name)
	switch {
	case t == nil:
		return ""
	case t.Inside.Kernel != "":
		return t.Inside.Kernel
	}
	return t.Outside.Kernel
}

func known(s string) string {
	if s == "" {
		return "release not known"
	}
	return s
}

// nfsFindings points at mounts that really run over UDP, whatever was asked for.
func nfsFindings(_ *finder, r *Result) []Finding {
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Mount == nil || !strings.HasPrefix(t.Mount.Type, "nfs") || mountOption(t.Mount, "proto") != "udp" {
			continue
		}
		text := fmt.Sprintf("%s runs NFS over UDP", t.Name)
		if c := worstCell(r, t.Name); c != nil {
			text += fmt.Sprintf("; it costs most in %s (%s against %s)", c.Workload,
				times(c.Ratio.Center, c.Low, c.High), c.Baseline)
		}
		out = append(out, Finding{
			Targets: []string{t.Name}, Text: text,
			Remedy: "use proto=tcp: over UDP one lost fragment repeats the whole request, and recent kernels do not " +
				"support it",
		})
	}
	return out
}

// worstCell is the deciding cell of a target that certainly costs most more; nil when none does.
func worstCell(r *Result, target string) *Cell {
	var worst *Cell
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Primary && c.Target == target && c.Verdict == record.Different && c.Ratio.Center > 1 &&
			(worst == nil || c.Ratio.Center > worst.Ratio.Center) {
			worst = c
		}
	}
	return worst
}

// mountOption returns the value of an effective mount option; "" when it is not there, its name when it has no value.
func mountOption(m *record.Mount, name string) string {
	for _, o := range strings.Split(m.Options, ",") {
		if k, v, _ := strings.Cut(strings.TrimSpace(o), "="); k == name {
			if v == "" {
				return k
			}
			return v
		}
	}
	return ""
}

// figure writes a number with three significant digits and without an exponent.
func figure(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
