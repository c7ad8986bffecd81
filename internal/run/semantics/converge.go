package semantics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/fileops"
	"tare/internal/record"
)

// steps are how many files are changed at once before a copy is brought up to date, and how often.
var steps = []struct {
	files, repeats int
	line
}{
	{1, 8, line{"sync-1", "the copy is up to date after 1 change in"}},
	{100, 4, line{"sync-100", "the copy is up to date after 100 changes in"}},
	{allFiles, 2, line{"sync-10000", "the copy is up to date after 10,000 changes in"}},
}

var scanLine = line{"sync-scan", "looking for changes when there are none takes"}

// allFiles is how many files the folder has, about as many as a project of a web developer. With the first of them
// alone it is found out how long the others will take.
const (
	allFiles   = 10000
	firstFiles = 500
)

// scans is how often a copy that is up to date is brought up to date.
const scans = 4

// verified is the most files that are read after a synchronisation: reading ten thousand takes a slow guest longer than
// copying them.
const verified = 250

// overrun is how far the first round of a step may run over the budget: ten thousand changes are asked for, and a slow
// guest takes a minute for them. Repetitions keep the budget.
const overrun = 2 * time.Minute

// hungSync is when a copying program counts as hung. Giving it up costs the connection to the agent, which is busy with
// it, so it is long.
const hungSync = 3 * time.Minute

// copyTest measures how long a copy takes to become like its original.
type copyTest struct {
	in, host   fileops.Side
	options    Options
	end        time.Time
	data       int // rounds written, which make contents different
	properties []record.Property
}

// converge changes files on the host and brings the copy inside up to date, until the budget is spent. Each lag is from
// the last change to the end of the synchronisation, by the controller's clock, and counts only if the files inside are
// then as they are on the host: all of a few, the last of many.
func converge(ctx context.Context, in fileops.Side, m *env.Mounted, o Options) ([]record.Property, error) {
	c := &copyTest{in: in, options: o, end: time.Now().Add(o.Budget)}
	box, err := fileops.Make(m.Mount.HostDir)
	if err != nil {
		return c.untested(err), ctx.Err()
	}
	c.host = box
	err = c.measure(ctx, m.Mount.Dir, box.Base())
	return c.untested(err), errors.Join(ctx.Err(), leave(ctx, in, leaveMany), box.Close())
}

// measure copies a folder of many files, looks for changes where there are none, and goes from few changes to many; the
// time of one step foretells that of the next.
func (c *copyTest) measure(ctx context.Context, dir, name string) error {
	host := &actor{side: c.host, ctx: ctx}
	host.do(fileops.Request{Op: fileops.Fill, Name: []byte("files"), Count: firstFiles, Data: c.content()})
	if host.err != nil {
		return host.err
	}
	began := time.Now()
	if err := c.sync(ctx); err != nil {
		return err
	}
	perFile := time.Since(began) / firstFiles
	if _, err := c.in.Do(ctx, fileops.Request{Op: fileops.Join, Root: dir, Name: []byte(name)}); err != nil {
		return fmt.Errorf("find the files that were copied: %w", err)
	}
	if rest := perFile * (allFiles - firstFiles); rest > overrun {
		return fmt.Errorf("%d files were copied in %s, and %d would take about %s", firstFiles,
			duration(perFile*firstFiles), allFiles, duration(perFile*allFiles))
	}
	first, _, err := c.round(ctx, allFiles)
	if err != nil {
		return err
	}
	perFile = first / allFiles
	c.end = time.Now().Add(c.options.Budget) // what makes the folder is not yet a measurement
	var scan []time.Duration
	for range scans {
		began := time.Now()
		if err := c.sync(ctx); err != nil {
			return err
		}
		scan = append(scan, time.Since(began))
	}
	middle := c.say(scanLine, scan, fmt.Sprintf("of a folder of %d files", allFiles))
	perLook := 5 * time.Millisecond // a first guess of what a file takes to be written before and looked at afterwards
	for _, s := range steps {
		var took []time.Duration
		slowest, look := time.Duration(0), time.Duration(0)
		for range s.repeats {
			expected := middle + time.Duration(s.files)*perFile + time.Duration(min(s.files, verified))*perLook
			if left := time.Until(c.end); left < expected && (len(took) > 0 || left+overrun < expected) {
				if len(took) == 0 {
					return fmt.Errorf("%d changes would take about %s more, but only %s of the card's time is left",
						s.files, duration(expected), duration(max(0, left+overrun)))
				}
				break
			}
			d, all, err := c.round(ctx, s.files)
			if err != nil {
				return err
			}
			slowest = max(slowest, (d-middle)/time.Duration(s.files))
			look = max(look, (all-d)/time.Duration(min(s.files, verified)))
			took = append(took, d)
		}
		if s.files > 1 { // of one file, the scan of all of them hides what it takes
			perFile, perLook = slowest, look
		}
		c.say(s.line, took, fmt.Sprintf("of %d files, %d were written anew on the host, and read the same inside",
			allFiles, s.files))
	}
	return nil
}

// round changes files, synchronises and checks. It returns the lag and the time for all of it.
func (c *copyTest) round(ctx context.Context, files int) (lag, all time.Duration, err error) {
	began := time.Now()
	r := fileops.Request{Op: fileops.Fill, Name: []byte("files"), Count: files, Data: c.content()}
	host := &actor{side: c.host, ctx: ctx}
	if host.do(r); host.err != nil {
		return 0, 0, host.err
	}
	changed := time.Now()
	if err := c.sync(ctx); err != nil {
		return 0, 0, err
	}
	lag = time.Since(changed)
	r.Op, r.Offset = fileops.Verify, int64(max(0, files-verified))
	in := &actor{side: c.in, ctx: ctx}
	same := in.do(r).Count
	if in.err == nil && same != min(files, verified) {
		in.err = fmt.Errorf("after the synchronisation %d of %d files are the same as on the host", same,
			min(files, verified))
	}
	return lag, time.Since(began), in.err
}

// content differs from round to round in length too: programs that compare only size and whole seconds would miss a
// second change.
func (c *copyTest) content() []byte {
	c.data++
	return []byte("round " + strings.Repeat("x", c.data))
}

func (c *copyTest) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hungSync)
	defer cancel()
	if err := c.options.Sync(ctx); err != nil {
		return fmt.Errorf("bring the copy up to date: %w", err)
	}
	return nil
}

// say answers a line with the median and the longest of times, and returns the median.
func (c *copyTest) say(l line, took []time.Duration, what string) time.Duration {
	slices.Sort(took)
	middle, worst := took[len(took)/2], took[min(len(took)-1, int(0.99*float64(len(took))))]
	rating := neutral
	if middle >= time.Second {
		rating = bad
	}
	c.properties = append(c.properties, record.Property{
		Name: l.name, Title: l.title, Answer: duration(middle), Seconds: middle.Seconds(), Rating: rating,
		Detail: fmt.Sprintf("%s: p50 %s, %s %s, n=%d", what, duration(middle), tailName(len(took)), duration(worst),
			len(took)),
	})
	return middle
}

// untested adds the lines that were not reached, with the reason.
func (c *copyTest) untested(why error) []record.Property {
	lines := []line{scanLine}
	for _, s := range steps {
		lines = append(lines, s.line)
	}
	for _, l := range lines {
		if slices.ContainsFunc(c.properties, func(p record.Property) bool { return p.Name == l.name }) {
			continue
		}
		detail := "it was not tested"
		if why != nil {
			detail = oneLine(why.Error())
		}
		c.properties = append(c.properties, record.Property{Name: l.name, Title: l.title, Answer: untested,
			Rating: neutral, Detail: detail})
	}
	return c.properties
}
