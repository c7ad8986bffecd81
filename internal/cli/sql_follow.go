package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tare/internal/run/supply"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

// following has the flags of `tare sql inspect --follow` and `tare http inspect --follow`.
type following struct {
	follow            bool
	checkpoint, until string
	length            time.Duration
}

// flags adds its flags.
func (in *following) flags(f *pflag.FlagSet) {
	f.BoolVarP(&in.follow, "follow", "f", false, "read on as the log grows")
	f.DurationVar(&in.length, "for", 0, "with --follow: for how long [until Ctrl-C]")
	f.StringVar(&in.until, "until", "", "with --follow: until when, such as 17:30 [until Ctrl-C]")
}

// check refuses flags that do not fit together. number is that of the only item that is shown, and item its noun.
func (in *following) check(args []string, number int64, item string) error {
	switch {
	case !in.follow && (in.checkpoint != "" || in.until != "" || in.length != 0):
		return usagef("--checkpoint, --for and --until have no effect without --follow")
	case !in.follow:
		return nil
	case len(args) != 1 || args[0] == "-":
		return usagef("--follow takes one file; what is rotated away while it runs is read to its end")
	case number >= 0:
		return usagef("--follow and --%s: give one of them", item)
	case in.length < 0:
		return usagef("--for is a time such as 10m, not %v", in.length)
	case in.until != "" && in.length != 0:
		return usagef("--for and --until: give one of them")
	}
	return nil
}

// deadline is the time at which the following ends; ok is false if only the user ends it.
func (in *following) deadline(now time.Time) (at time.Time, ok bool, err error) {
	if in.length > 0 {
		return now.Add(in.length), true, nil
	}
	if in.until == "" {
		return at, false, nil
	}
	if at, err = time.Parse(time.RFC3339, in.until); err == nil {
		if at.Before(now) {
			err = usagef("--until: %s is over", in.until)
		}
		return at, true, err
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		t, err := time.Parse(form, in.until)
		if err != nil {
			continue
		}
		at = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if at.Before(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at, true, nil
	}
	return at, false, usagef("--until is a time such as 17:30 or 2026-11-21T17:30:00Z, not %q", in.until)
}

// bound ends ctx at the deadline.
func (in *following) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	at, ok, err := in.deadline(time.Now())
	if err != nil || !ok {
		return ctx, func() {}, err
	}
	ctx, stop := context.WithDeadline(ctx, at)
	return ctx, stop, nil
}

// found completes the options with what the beginning of a log tells, which then has not to be waited for.
func found(path string, o log.Options) (log.Options, error) {
	if err := supply.Plain(path); err != nil {
		return o, err
	}
	f, err := os.Open(path)
	if err != nil {
		return o, err
	}
	defer f.Close()
	r, err := log.Open(f, o)
	if err != nil {
		return o, err
	}
	format, wrapped := r.Format()
	info, err := f.Stat()
	switch {
	case err != nil:
	case wrapped != "":
		err = errors.New("its records are within JSON, and only a log as the server writes it can be followed")
	case info.Size() == 0 && o.Format == "":
		err = errors.New("it is empty: say with --log-format what it is going to be")
	case format == log.Plain || format == log.PlainLines:
		err = errors.New("it is a file of statements, and only a log can be followed")
	}
	o.Format, o.Prefix, o.Sample = format, r.Prefix(), -1
	return o, err
}

// How often the account is shown, and a checkpoint written.
const (
	showEvery = time.Second
	saveEvery = 5 * time.Second
)

// sqlFollow follows a log and returns what is in it. An error of reading comes with what was read.
func (cmd *sqlCommand) sqlFollow(ctx context.Context, path string, in *sqlInspect, o log.Options) (_ *log.Summary,
	err error) {
	ctx, stop, err := in.following.bound(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var from *supply.Checkpoint
	if in.following.checkpoint != "" {
		if from, err = supply.ReadCheckpoint(in.following.checkpoint, path); err != nil {
			return nil, err
		}
	}
	if from != nil {
		o, err = log.OptionsOf(from.Summary, o)
	} else {
		o, err = found(path, o)
	}
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", quoteArg(path), err)
	}
	line := &statusLine{console: &cmd.console}
	f, err := supply.Follow(ctx, path, from, line.tell)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", quoteArg(path), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := log.Open(f.Source(), o)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", quoteArg(path), err)
	}
	s := log.Sum(r, in.policy)
	if from != nil {
		if err := s.Restore(from.Summary); err != nil {
			return nil, fmt.Errorf("go on from the checkpoint %s: %w; remove it to begin anew", in.following.checkpoint,
				err)
		}
	}
	cmd.holding("the whole account is shown")
	var shown, saved time.Time
	var failed error
	look := func(end bool) {
		now := time.Now()
		if now.Sub(shown) >= showEvery && !end {
			shown = now
			line.show(s.Summary())
		}
		if in.following.checkpoint != "" && failed == nil && (end || now.Sub(saved) >= saveEvery) {
			saved = now
			failed = save(f, s, in.following.checkpoint)
		}
	}
	f.Idle = look
	var e log.Event
	for n := 0; err == nil && failed == nil; n++ {
		if err = s.Next(&e); err == nil && n%1024 == 0 {
			look(false)
		}
	}
	line.clear()
	if err == io.EOF {
		err = nil
	}
	return s.Summary(), errors.Join(err, failed)
}

// save writes a checkpoint.
func save(f *supply.Follower, s *log.Summing, name string) error {
	c, err := f.Checkpoint(s)
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return c.Write(name)
}

// statusLine is a line of a terminal that is written again and again. What else is told goes above it.
type statusLine struct {
	*console
	drawn bool
}

func (l *statusLine) live() bool { return l.errFD >= 0 && !l.plainTerminal() }

func (l *statusLine) clear() {
	if l.drawn {
		fmt.Fprint(l.err, "\r\x1b[K")
		l.drawn = false
	}
}

func (l *statusLine) tell(text string) {
	l.clear()
	fmt.Fprintln(l.err, printableLine(text))
}

func (l *statusLine) show(s *log.Summary) {
	if !l.live() {
		return
	}
	n := &s.Account.Statements
	parts := []string{unit.Plural(n.Total, "statement")}
	for _, p := range []struct {
		part log.Part
		n    int64
	}{{log.Replayed, n.Replayed}, {log.Skipped, n.Skipped}, {log.Ambiguous, n.Ambiguous}, {log.Lost, n.Lost}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.part))
		}
	}
	text := strings.Join(parts, ", ") + "; " + unit.Plural(s.Sessions.Total, "session") + "; " +
		unit.Format(float64(s.Account.Bytes.Total), "B")
	if s.Time.Last != "" {
		text += "; up to " + s.Time.Last
	}
	l.clear()
	fmt.Fprint(l.err, unit.Cut(text+"; Ctrl-C ends it", l.width(100)-1))
	l.drawn = true
}
