package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/rootfs"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// The version that the tests release: no real one will ever have it.
const testVersion = "99.1.0"

// platformRE finds the platforms in .goreleaser.yaml.
var platformRE = regexp.MustCompile(`(?m)^ +- (linux|darwin|windows|freebsd)_[a-z0-9]+\n`)

// repository copies the project as it stands in the working tree, makes a release of what is unreleased, and commits
// and tags it. GoReleaser is told to build for this machine's platform only.
func repository(t *testing.T, dir string) {
	t.Helper()
	listed := output(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	page := "internal/show/report/page/dist/page.html"
	for _, name := range append(strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00"), page) {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		info, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			if name == page {
				t.Log("there is no report page here; without Node.js the release goes without")
			}
			continue // removed, and not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			var target string
			if target, err = os.Readlink(from); err == nil {
				err = os.Symlink(target, to)
			}
		} else if err == nil {
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, content, info.Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Right after a release nothing is unreleased.
	changes := filepath.Join(dir, changelogFile)
	text, err := os.ReadFile(changes)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(unreleased+"\n"), []byte(unreleased+"\n\n### Added\n- A test of releases.\n"), 1)
	if err := os.WriteFile(changes, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cut(dir, testVersion, "2026-01-02"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, ".goreleaser.yaml")
	if text, err = os.ReadFile(config); err != nil {
		t.Fatal(err)
	}
	text = platformRE.ReplaceAllFunc(text, func(line []byte) []byte {
		if strings.TrimLeft(string(line), " -") == "linux_"+runtime.GOARCH+"\n" {
			return line
		}
		return nil
	})
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	at := []string{"GIT_AUTHOR_DATE=1767322800 +0000", "GIT_COMMITTER_DATE=1767322800 +0000"}
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "tester"}, {"config", "user.email", "tester@tare.invalid"},
		{"config", "gc.auto", "0"}, {"add", "--all"}, {"commit", "-q", "-m", "a release"}, {"tag", "v" + testVersion},
	} {
		output(t, dir, at, append([]string{"git"}, args...)...)
	}
}

// output runs a program and returns its standard output, or fails the test with all that it said.
func output(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s%s", argv, err, out.Bytes(), said.Bytes())
	}
	return out.String()
}

// release makes a release in a new folder and returns its dist.
func release(t *testing.T, dir, umask string, env ...string) string {
	t.Helper()
	repository(t, dir)
	output(t, dir, append(env, "TARE_URL=https://tare.invalid/project", "TARE_PARALLEL=1"), "sh", "-c", "umask "+umask+
		` && exec make -s release PLATFORMS=linux_`+runtime.GOARCH+` RELEASEFLAGS=--skip=winget,scoop`)
	return filepath.Join(dir, "dist")
}

// TestRelease makes a release as `make release` does, for this machine's platform, twice: in other folders, another
// time zone and with another umask. Then it installs and runs what was made.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds tare twice and a Debian system")
	}
	if _, err := exec.LookPath("git"); err != nil || os.Geteuid() != 0 {
		missing(t, "it needs git, and root for the Debian system")
	}
	made := release(t, filepath.Join(t.TempDir(), "one"), "022", "TZ=Asia/Kathmandu")

	t.Run("Checksums", func(t *testing.T) {
		sums := output(t, made, nil, "sha256sum", "--check", "SHA256SUMS")
		arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
		for _, want := range []string{
			"tare_99.1.0_linux_" + runtime.GOARCH + ".tar.gz", "tare_99.1.0_" + runtime.GOARCH + ".deb",
			"tare-99.1.0-1." + arch + ".rpm", "tare_99.1.0_linux_" + runtime.GOARCH + ".cdx.json",
			"tare_99.1.0_linux_" + runtime.GOARCH + ".oci.tar",
		} {
			if !strings.Contains(sums, want+": OK\n") {
				t.Errorf("SHA256SUMS has no %s:\n%s", want, sums)
			}
		}
	})
	t.Run("Archive", func(t *testing.T) {
		list := output(t, made, []string{"TZ=UTC"}, "tar", "-tvf", "tare_99.1.0_linux_"+runtime.GOARCH+".tar.gz")
		for _, want := range []string{" tare\n", " LICENSE\n", " CHANGELOG.md\n", " man/tare-run.1.gz\n",
			" completions/tare.bash\n", " completions/_tare\n", " completions/tare.ps1\n"} {
			if !strings.Contains(list, want) {
				t.Errorf("the archive has no %s:\n%s", strings.TrimSpace(want), list)
			}
		}
		for line := range strings.Lines(list) {
			if !strings.Contains(line, "root/root") || !strings.Contains(line, "2026-01-02 03:00") {
				t.Errorf("not of root, or not of the commit's time: %s", line)
			}
		}
	})
	t.Run("Static", func(t *testing.T) {
		programs, err := filepath.Glob(filepath.Join(made, "tare_linux_*", "tare"))
		if err != nil || len(programs) != 1 {
			t.Fatalf("programs %v, %v", programs, err)
		}
		program, err := elf.Open(programs[0])
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Error("the program needs a dynamic linker")
		}
	})
	t.Run("Manifests", func(t *testing.T) {
		cask, err := os.ReadFile(filepath.Join(made, "homebrew", "Casks", "tare.rb"))
		if err != nil || !strings.Contains(string(cask), `version "99.1.0"`) ||
			!strings.Contains(string(cask), "https://tare.invalid/project/releases/download/v") ||
			!strings.Contains(string(cask), "man/tare-run.1.gz") {
			t.Errorf("Homebrew's cask is %s, %v", cask, err)
		}
		notes, err := os.ReadFile(filepath.Join(made, "NOTES.md"))
		if err != nil || !strings.Contains(string(notes), "### Added") {
			t.Errorf("the notes are %s, %v", notes, err)
		}
		sbom, err := os.ReadFile(filepath.Join(made, "tare_99.1.0_linux_"+runtime.GOARCH+".cdx.json"))
		if err != nil || !strings.Contains(string(sbom), `"bomFormat": "CycloneDX"`) ||
			!strings.Contains(string(sbom), "github.com/spf13/cobra") || !strings.Contains(string(sbom), "99.1.0") {
			t.Errorf("the list of what is inside is %.2000s, %v", sbom, err)
		}
	})
	t.Run("Again", func(t *testing.T) {
		again := release(t, filepath.Join(t.TempDir(), "another folder", "with a name that is longer"), "077",
			"TZ=America/St_Johns", "LC_ALL=C.UTF-8")
		for _, name := range []string{"SHA256SUMS", "homebrew/Casks/tare.rb", "NOTES.md"} {
			one, err := os.ReadFile(filepath.Join(made, name))
			two, err2 := os.ReadFile(filepath.Join(again, name))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(one, two) {
				t.Errorf("%s of the two releases:\n%s\n%s", name, one, two)
			}
		}
		output(t, again, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	})
	t.Run("Refusals", func(t *testing.T) {
		for env, want := range map[string]string{
			"TARE_VERSION=": "has no tag", "TARE_VERSION=99.1.0-dirty": "not committed",
			"TARE_VERSION=98.0.0": `no section for "98.0.0"; it has 99.1.0`,
		} {
			cmd := exec.CommandContext(t.Context(), "scripts/release.sh")
			cmd.Dir, cmd.Env = filepath.Dir(made), append(os.Environ(), "TARE_LDFLAGS=-s -w", env)
			if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), want) {
				t.Errorf("with %s: %v\n%s", env, err, said)
			}
		}
	})
	t.Run("Debian", func(t *testing.T) { inDebian(t, made) })
	t.Run("Docker", func(t *testing.T) { inDocker(t, made) })
}

// TestConfiguration holds that GoReleaser takes the whole of .goreleaser.yaml, of which TestRelease makes one platform.
func TestConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds GoReleaser")
	}
	// GoReleaser itself ends with an error where anything is deprecated.
	output(t, root, []string{"TARE_URL=x", "TARE_LDFLAGS=x", "CGO_ENABLED=0"}, "go", "tool",
		"-modfile=tools/release/go.mod", "goreleaser", "check")
	config, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var agents []string
	if m := regexp.MustCompile(`(?m)^PLATFORMS := (.*)$`).FindSubmatch(text); m != nil {
		agents = strings.Fields(string(m[1]))
	}
	programs := platformRE.FindAllString(string(config), -1)
	for i, p := range programs {
		programs[i] = strings.TrimSpace(strings.TrimLeft(p, " -"))
	}
	if !slices.Equal(agents, programs) {
		t.Errorf("there are agents for %q, and programs for %q", agents, programs)
	}
}

// missing skips a test, or fails it where everything must be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

// enter runs /root/test.sh in a copy of a Debian image that is gone when it ends, with all that it started.
const enter = `set -eu
work=$1 image=$2
shift 2
mount -o loop,ro,noload "$image" "$work/lower"
mount -t tmpfs tmpfs "$work/own"
mkdir "$work/own/upper" "$work/own/work"
mount -t overlay -o "lowerdir=$work/lower,upperdir=$work/own/upper,workdir=$work/own/work" overlay "$work/root"
cp "$@" "$work/root/root"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount --rbind /sys "$work/root/sys"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot "$work/root" sh -eu /root/test.sh`

// inDebian installs the packages in a clean Debian system, and uses them as a user would.
func inDebian(t *testing.T, made string) {
	image, err := rootfs.Build(t.Context(), rootfs.Options{Packages: []string{"git", "man-db", "rpm", "cpio"},
		Progress: func(s string) { t.Log(s) }})
	if err != nil {
		missing(t, err.Error())
	}
	work := t.TempDir()
	for _, dir := range []string{"lower", "own", "root"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := filepath.Glob(filepath.Join(made, "*.[dr][ep][bm]"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("packages %v, %v", packages, err)
	}
	script, err := filepath.Abs("testdata/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	argv := slices.Concat([]string{"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"sh", "-c", enter, "sh", work, image.Path}, packages, []string{script})
	said := output(t, "", nil, argv...)
	t.Log(said)
	if !strings.HasSuffix(said, "== all is well\n") {
		t.Error("it did not come to its end")
	}
}

// inDocker loads the image into a real Docker and measures in a container of it.
func inDocker(t *testing.T, made string) {
	docker := dockertest.Shared(t).Client()
	run := func(args ...string) string { return output(t, made, nil, slices.Concat(docker, args)...) }
	loaded := run("load", "-i", "tare_99.1.0_linux_"+runtime.GOARCH+".oci.tar")
	if !strings.Contains(loaded, "tare:99.1.0") {
		t.Errorf("docker load: %s", loaded)
	}
	if version := run("run", "--rm", "--network=none", "tare:99.1.0", "version"); !strings.HasPrefix(version,
		"tare 99.1.0 build ") {
		t.Errorf("the image's version is %s", version)
	}
	report := run("run", "--rm", "--network=none", "--user", "1000", "tare:99.1.0", "run", "-q", "-e", "host", "-w",
		"null", "--blocks", "8")
	if !strings.Contains(report, "null ") {
		t.Errorf("the report is %s", report)
	}
}
