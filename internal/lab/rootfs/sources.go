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

// source is one line of apt's sources.
type source struct{ uri, release, component, origin string }

func (s source) line() string { return fmt.Sprintf("deb %s %s %s", s.uri, s.release, s.component) }

// maxSources bounds the number of sources.
const maxSources = 64

// targetFormat makes apt print one source per line, with tabs between the fields.
const targetFormat = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(ORIGIN)"

// sources returns this machine's sources for a suite.
func sources(ctx context.Context, suite string) ([]source, error) {
	out, err := proc.Run(ctx, nil, "apt-get", "indextargets", "--format", targetFormat, "Created-By: Packages")
	if err != nil {
		return nil, fmt.Errorf("read the machine's apt sources: %w", err)
	}
	found := choose(parseSources(string(out)), suite)
	if len(found) == 0 {
		return nil, errors.New("this machine's apt has no source of Debian or Ubuntu; add one to " +
			"/etc/apt/sources.list.d and run apt-get update")
	}
	return found, nil
}

// parseSources parses apt's output. Lines without a valid URI are skipped.
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

// choose picks the sources of a suite and its updates. If the machine has no sources of that suite, it uses the
// machine's mirrors with the suite's name, because a mirror has all suites. Third parties' sources are left out,
// because their keys are not in the image.
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
	// Updates without the suite itself are not enough.
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

// aptSettings are the machine's settings that decide whether its sources are usable. All other settings of the image
// are Debian's.
var aptSettings = []string{"Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::Check-Valid-Until",
	"Acquire::Check-Date"}

// settings returns the machine's values of aptSettings, as lines of apt's configuration.
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
