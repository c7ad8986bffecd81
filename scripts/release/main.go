// Command release has the steps of a release that are the project's own; scripts/release.sh calls it.
//
//	go run ./scripts/release cut 0.2.0 2026-11-26   CHANGELOG.md: what is unreleased becomes that release, whose
//	                                                version builds without a tag have from then on
//	go run ./scripts/release notes 0.2.0            print what CHANGELOG.md says of a release
//	go run ./scripts/release changelog              print all releases as packages have them (chglog's form)
//	go run ./scripts/release image ...              write a container image; see -h
//
// It publishes nothing and starts no other program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

// changelogFile is the changelog, below the folder of the repository.
const changelogFile = "CHANGELOG.md"

// run carries out one command in the current folder, which is that of the repository.
func run(out io.Writer, args []string) error {
	usage := errors.New("usage: release cut VERSION DATE | notes VERSION | changelog | image [FLAGS] PROGRAM")
	if len(args) == 0 {
		return usage
	}
	switch command, args := args[0], args[1:]; {
	case command == "cut" && len(args) == 2:
		return cut(".", args[0], args[1])
	case command == "notes" && len(args) == 1:
		c, err := readChangelog(".")
		if err != nil {
			return err
		}
		s, err := c.find(args[0])
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, s.body)
		return err
	case command == "changelog" && len(args) == 0:
		c, err := readChangelog(".")
		if err != nil {
			return err
		}
		return c.packaged(out)
	case command == "image":
		return imageCommand(args)
	}
	return usage
}

// readChangelog reads the changelog of a repository.
func readChangelog(dir string) (*changelog, error) {
	text, err := os.ReadFile(filepath.Join(dir, changelogFile))
	if err != nil {
		return nil, err
	}
	return parseChangelog(string(text))
}

// sourceFile has the version of builds without a tag.
const sourceFile = "internal/version/version.go"

var sourceRE = regexp.MustCompile(`(?m)^var Version = ".*"$`)

// cut gives the unreleased part of the changelog a version and a date, and begins a new one.
func cut(dir, version, date string) error {
	c, err := readChangelog(dir)
	if err != nil {
		return err
	}
	text, err := c.cut(version, date)
	if err != nil {
		return err
	}
	source, err := os.ReadFile(filepath.Join(dir, sourceFile))
	if err != nil {
		return err
	}
	if len(sourceRE.FindAll(source, 2)) != 1 {
		return fmt.Errorf("%s has no line, or several, such as: var Version = \"1.2.3\"", sourceFile)
	}
	source = sourceRE.ReplaceAll(source, fmt.Appendf(nil, "var Version = %q", version))
	if err := os.WriteFile(filepath.Join(dir, sourceFile), source, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, changelogFile), []byte(text), 0o644)
}

// imageCommand writes the container image of one program.
func imageCommand(args []string) error {
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	var o imageOptions
	goos := f.String("os", "linux", "system of the program; for any but linux there is no image, and nothing is done")
	f.StringVar(&o.Arch, "arch", "", "architecture of the program, as Go names it")
	f.StringVar(&o.Version, "version", "", "version of the program")
	seconds := f.Int64("time", 0, "when it was made, in seconds since 1970: the time of the commit")
	licence := f.String("licence", "LICENSE", "file with the licence")
	to := f.String("o", "", "file to write")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || o.Arch == "" || o.Version == "" || *to == "" {
		return errors.New("image: give -arch, -version, -o and the program")
	}
	if *goos != "linux" {
		return nil
	}
	o.Created = time.Unix(*seconds, 0).UTC()
	var err error
	if o.Program, err = os.ReadFile(f.Arg(0)); err != nil {
		return err
	}
	if o.Licence, err = os.ReadFile(*licence); err != nil {
		return err
	}
	out, err := os.Create(*to)
	if err != nil {
		return err
	}
	return errors.Join(writeImage(out, o), out.Close())
}
