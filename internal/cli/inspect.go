package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
)

// inspecting has the flags that `tare sql inspect` and `tare http inspect` share.
type inspecting struct {
	format, out, zone string
	top               int
	number            int64 // of the only statement or request that is shown; -1 for all
}

// flags adds its flags. item is what a log has.
func (in *inspecting) flags(f *pflag.FlagSet, item string) {
	f.StringVar(&in.format, "format", "", "text, json or html: a page with charts [by the name of -o, else text]")
	f.StringVarP(&in.out, "out", "o", "", "write to this file; - is standard output [-]")
	f.StringVar(&in.zone, "zone", "UTC", "time zone of times without one, such as Europe/Berlin")
	f.IntVar(&in.top, "top", 20, "how many fingerprints to show; 0 shows all")
	f.Int64Var(&in.number, item, -1, "show only the "+item+" with this number in the log, from 0, as a report names it")
}

// check refuses what does not fit together, and finds the format.
func (in *inspecting) check(item string) error {
	switch {
	case in.number < -1:
		return usagef("--%s is a number from 0 on, not %d", item, in.number)
	case in.number >= 0 && in.format+in.out != "":
		return usagef("--%s shows a text; leave --format and --out out", item)
	case in.top < 0:
		return usagef("--top is a number of fingerprints, not %d", in.top)
	}
	if in.out == "-" {
		in.out = ""
	}
	if in.format == "" {
		in.format = cmp.Or(map[string]string{".json": "json", ".html": "html"}[filepath.Ext(in.out)], "text")
	}
	if !slices.Contains([]string{"text", "json", "html"}, in.format) {
		return usagef("--format is text, json or html, not %q", in.format)
	}
	return nil
}

// write writes a summary, which text and page write in their form. failed is the error that ended the reading.
func (in *inspecting) write(a *app, s any, text, page func(io.Writer) error, failed error) error {
	write := map[string]func(io.Writer) error{"text": text, "html": page,
		"json": func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }}[in.format]
	if in.out != "" {
		return errors.Join(writeWhole(in.out, write), failed)
	}
	return errors.Join(write(a.out), failed)
}
