package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"tare/internal/sys/proc"
)

// source is one line of apt's sources: where packages of a release come from.
type source struct{ uri, release, component, origin string }

func (s source) line() string { return fmt.Sprintf("deb %s %s %s", s.uri, s.release, s.component) }

// maxSources bounds how many lines of sources are used.
const maxSources = 64

// targetFormat has apt print a source per line, fields apart by tabulators.
const targetFormat = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(ORIGIN)"

// sources returns this machine's sources for a suite.
func sources(ctx context.Context, suite string) ([]source, error) {
	out, err := proc.Run(ctx, nil, "apt-get", "indextargets", "--format", targetFormat, "Created-By: Packages")
	if err != nil {
		return nil, fmt.Errorf("read the machine's apt sources: %w", err)
	}
	found := choose(parseSources(string(out)), suite)
	if len(found) == 0 {
		return nil, errors.New("this machine's apt knows no source of Debian: fill /etc/apt/sources.list.d and run " +
			"apt-get update")
	}
	return found, nil
}

// parseSources reads what apt printed. Lines that no URI can be read from are left out: they are not ours to judge.
func parseSources(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(f) != 4 {
			continue
		}
		s := source{uri: f[0], release: f[1], component: f[2], origin: f[3]}
		plain := func(r rune) bool { return r <= ' ' || r == '[' || r == ']' || r == '#' || r == 0x7f }
		if strings.Contains(s.uri, ":/") && !strings.ContainsFunc(s.uri+s.release+s.component, plain) &&
			s.release != "" && s.component != "" {
			all = append(all, s)
		}
	}
	return all
}

// choose picks the sources of a suite with its updates. Where the machine has none of that suite, those of its own are
// asked for the other one: a mirror has all suites. Third parties' are left out, because their keys are not in the
// image.
func choose(all []source, suite string) []source {
	var same, other []source
	for _, s := range all {
		if s.origin != "Debian" && s.origin != "Ubuntu" {
			continue
		}
		if s.release == suite || strings.HasPrefix(s.release, suite+"-") {
			same = append(same, s)
		}
		if !strings.Contains(s.release, "-") {
			s.release = suite
			other = append(other, s)
		}
	}
	// Updates alone make no system.
	if !slices.ContainsFunc(same, func(s source) bool { return s.release == suite }) {
		same = other
	}
	var unique []source
	for _, s := range same {
		if !slices.Contains(unique, s) && len(unique) < maxSources {
			unique = append(unique, s)
		}
	}
	return unique
}

// aptSettings are the machine's own settings that decide whether its sources can be used at all; every other one of the
// image is Debian's.
var aptSettings = []string{"Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::Check-Valid-Until",
	"Acquire::Check-Date"}

// settings returns those of aptSettings that the machine has, as lines of apt's configuration.
func settings(ctx context.Context) ([]string, error) {
	args := append([]string{"apt-config", "dump", "--format", "%F \"%v\";%n"}, aptSettings...)
	cmd := proc.Command(ctx, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := proc.RunCmd(cmd, nil)
	if err != nil {
		return nil, fmt.Errorf("read the machine's apt settings: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, " ")
		if slices.Contains(aptSettings, name) && value != `"";` {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
