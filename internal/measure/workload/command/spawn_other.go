//go:build !unix

package command

import (
	"os"
	"time"
)

// process is a child that has been started and not yet reaped.
type process struct{ p *os.Process }

// usage has the resources that a child used, and its end.
type usage struct {
	user, system time.Duration
	rss, faults  int64  // not known on this platform: 0
	code         int    // exit code
	signal       string // empty on this platform
}

// procAttr has the arguments of start besides the program.
type procAttr struct {
	dir   string
	env   []string
	files [3]*os.File
}

// newAttr makes the attributes of a child. The files must stay open as long as they are used.
func newAttr(dir string, env []string, files [3]*os.File) *procAttr {
	return &procAttr{dir: dir, env: env, files: files}
}

func start(path string, argv []string, attr *procAttr) (process, error) {
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Dir: attr.dir, Env: attr.env, Files: attr.files[:]})
	return process{p}, err
}

func (p process) wait() (usage, error) {
	st, err := p.p.Wait()
	if err != nil {
		return usage{}, err
	}
	return usage{user: st.UserTime(), system: st.SystemTime(), code: st.ExitCode()}, nil
}

// terminate and kill end the child alone: there are no process groups here.
func (p process) terminate() { _ = p.p.Kill() }

func (p process) kill() { _ = p.p.Kill() }
