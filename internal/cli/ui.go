package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"tare/internal/judge/verdict"
	"tare/internal/run/schedule"
	livepage "tare/internal/show/live"
)

// uiFlags are the flags of the live page.
type uiFlags struct {
	addr string
	keep bool
	page *livepage.Server // nil without --ui
}

func (f *uiFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.addr, "ui", "",
		"show progress and the report so far in a browser on this machine, at this address [127.0.0.1, a free port]")
	fl.Lookup("ui").NoOptDefVal = livepage.DefaultAddr
	fl.BoolVar(&f.keep, "ui-keep", false, "with --ui: after the run, serve the page until Ctrl-C")
}

// open begins to serve and says where. It comes before anything is measured or written, so that an address that cannot
// be had costs nothing. A dry run serves nothing.
func (f *uiFlags) open(w io.Writer, dry bool) error {
	if f.keep && f.addr == "" {
		return usagef("--ui-keep needs --ui")
	}
	if f.addr == "" || dry {
		return nil
	}
	var err error
	if f.page, err = livepage.Listen(f.addr); err != nil {
		if errors.Is(err, livepage.ErrAddress) {
			return usageError{err}
		}
		return err
	}
	fmt.Fprintf(w, "page       %s (works once, in one browser)\n", f.page.URL())
	return nil
}

// attach makes the page follow a run.
func (f *uiFlags) attach(c *schedule.Config, dir string) {
	if f.page != nil {
		f.page.Attach(c, dir)
	}
}

// finish shows a result on the page.
func (f *uiFlags) finish(r *verdict.Result, why error) {
	if f.page == nil {
		return
	}
	if r != nil {
		r.Run.Finished = why == nil
	}
	f.page.Finish(r, why)
}

// close ends the page, with --ui-keep not before the user wants it.
func (f *uiFlags) close(ctx context.Context, w io.Writer) {
	if f.page == nil {
		return
	}
	if f.keep && f.page.Attached() && ctx.Err() == nil {
		// From here on Ctrl-C means the page: the run is over, and the words and second thoughts of stopping it do not
		// apply.
		ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
		if !signal.Ignored(syscall.SIGHUP) {
			ends = append(ends, syscall.SIGHUP)
		}
		signal.Reset(ends...)
		sig := make(chan os.Signal, 1)
		signal.Notify(sig, ends...)
		defer signal.Stop(sig)
		fmt.Fprintln(w, "the page is served until Ctrl-C")
		select {
		case <-sig:
		case <-ctx.Done():
		}
	}
	if err := f.page.Close(ctx); err != nil {
		fmt.Fprintf(w, "tare: %v\n", err)
	}
}
