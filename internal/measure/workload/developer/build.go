package developer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/command"
	"tare/internal/record"
)

func buildKind() workload.Kind {
	run := commandKind()
	return workload.Kind{
		Name: "dev.build", Family: workload.FamilyCommand, WorkUnit: "build", MaxWork: 1, Needs: run.Needs,
		Is: workload.Traits{ManyFiles: true, Build: true, Parallel: true},
		Doc: "Builds a generated C project with the environment's own make and compiler, which must " +
			"be installed. One unit is a build from a clean tree. The program is run afterwards and must print a " +
			"number that is known in advance.",
		Params: []workload.Param{
			{Name: "units", Type: workload.Int, Default: "24", Min: 1, Max: 5000, Doc: "C files in the " +
				"project"},
			{Name: "headers", Type: workload.Int, Default: "64", Min: 1, Max: 999,
				Doc: "headers in the project; a C file includes 12 of them, and these others"},
			{Name: "functions", Type: workload.Int, Default: "40", Min: 1, Max: 10_000,
				Doc: "functions in each C file"},
			{Name: "jobs", Type: workload.Int, Default: "1", Min: 1, Max: 1024,
				Doc: "compilers at the same time (make -j)"},
			{Name: "cc", Type: workload.Text, Default: "cc", Required: true,
				Doc: "the compiler: a path, or a program in the environment's PATH"},
			{Name: "cflags", Type: workload.Text, Default: "-O1", Doc: "options for the compiler"},
			workaroundParam(),
			{Name: "timeout", Type: workload.Duration, Default: "10m",
				Doc: "a build that takes longer is stopped and fails"},
		},
		Metrics: run.Metrics,
		Space: func(p workload.Params) int64 {
			return (p.Int("units")+1)*(p.Int("functions")*1024+64<<10) + p.Int("headers")*16384 + 4<<20
		},
		Lasts: results,
		New:   newBuild,
	}
}

// commandKind is the kind that runs a command line: a build is a command with files and a check.
func commandKind() *workload.Kind {
	return &command.Kinds()[0]
}

// build is one trial of dev.build.
type build struct {
	site
	project project
	cc      string
	given   map[string]string // for the command
	away    *site             // where it is built with workaround=yes
	run     workload.Trial
}

func newBuild(p workload.Params) (workload.Trial, error) {
	if strings.ContainsAny(p["cc"], "'\"\\\n") || strings.ContainsAny(p["cflags"], "'\"\\\n") {
		return nil, errors.New("dev.build: cc and cflags are passed to make unchanged: leave out quotes, backslashes " +
			"and line breaks")
	}
	t := &build{
		project: project{units: int(p.Int("units")), headers: int(p.Int("headers")),
			functions: int(p.Int("functions"))},
		cc: p["cc"],
		given: map[string]string{
			"shell": "none", "timeout": p["timeout"],
			"command":  fmt.Sprintf("make -s -j%d 'CC=%s' 'CFLAGS=%s' program", p.Int("jobs"), p["cc"], p["cflags"]),
			"prepare":  "make -s clean",
			"conclude": fmt.Sprintf("make -s 'CC=%s' check", p["cc"]),
		},
	}
	if p.Bool("workaround") {
		t.away = &site{}
	}
	return t, nil
}

// Setup writes the project and cleans it.
func (t *build) Setup(ctx context.Context, b *workload.Bench) error {
	programs := []string{"make", t.cc, "ar"}
	if t.away != nil {
		programs = append(programs, "sh", "cp")
	}
	for _, program := range programs {
		if !installed(program) {
			return &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("dev.build: there is no program %q in this environment (PATH is %s); install "+
					"make, a C compiler and binutils there (Debian: apt-get install make gcc libc6-dev), or use "+
					"dev.compile, which needs no compiler",
					program, os.Getenv("PATH"))}
		}
	}
	t.project.seed = b.Seed
	files := t.project.files()
	var list bytes.Buffer
	size := int64(0)
	for _, at := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&list, "%s %s\n", at, fileio.Digest(files[at]))
		size += int64(len(files[at])) + 4096
	}
	if err := t.fresh(b, "source", 3*size+1<<20, int64(2*len(files)+8)); err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.write(at, files[at]); err != nil {
			return err
		}
	}
	b.Check("project", fileio.Digest(list.Bytes()))
	if t.away != nil {
		if err := t.goAway(b, 3*size+1<<20, int64(2*len(files)+8)); err != nil {
			return err
		}
	}
	return t.start(ctx, b)
}

// goAway makes the folder on the environment's own disk and changes the command so that it copies the sources there,
// builds, and copies the results back.
func (t *build) goAway(b *workload.Bench, bytes, files int64) error {
	home, err := besides(b)
	if err != nil {
		return err
	}
	if err := t.away.freshIn(home, "away", bytes, files); err != nil {
		return err
	}
	there, back := quoted(t.away.path), quoted(t.path)
	t.given["shell"] = "sh"
	t.given["command"] = fmt.Sprintf("cp -R . %s && cd %s && %s && cp main.o libunits.a program %s && cp src/*.o "+
		"%s/src", there, there, t.given["command"], back, back)
	return nil
}

// quoted makes one word of a path for a POSIX shell.
func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

func (t *build) start(ctx context.Context, b *workload.Bench) error {
	k := commandKind()
	t.given["dir"] = t.path
	p, err := k.Resolve(t.given)
	if err != nil {
		return err
	}
	if t.run, err = k.New(p); err != nil {
		return err
	}
	return t.run.Setup(ctx, b)
}

// installed tells whether a shell would find a program. Whether it can run shows when it is started.
func installed(program string) bool {
	runs := func(path string) bool {
		st, err := os.Stat(path)
		return err == nil && !st.IsDir()
	}
	if strings.ContainsRune(program, '/') {
		return runs(program)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if runs(filepath.Join(dir, program)) || runs(filepath.Join(dir, program+".exe")) {
			return true
		}
	}
	return false
}

// Measure builds.
func (t *build) Measure(ctx context.Context, b *workload.Bench) error { return t.run.Measure(ctx, b) }

// Report runs the program and checks its output.
func (t *build) Report(b *workload.Bench) error {
	if err := t.run.(workload.Reporter).Report(b); err != nil {
		return err
	}
	if err := t.sameBack(); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(t.path, "output.txt"))
	if err != nil {
		return fileio.Explain("read", t.path, err)
	}
	want := fmt.Sprintf("%016x", t.project.answer())
	if text := strings.TrimSpace(string(got)); text != want {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("the program that was built prints %.40q instead of %s: the compiler is faulty, or "+
				"it read wrong data", text, want)}
	}
	b.Check("program", want)
	b.Check("units", strconv.Itoa(t.project.units))
	if v, err := os.ReadFile(filepath.Join(t.path, "version.txt")); err == nil {
		first, _, _ := strings.Cut(string(v), "\n")
		b.Note("cc", fmt.Sprintf("%.100s", strings.ToValidUTF8(strings.TrimSpace(first), "?")))
	}
	return nil
}

// sameBack compares the files that were copied back with those that were built, byte for byte.
func (t *build) sameBack() error {
	if t.away == nil {
		return nil
	}
	built := []string{"main.o", "libunits.a", "program"}
	for u := range t.project.units {
		built = append(built, fmt.Sprintf("src/unit%04d.o", u))
	}
	for _, name := range built {
		there, err := os.ReadFile(filepath.Join(t.away.path, filepath.FromSlash(name)))
		if err != nil {
			return fileio.Explain("read", t.away.path, err)
		}
		back, err := os.ReadFile(filepath.Join(t.path, filepath.FromSlash(name)))
		if err != nil {
			return fileio.Explain("read", t.path, err)
		}
		if !bytes.Equal(there, back) {
			return &record.Failure{Kind: "measure",
				Message: fmt.Sprintf("%s was copied to %s, and the copy differs from the file that was built", name,
					t.path)}
		}
	}
	return nil
}

// Cleanup removes the project.
func (t *build) Cleanup(b *workload.Bench) error {
	var err error
	if t.run != nil {
		err = t.run.Cleanup(b)
	}
	if t.away != nil {
		err = errors.Join(err, t.away.remove())
	}
	return errors.Join(err, t.remove())
}
