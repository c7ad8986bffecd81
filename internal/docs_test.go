package internal_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	envall "tare/internal/lab/driver/all"
	workall "tare/internal/measure/workload/all"
	"tare/internal/plan"
)

// The manual is a program: what it shows is run, what it lists is generated, what it links to exists.
//
// A fenced block may have marks, in a comment on the line before its fence, separated by semicolons:
//
//	shape           a block of commands whose figures differ from run to run: structure is compared, numbers are free
//	exit N          the commands of the block end with this code
//	needs qemu      the block boots a micro-VM
//	needs qemu-img  the block has qemu-img make a disk image
//	not run: WHY    commands that a test cannot run, with the reason
//	file NAME       the block is written to this file, in the folder where the commands of the document run
//	compile PATH    the block is Go; it is compiled as if it were that file
//	part            YAML that is no whole plan
//	report, trial, manifest    JSON of that kind
//
// A line of three dots in an output stands for any number of lines. What lies between <!-- generated: NAME --> and
// <!-- end --> is written by `go test ./internal -run Docs -update`, which also rewrites
// outputs that are not shapes; with -figures, shapes as well.
var update = flag.Bool("update", false, "write the generated parts of the manual and its exact outputs")

// figures makes -update rewrite the shapes too, so that their figures are of one machine and one day.
var figures = flag.Bool("figures", false, "with -update, also write the outputs whose figures differ from run to run")

const root = ".."

// documents are the files of the manual.
func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 10 {
		t.Fatalf("only %d documents in docs/: %v", len(docs), docs)
	}
	return append(append(docs, decisions(t)...), filepath.Join(root, "README.md"))
}

// block is a fenced block of a document.
type block struct {
	first, last int // lines of the text within the fences, from 0, last excluded
	lang        string
	text        []string
	marks       []string
}

// mark returns what follows the word in a mark, and whether the block has it.
func (b *block) mark(word string) (string, bool) {
	for _, m := range b.marks {
		if m == word {
			return "", true
		}
		if rest, ok := strings.CutPrefix(m, word+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// prepares tells whether a line makes something that the block needs by the program that its mark names.
func (b *block) prepares(line string) bool {
	what, ok := b.mark("needs")
	return ok && what == "qemu-img" && strings.HasPrefix(line, "$ qemu-img ")
}

var (
	fenceRE   = regexp.MustCompile("^( *)(```+)([a-z]*)$")
	commentRE = regexp.MustCompile(`^ *<!-- (.*) -->$`)
	markRE    = regexp.MustCompile(`^(shape|example|exit [1-9]|needs qemu|needs qemu-img|not run: .{10,}|file [a-z0-9.-]+|compile internal/[a-z/_]+\.go|part|report|trial|manifest)$`)
)

// blocks takes a document apart. What it cannot take apart is an error: a block that is not seen is not tested.
func blocks(lines []string) ([]block, error) {
	var out []block
	var marks []string
	for i := 0; i < len(lines); i++ {
		if m := commentRE.FindStringSubmatch(lines[i]); m != nil {
			marks = nil
			for _, word := range strings.Split(m[1], "; ") {
				marks = append(marks, strings.TrimSpace(word))
			}
			continue
		}
		m := fenceRE.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.Contains(lines[i], "```") {
				return nil, fmt.Errorf("line %d: a fence that is none", i+1)
			}
			if lines[i] != "" {
				marks = nil
			}
			continue
		}
		b := block{first: i + 1, lang: m[3], marks: marks}
		marks = nil
		for i++; i < len(lines) && strings.TrimLeft(lines[i], " ") != m[2]; i++ {
			b.text = append(b.text, strings.TrimPrefix(lines[i], m[1]))
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: a fence that does not close", b.first)
		}
		b.last = i
		for _, mark := range b.marks {
			if !markRE.MatchString(mark) {
				return nil, fmt.Errorf("line %d: unknown mark %q", b.first, mark)
			}
		}
		out = append(out, b)
	}
	return out, nil
}

func readDocument(t *testing.T, name string) ([]string, []block) {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	list, err := blocks(lines)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return lines, list
}

// tareRE matches a command of tare's, which may have variables before it.
var tareRE = regexp.MustCompile(`^\$ ([A-Z_]+=[^ ]+ )*tare `)

// TestDocsBlocks holds that no block escapes the tests by the way it is written.
func TestDocsBlocks(t *testing.T) {
	for _, doc := range documents(t) {
		_, list := readDocument(t, doc)
		for _, b := range list {
			at := fmt.Sprintf("%s:%d", doc, b.first)
			_, notRun := b.mark("not run:")
			commands := len(b.text) > 0 && strings.HasPrefix(b.text[0], "$ ")
			for i, l := range b.text {
				switch {
				case strings.HasPrefix(l, "tare ") && !commands:
					t.Errorf("%s: write `$ tare` before a command, so that it is run", at)
				case strings.HasPrefix(l, "$ ") && !commands:
					t.Errorf("%s: a block of commands begins with one, and its outputs follow", at)
				case strings.HasPrefix(l, "$ ") && !tareRE.MatchString(l) && !notRun && !b.prepares(l):
					t.Errorf("%s: line %d is no tare command; mark the block with <!-- not run: WHY -->", at, i)
				}
			}
			if _, ok := b.mark("compile"); b.lang == "go" && !ok {
				t.Errorf("%s: Go needs the mark compile PATH", at)
			}
			if b.lang == "json" && len(b.marks) == 0 {
				t.Errorf("%s: JSON needs a mark that says what it is: report, trial or manifest", at)
			}
		}
	}
}

func tables() plan.Tables { return plan.Tables{Drivers: envall.Drivers(), Kinds: workall.Kinds()} }

// TestDocsPlans parses every plan that the manual shows or that lies in examples/.
func TestDocsPlans(t *testing.T) {
	for _, doc := range documents(t) {
		_, list := readDocument(t, doc)
		for _, b := range list {
			if _, part := b.mark("part"); b.lang != "yaml" || part {
				continue
			}
			if _, err := plan.Parse(fmt.Sprintf("%s:%d", doc, b.first), []byte(strings.Join(b.text, "\n")),
				tables()); err != nil {
				t.Error(err)
			}
		}
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no plan in examples/: %v", err)
	}
	manual := ""
	for _, doc := range documents(t) {
		lines, _ := readDocument(t, doc)
		manual += strings.Join(lines, "\n")
	}
	for _, name := range examples {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Parse(name, src, tables()); err != nil {
			t.Error(err)
		}
		if !strings.Contains(manual, "examples/"+filepath.Base(name)) {
			t.Errorf("%s is not mentioned in the manual", name)
		}
	}
}

var (
	linkRE    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingRE = regexp.MustCompile(`^#+ +(.*)$`)
	notSlugRE = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names of a document's headings, as GitHub makes them.
func anchors(lines []string) []string {
	var out []string
	fenced := false
	for _, l := range lines {
		if fenceRE.MatchString(l) {
			fenced = !fenced
		}
		if m := headingRE.FindStringSubmatch(l); m != nil && !fenced {
			out = append(out, strings.ReplaceAll(notSlugRE.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
		}
	}
	return out
}

// TestDocsLinks follows every link within the project.
func TestDocsLinks(t *testing.T) {
	for _, doc := range documents(t) {
		lines, _ := readDocument(t, doc)
		for i, l := range lines {
			for _, m := range linkRE.FindAllStringSubmatch(l, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := doc
				if file != "" {
					target = filepath.Join(filepath.Dir(doc), file)
				}
				src, err := os.ReadFile(target)
				if info, e := os.Stat(target); e == nil && info.IsDir() {
					continue
				}
				if err != nil {
					t.Errorf("%s:%d: %s leads nowhere", doc, i+1, m[1])
					continue
				}
				if anchor != "" && !slices.Contains(anchors(strings.Split(string(src), "\n")), anchor) {
					t.Errorf("%s:%d: %s has no heading #%s", doc, i+1, target, anchor)
				}
			}
		}
	}
}

var (
	codeRE = regexp.MustCompile(`(?:\b[wW]arn|\bwithhold)\("([a-z][a-z-]+)"|\bCode: *"([a-z][a-z-]+)"`)
	rowRE  = regexp.MustCompile("^\\| `([a-z][a-z-]+)` \\|")
)

// TestDocsCodes holds that docs/report.md explains every code of a warning or a finding, and none that is not there.
func TestDocsCodes(t *testing.T) {
	said := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if p := filepath.ToSlash(path); strings.HasPrefix(p, "lab/driver/") || strings.HasPrefix(p, "lab/diskimage/") {
			return nil // docs/disks.md explains what the doctor says
		}
		src, err := os.ReadFile(path)
		for _, m := range codeRE.FindAllStringSubmatch(string(src), -1) {
			said[m[1]+m[2]] = true
		}
		return err
	})
	if err != nil || len(said) < 20 {
		t.Fatalf("found %d codes: %v", len(said), err)
	}
	lines, _ := readDocument(t, filepath.Join(root, "docs", "report.md"))
	told := map[string]bool{}
	inside := false
	for _, l := range lines {
		if strings.HasPrefix(l, "#") {
			inside = strings.HasSuffix(l, "Codes of warnings and findings")
		}
		if m := rowRE.FindStringSubmatch(l); inside && m != nil {
			told[m[1]] = true
		}
	}
	for code := range said {
		if !told[code] {
			t.Errorf("docs/report.md does not explain the code %s", code)
		}
	}
	for code := range told {
		if !said[code] {
			t.Errorf("docs/report.md explains %s, which nothing says", code)
		}
	}
}

var tickRE = regexp.MustCompile("`([a-z0-9/{},]+)`")

// TestDocsArchitecture holds that docs/architecture.md gives every package its job, and none to a package that is not
// there.
func TestDocsArchitecture(t *testing.T) {
	lines, _ := readDocument(t, filepath.Join(root, "docs", "architecture.md"))
	told := map[string]bool{}
	for _, l := range lines {
		if !strings.HasPrefix(l, "| `") {
			continue
		}
		for _, m := range tickRE.FindAllStringSubmatch(l, -1) {
			head, rest, braces := strings.Cut(m[1], "{")
			if !braces {
				told[m[1]] = true
				continue
			}
			for _, name := range strings.Split(strings.TrimSuffix(rest, "}"), ",") {
				told[head+name] = true
			}
		}
	}
	for _, p := range list(t, "tare/internal/...") {
		name := strings.TrimPrefix(p.ImportPath, "tare/internal/")
		if name == p.ImportPath {
			continue // the tests of the house itself
		}
		if !told[name] {
			t.Errorf("docs/architecture.md does not tell the job of %s", name)
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("docs/architecture.md tells the job of %s, which is not there", name)
	}
}
