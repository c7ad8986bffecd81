package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// ownerSpace is the XML name space of what tare writes into a domain.
const ownerSpace = "https://tare.invalid/owner"

// owner is the run and the process of tare that made a domain.
type owner struct {
	leftover.Owner
	machine string // the scope of the process id
	run     string
}

func thisProcess(runID string) owner {
	self, _ := leftover.Self()
	return owner{self, leftover.Scope(), runID}
}

func (o owner) node() *node {
	return el("tare:owner", "xmlns:tare", ownerSpace, "run", o.run, "machine", o.machine, "pid", strconv.Itoa(o.PID),
		"start", o.Start)
}

// dead tells whether the process that a domain names has certainly ended.
func (o owner) dead(scope string) bool { return o.PID > 0 && o.machine == scope && !o.Alive() }

// readOwner reads the owner from a domain's XML; ok is false for a domain that tare did not make.
func readOwner(text string) (o owner, ok bool) {
	var d struct {
		Metadata struct {
			Owner *struct {
				Run     string `xml:"run,attr"`
				Machine string `xml:"machine,attr"`
				PID     string `xml:"pid,attr"`
				Start   string `xml:"start,attr"`
			} `xml:"https://tare.invalid/owner owner"`
		} `xml:"metadata"`
	}
	if len(text) > maxXML || xml.Unmarshal([]byte(text), &d) != nil || d.Metadata.Owner == nil {
		return o, false
	}
	w := d.Metadata.Owner
	maker, err := leftover.ParseOwner(w.PID + " " + w.Start)
	if err != nil {
		return o, false
	}
	return owner{maker, w.Machine, w.Run}, true
}

// clean destroys the domains of killed runs. libvirtd destroys them by itself when virsh ends; those that are found
// here outlived that, as after a restart of libvirtd.
func clean(ctx context.Context, dry bool) (lines []string, err error) {
	if _, err := proc.LookPath("virsh"); err != nil {
		return nil, nil
	}
	var errs []error
	for _, uri := range slices.Compact([]string{defaultURI(), systemURI, sessionURI}) {
		found, err := cleanURI(ctx, virsh{uri: uri}, dry)
		for _, line := range found {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

func cleanURI(ctx context.Context, v virsh, dry bool) (lines []string, err error) {
	out, err := v.run(ctx, "list", "--uuid")
	if err != nil {
		return nil, nil // no libvirtd, so no domains
	}
	var errs []error
	for uuid := range strings.FieldsSeq(out) {
		text, err := v.run(ctx, "dumpxml", uuid)
		if err != nil {
			continue // it has ended
		}
		o, ok := readOwner(text)
		if !ok || !o.dead(leftover.Scope()) {
			continue
		}
		info, _ := parseDomain(text)
		lines = append(lines, fmt.Sprintf("libvirt domain %s of run %s", proc.Line(info.Name), proc.Line(o.run)))
		if !dry {
			if _, err := v.run(ctx, "destroy", uuid); err != nil && !absent(err) {
				errs = append(errs, fmt.Errorf("destroy libvirt domain %s: %w", uuid, err))
			}
		}
	}
	return lines, errors.Join(errs...)
}
