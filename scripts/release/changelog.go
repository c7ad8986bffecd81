package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// changelog is a CHANGELOG.md in the format of Keep a Changelog: a head, then a section for each release, newest
// first. The first section may be what is not released yet.
type changelog struct {
	head     string
	sections []section
}

// section is what the changelog says of one release.
type section struct {
	heading string
	version string    // "" for what is not released yet
	date    time.Time // of the release, 0:00 UTC
	body    string    // without the heading; ends with a line feed
}

const unreleased = "## [Unreleased]"

var (
	headingRE = regexp.MustCompile(`^## \[(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)\] - (\d{4}-\d\d-\d\d)$`)
	versionRE = regexp.MustCompile(`^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$`)
)

// parseChangelog reads a changelog. The error names the line that is not as it must be.
func parseChangelog(text string) (*changelog, error) {
	c := &changelog{}
	part := &c.head
	n := 0
	for line := range strings.Lines(text) {
		n++
		if !strings.HasPrefix(line, "## ") {
			*part += line
			continue
		}
		s := section{heading: strings.TrimRight(line, "\n")}
		switch m := headingRE.FindStringSubmatch(s.heading); {
		case m != nil:
			s.version = m[1]
			var err error
			if s.date, err = time.Parse(time.DateOnly, m[2]); err != nil {
				return nil, fmt.Errorf("%s:%d: %q is no date", changelogFile, n, m[2])
			}
		case s.heading != unreleased || len(c.sections) > 0:
			return nil, fmt.Errorf("%s:%d: %q is no heading of a release; write %q, once and first, or %q",
				changelogFile, n, s.heading, unreleased, "## [1.2.3] - 2006-01-02")
		}
		if _, err := c.find(s.version); s.version != "" && err == nil {
			return nil, fmt.Errorf("%s:%d: a second section for %s", changelogFile, n, s.version)
		}
		c.sections = append(c.sections, s)
		part = &c.sections[len(c.sections)-1].body
	}
	for i := range c.sections {
		c.sections[i].body = strings.Trim(c.sections[i].body, "\n") + "\n"
	}
	return c, nil
}

// find returns the section of a version. The error says which there are, and how a section is made.
func (c *changelog) find(version string) (section, error) {
	var have []string
	for _, s := range c.sections {
		if s.version == version && version != "" {
			return s, nil
		}
		if s.version != "" {
			have = append(have, s.version)
		}
	}
	if len(have) == 0 {
		have = []string{"no release"}
	}
	return section{}, fmt.Errorf("%s has no section for %q; it has %s. What is unreleased becomes one by: go run "+
		"./scripts/release cut %s %s", changelogFile, version, strings.Join(have, ", "), version, "YYYY-MM-DD")
}

// cut returns the changelog's text with the unreleased part as the release of that version and day, below a new and
// empty unreleased part.
func (c *changelog) cut(version, date string) (string, error) {
	if !versionRE.MatchString(version) {
		return "", fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1 (a tag has a v before it)", version)
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return "", fmt.Errorf("%q is no date such as 2006-01-02", date)
	}
	if _, err := c.find(version); err == nil {
		return "", fmt.Errorf("%s has a section for %s already", changelogFile, version)
	}
	if len(c.sections) == 0 || c.sections[0].version != "" || strings.TrimSpace(c.sections[0].body) == "" {
		return "", fmt.Errorf("%s has nothing below %q that could be released", changelogFile, unreleased)
	}
	var b strings.Builder
	b.WriteString(c.head + unreleased + "\n")
	for i, s := range c.sections {
		if i == 0 {
			s.heading = fmt.Sprintf("## [%s] - %s", version, date)
		}
		fmt.Fprintf(&b, "\n%s\n\n%s", s.heading, s.body)
	}
	return b.String(), nil
}

// entries are the bullets of a section, each in one line, with the title of their part before them where the part is
// not a list of additions.
func (s section) entries() []string {
	var out []string
	part, open := "", false
	for line := range strings.Lines(s.body) {
		line = strings.TrimRight(line, "\n")
		title, isTitle := strings.CutPrefix(line, "### ")
		bullet, isBullet := strings.CutPrefix(line, "- ")
		switch {
		case isTitle:
			part, open = title, false
		case isBullet && part != "":
			out, open = append(out, part+": "+bullet), true
		case isBullet:
			out, open = append(out, bullet), true
		case strings.TrimSpace(line) == "":
			open = false
		case open:
			out[len(out)-1] += " " + strings.TrimSpace(line)
		default: // a paragraph
			out, open = append(out, strings.TrimSpace(line)), true
		}
	}
	return out
}

// maintainer is who the packages name. The project has no address that takes mail.
const maintainer = "tare maintainers <maintainers@tare.invalid>"

// packaged writes all releases in the form that nfpm makes the changelogs of packages of. It is JSON, which is YAML.
func (c *changelog) packaged(w io.Writer) error {
	type change struct {
		Note string `json:"note"`
	}
	type deb struct {
		Urgency       string   `json:"urgency"`
		Distributions []string `json:"distributions"`
	}
	type release struct {
		Semver   string    `json:"semver"`
		Date     time.Time `json:"date"`
		Packager string    `json:"packager"`
		Deb      deb       `json:"deb"`
		Changes  []change  `json:"changes"`
	}
	all := []release{}
	for _, s := range c.sections {
		if s.version == "" {
			continue
		}
		r := release{Semver: s.version, Date: s.date, Packager: maintainer, Deb: deb{"low", []string{"stable"}}}
		for _, e := range s.entries() {
			r.Changes = append(r.Changes, change{e})
		}
		all = append(all, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}
