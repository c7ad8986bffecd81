package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/record"
)

// abImages makes a Docker daemon with the images app:1, app:2, whose program takes so much longer that a busy machine's
// noise cannot hide it, and bare:1, which lacks it.
func abImages(t *testing.T) (*lab, *dockertest.Daemon) {
	t.Helper()
	l := newLab(t)
	d := dockertest.New(t)
	l.env = append(l.env, "DOCKER_HOST="+d.Host)
	for image, seconds := range map[string]string{"app:1": "0.03", "app:2": "0.5", "bare:1": ""} {
		files := dockertest.Busybox(t)
		if seconds != "" {
			files["/bin/app"] = []byte("#!/bin/sh\nsleep " + seconds + "\n")
		}
		dockertest.Import(t, d.Client(), image, files)
	}
	return l, d
}

// says holds that an output has what each expression describes.
func (l *lab) says(text string, patterns ...string) {
	l.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			l.Errorf("no %q in\n%s", p, text)
		}
	}
}

// From the command to the verdict: each variant in a container of its own image, its setup done once there, and nothing
// left of it.
func TestImagesAgainstEachOther(t *testing.T) {
	l, d := abImages(t)
	o := l.do("ab", "-q", "--image", "app:1", "--image", "app:2", "--blocks", "6", "-o", "out",
		"--setup", "sh -c 'echo made >>ready'", "--fail-if", "slower(app-2, command, 50%)", "--",
		"sh", "-c", `test "$(cat ready)" = made && app`)
	if o.code != 3 {
		t.Errorf("exit code %d, want 3:\n%s%s", o.code, o.err, o.out)
	}
	l.says(o.out, `^app-1 .* baseline`, `^app-2 .* DIFFERENT`, `^app-1 +docker:app:1$`,
		`^app-2 +docker:app:2$`,
		`^\* unmeasurable: instructions and cycles \((perf_event_open is not allowed|there is no counter)`)
	r := l.read("out")
	l.verdicts(r, "app-2", record.Different)
	for i := range r.Targets {
		if got := r.Targets[i].Outside.Extra[record.SharedKernel]; got != "yes" {
			t.Errorf("%s: %s is %q: the container's processes are this machine's", r.Targets[i].Name,
				record.SharedKernel, got)
		}
	}
	l.containers(d)
	l.gone("out")
	l.empty()
	if o := l.do("verify", "out"); o.code != 0 {
		t.Errorf("verify: exit code %d %s%s", o.code, o.err, o.out)
	}

	// An image without the program: the other one is still measured, and it is said why this one is not.
	o = l.do("ab", "-q", "--image", "app:1", "--image", "bare:1", "--blocks", "6", "-o", "lacks", "--", "app")
	if o.code != 1 {
		t.Errorf("exit code %d, want 1:\n%s%s", o.code, o.err, o.out)
	}
	l.says(strings.Join(strings.Fields(o.out), " "), `bare-1 - .*FAILED`, `there is no program "app" in this environment`)

	// An image that is not here, and no daemon that would get it.
	o = l.do("ab", "-q", "--image", "app:1", "--image", "nosuch:1", "--blocks", "6", "-o", "absent", "--", "app")
	if o.code != 1 {
		t.Errorf("exit code %d, want 1:\n%s%s", o.code, o.err, o.out)
	}
	l.says(strings.Join(strings.Fields(o.err+o.out), " "), `nosuch:1`, `docker pull`)
	l.containers(d)
	l.empty()
}

// Ctrl-C in the midst of it leaves no container, no process and no file, and says how to go on.
func TestInterruptedImages(t *testing.T) {
	l, d := abImages(t)
	p := l.start("ab", "--image", "app:1", "--image", "app:2", "-o", "out", "--", "app")
	p.trials("out", 6)
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	o := p.end()
	if o.code == 0 {
		t.Errorf("a run that was stopped exits with 0:\n%s", o.err)
	}
	l.says(o.err, `tare run --resume out`)
	l.containers(d)
	l.gone("out")
	l.empty()
	if o := l.do("report", "out"); o.code != 0 {
		t.Errorf("report: exit code %d %s", o.code, o.err)
	}
}

// Revisions are built here and run elsewhere: in a container and in a namespace, in a copy of what was built, from the
// folder of the repository that the user is in.
func TestRevisionsElsewhere(t *testing.T) {
	l, d := abImages(t)
	repo := filepath.Join(l.dir, "repo")
	git(t, l.dir, "init", "-q", "-b", "main", repo)
	for _, tag := range []string{"one", "two"} {
		seconds := map[string]string{"one": "0.03", "two": "0.5"}[tag]
		program := "mkdir -p bin && printf '#!/bin/sh\\nsleep " + seconds + "\\n' >bin/real && chmod +x bin/real && " +
			"ln -sf real bin/prog\n"
		if err := os.MkdirAll(filepath.Join(repo, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, "sub", "build.sh"), []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, repo, "add", ".")
		git(t, repo, "commit", "-q", "-m", tag)
		git(t, repo, "tag", tag)
	}
	for out, place := range map[string]string{"in-docker": "box=docker:bare:1", "in-namespace": "box=namespace"} {
		o := l.do("ab", "-q", "-e", place, "--repo", filepath.Join(repo, "sub"), "--git", "one", "two", "--build",
			"sh build.sh", "--blocks", "6", "-o", out, "--", "./bin/prog")
		if o.code != 0 {
			t.Errorf("%s: exit code %d:\n%s%s", place, o.code, o.err, o.out)
			continue
		}
		l.says(o.out, `^one .* baseline`, `^two .* DIFFERENT`)
		l.verdicts(l.read(out), "two", record.Different)
		l.gone(out)
		if o := l.do("rerun", out); o.code != 2 {
			t.Errorf("rerun: exit code %d %s", o.code, o.err)
		}
	}
	l.containers(d)
	l.empty()
	if left := git(t, repo, "worktree", "list"); strings.Count(left, "\n") != 0 {
		t.Errorf("worktrees are left: %s", left)
	}
	if changed := git(t, repo, "status", "--porcelain"); changed != "" {
		t.Errorf("the working tree was changed: %s", changed)
	}
}
