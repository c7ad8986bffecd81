package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/judge/fleet"
	"tare/internal/show/fleetpage"
)

// pageFormat is the form of a fleet's report that is a page for each host, too.
const pageFormat = "html"

// hostsFolder is the folder of the hosts' pages beside a fleet's page: fleet.html has fleet-hosts.
func hostsFolder(page string) string {
	return strings.TrimSuffix(filepath.Base(page), filepath.Ext(page)) + "-hosts"
}

// pages writes the page of a fleet and, where it becomes a file, one for each host in a folder beside it.
func (cmd *fleetReportCommand) pages(r *fleet.Report, a *fleet.Admitted, dir string) error {
	if cmd.file == "" || cmd.file == "-" {
		return fleetpage.New(r, a, "", dir).Overview(cmd.out)
	}
	folder := hostsFolder(cmd.file)
	p := fleetpage.New(r, a, folder, dir)
	beside := filepath.Join(filepath.Dir(cmd.file), folder)
	if err := os.MkdirAll(beside, 0o755); err != nil {
		return fmt.Errorf("write the hosts' pages: %w", err)
	}
	up := "../" + url.PathEscape(filepath.Base(cmd.file))
	files := p.Files()
	for i, name := range files {
		path := filepath.Join(beside, name)
		var b bytes.Buffer
		if err := p.Host(&b, i, up); err != nil {
			return err
		}
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, b.Bytes()) {
			continue
		}
		// Not synced: there may be hundreds, and they are made again by the same command.
		if err := os.WriteFile(path+pagePart, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write the hosts' pages: %w", err)
		}
		if err := os.Rename(path+pagePart, path); err != nil {
			return fmt.Errorf("write the hosts' pages: %w", err)
		}
	}
	if err := writeWhole(cmd.file, p.Overview); err != nil {
		return err
	}
	sweepPages(beside, files)
	return nil
}

// pagePart ends the name of a host's page that is being written.
const pagePart = ".part"

// sweepPages removes pages of hosts that the fleet has no more. Whatever else lies in the folder stays.
func sweepPages(dir string, keep []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || filepath.Ext(strings.TrimSuffix(e.Name(), pagePart)) != ".html" ||
			slices.Contains(keep, e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		begin := make([]byte, len(fleetpage.Generated))
		_, err = io.ReadFull(f, begin)
		f.Close()
		if err == nil && string(begin) == fleetpage.Generated {
			os.Remove(path)
		}
	}
}
