package vagrant

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// note lists the changes to undo in a project. It is on the disk before Vagrant is told to make anything, in a folder
// of its own, which is also the project of a scratch machine.
type note struct {
	Owner   string   `json:"owner"`
	Where   string   `json:"where,omitempty"` // the machine and PID namespace of the owner
	Project string   `json:"project"`
	Undo    []string `json:"undo"` // a call of Vagrant; none while nothing was made
	Set     []string `json:"set"`  // what told Vagrant where things are
	// Provider is that of a scratch machine; empty if Vagrant chooses.
	Provider string `json:"provider,omitempty"`
	dir      string
	stopped  bool // Vagrant was, while it made the machine
}

const (
	// noteFolder is below the user's cache folder.
	noteFolder = "tare/vagrant"
	noteFile   = "note.json"
	notePrefix = "tare-"
)

// places are the variables that say where Vagrant and the providers keep things.
var places = []string{"VAGRANT_HOME", "VAGRANT_DOTFILE_PATH", "VAGRANT_VAGRANTFILE", "LIBVIRT_DEFAULT_URI",
	"DOCKER_HOST", "DOCKER_CONTEXT"}

func notes() (string, error) {
	base, err := os.UserCacheDir()
	return filepath.Join(base, filepath.FromSlash(noteFolder)), err
}

// newNote makes the folder of a note. If project is empty, the folder itself is the project.
func newNote(runID, project string) (*note, error) {
	if err := leftover.CheckRunID(runID); err != nil {
		return nil, err
	}
	base, err := notes()
	if err != nil {
		return nil, err
	}
	self, err := leftover.Self()
	if err != nil {
		return nil, err
	}
	n := &note{Owner: self.String(), Where: self.Where, Project: project,
		dir: filepath.Join(base, notePrefix+runID+"-"+strings.ToLower(rand.Text()[:6]))}
	if project == "" {
		n.Project = n.dir
	}
	for _, name := range places {
		if v, ok := os.LookupEnv(name); ok {
			n.Set = append(n.Set, name+"="+v)
		}
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return nil, err
	}
	if err := n.promise(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(n.dir))
	}
	return n, nil
}

// promise writes down how to undo the next step. It replaces the file, so that a killed run leaves a whole one.
func (n *note) promise(undo ...string) error {
	n.Undo = undo
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	half := filepath.Join(n.dir, noteFile+".new")
	if err := os.WriteFile(half, text, 0o600); err != nil {
		return err
	}
	return os.Rename(half, filepath.Join(n.dir, noteFile))
}

// own tells whether the project is tare's.
func (n *note) own() bool { return n.Project == n.dir }

// undoTime bounds undoing: stopping a machine that does not listen takes minutes.
const undoTime = 10 * time.Minute

// undo does what the note says and removes it, and the project if it is tare's.
func (n *note) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if _, err := os.Stat(n.Project); err == nil && len(n.Undo) > 0 {
		if !n.madeNothing() {
			if _, err := (&tool{dir: n.Project, own: n.own(), set: n.Set}).run(ctx, n.Undo...); err != nil {
				return err
			}
		}
		if n.own() {
			if err := n.forgotten(ctx); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(n.dir)
}

// madeNothing tells whether Vagrant knows of no machine in a project of tare's. It would say the same, after seconds.
func (n *note) madeNothing() bool {
	return n.own() && len((&project{data: filepath.Join(n.dir, dataFolder)}).machines()) == 0
}

// forgotten removes containers that Vagrant has left. It was stopped after it had asked Docker for one, and before it
// wrote down which; or it wrote that down, and did not find the container a moment later. Vagrant's names begin with
// the project's folder, which is no other run's.
func (n *note) forgotten(ctx context.Context) error {
	if _, err := proc.LookPath("docker"); err != nil || n.Provider != "" && n.Provider != "docker" {
		return nil
	}
	docker := func(args ...string) (string, error) {
		cmd := proc.Command(ctx, append([]string{"docker"}, args...)...)
		cmd.Env = append(os.Environ(), n.Set...)
		out, err := proc.RunCmd(cmd, nil)
		return string(out), err
	}
	// Docker still makes what a client that was stopped has asked for.
	end := time.Now()
	if n.stopped {
		end = end.Add(dockerTime)
	}
	for ; ; time.Sleep(dockerTime / 50) {
		out, err := docker("ps", "--all", "--quiet", "--no-trunc", "--filter", "name=^/"+filepath.Base(n.dir)+"_")
		if err != nil {
			return nil // no Docker that answers, and so none that made anything
		}
		for _, id := range strings.Fields(out) {
			if _, err := docker("rm", "--force", "--volumes", id); err != nil {
				return err
			}
		}
		if time.Now().After(end) {
			return nil
		}
	}
}

// dockerTime is how long after its client's end Docker may still make a container, on a busy machine.
const dockerTime = 10 * time.Second

func (n *note) String() string {
	what := "vagrant machine"
	if len(n.Undo) > 0 {
		what = "vagrant " + strings.Join(n.Undo, " ")
	}
	return what + " in " + n.Project
}

// unfinished is how old a folder without a note must be to count as left over.
const unfinished = time.Hour

// readNote reads the note of a run that has ended; nil for all others.
func readNote(dir string) *note {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, noteFile))
	n := &note{}
	if err != nil || json.Unmarshal(text, n) != nil {
		if time.Since(info.ModTime()) < unfinished {
			return nil
		}
		return &note{Project: dir, dir: dir}
	}
	n.dir = dir
	owner, err := leftover.ParseOwner(n.Owner)
	if owner.Where = n.Where; err != nil || owner.Alive() {
		return nil
	}
	return n
}

// clean finishes what killed runs began.
func clean(ctx context.Context, dry bool) (lines []string, err error) {
	base, err := notes()
	if err != nil {
		return nil, nil // then there is no note either
	}
	entries, _ := os.ReadDir(base)
	var errs []error
	for _, e := range entries {
		n := readNote(filepath.Join(base, e.Name()))
		if n == nil {
			continue
		}
		if !dry {
			if err := n.undo(ctx); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", n, err))
				continue
			}
		}
		lines = append(lines, n.String())
	}
	return lines, errors.Join(errs...)
}
