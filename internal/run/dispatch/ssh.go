package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// SSH runs each part on a host that OpenSSH reaches: it puts this program and the plan into a folder there and starts
// the part, which goes on by itself. Nothing but the result's coming into being is waited for.
type SSH struct {
	ID  string // of the fleet
	Dir string // the fleet's folder on this machine
	// Tare are the programs that are put there, by the platform of the host. All are of this build.
	Tare  map[deploy.Platform]string
	Plan  []byte // the plan's text
	Parts int
	// Specs are the hosts, by the number of their part.
	Specs map[int]env.Spec

	last   time.Time         // when Look was called
	looked map[int]time.Time // when each part's host was spoken to
}

// The scripts run with sh -c on the host, with the part's folder as $0. They are one line each, without backslashes and
// exclamation marks, so that the quoting of package shell also works for login shells that are not POSIX shells.
const (
	// putScript stores standard input as $1, whole or not at all, in a folder that is this user's alone. A file that
	// does not fit is removed, so that the disk does not stay full of it.
	putScript = `umask 077; mkdir -p -- "$0" && [ -O "$0" ] || exit 1; cat >"$0/$1.part" && ` +
		`chmod 700 "$0/$1.part" && mv -f -- "$0/$1.part" "$0/$1" && echo ` + mark + `put || ` +
		`{ rm -f -- "$0/$1.part"; exit 1; }`
	// startScript starts part $1 in the background; $2 is the fleet's name of the host, $3 how often that was asked
	// for. The remains of an earlier run that was killed are removed first. A session of its own, where the system has
	// setsid, outlives the connection whatever the server does at its end.
	startScript = `cd -- "$0" || exit 1; [ "$3" -le 1 ] || ./tare clean >>log 2>&1; ` +
		`s=; command -v setsid >/dev/null && s=setsid; ` +
		`nohup $s ./tare fleet shard "$1" plan.yaml --quiet --pack --out part --host "$2" >>log 2>&1 </dev/null & ` +
		`echo ` + mark + `started`
	// lookScript says how far the part is; while it works, also the last line of its output, and where it has ended
	// without a result, the end of that. On a full disk it may have printed nothing.
	lookScript = `[ -O "$0" ] || { echo ` + mark + `absent; exit 0; }; cd -- "$0" || exit 1; ` +
		`if [ -e part.tare ]; then echo "` + mark + `done $(wc -c <part.tare)"; ` +
		`elif [ -x tare ] && ./tare fleet held part.lock >/dev/null 2>&1; then echo ` + mark + `working; ` +
		`tail -n 1 log 2>/dev/null; ` +
		`else echo ` + mark + `ended; tail -c 2000 log 2>/dev/null; ` +
		`echo x 2>/dev/null >room; [ -s room ] || echo "tare: nothing can be written to $0: the disk is full"; ` +
		`rm -f room; fi`
	fetchScript  = `cat -- "$0/part.tare"`
	removeScript = `rm -rf -- "$0"`
	mark         = "tare-fleet:"
)

// ErrNoProgram is returned for a host for which there is no tare of this build. Trying it again does not help.
var ErrNoProgram = errors.New("there is no tare for this host")

// answerTime bounds a short command on a host.
const answerTime = 2 * time.Minute

// atATime is how many hosts are spoken to at once.
const atATime = 16

// mostLooks is how many hosts are looked at in a second, on average: a connection costs the controller more than
// everything else that it does. With a thousand at work, each is looked at every 100 s.
const mostLooks = 10

// folder is the part's folder on its host.
func (s *SSH) folder(n int) string {
	spec := s.Specs[n]
	return strings.TrimRight(spec.Get("dir", "/var/tmp"), "/") + fmt.Sprintf("/.tare-fleet-%s-%d", s.ID, n)
}

// say runs a script on a part's host and returns its output.
func (s *SSH) say(ctx context.Context, n int, stdin io.Reader, script string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	spec := s.Specs[n]
	cmd, err := ssh.Command(ctx, &spec, append([]string{"sh", "-c", script, s.folder(n)}, args...)...)
	if err != nil {
		return nil, err
	}
	return proc.RunCmd(cmd, stdin)
}

// answer finds the script's own line among what login shells print, and what follows it.
func answer(out []byte) (word string, rest []byte, ok bool) {
	_, after, ok := bytes.Cut(out, []byte(mark))
	line, rest, _ := bytes.Cut(after, []byte("\n"))
	return strings.TrimSpace(string(line)), rest, ok
}

// Start implements Engine.
func (s *SSH) Start(ctx context.Context, p Part) (string, error) {
	if err := s.equip(ctx, p.Number); err != nil {
		return "", err
	}
	out, err := s.say(ctx, p.Number, nil, startScript, fmt.Sprintf("%d/%d", p.Number, s.Parts), p.Host,
		strconv.Itoa(p.Tries))
	if err != nil {
		return "", fmt.Errorf("start the part: %w", err)
	}
	if word, _, _ := answer(out); word != "started" {
		return "", errors.New("start the part: the host did not say that it was started")
	}
	return s.folder(p.Number), nil
}

// equip puts plan and program there, unless this build of it is there already.
func (s *SSH) equip(ctx context.Context, n int) error {
	out, err := s.say(ctx, n, nil, `uname -s -m; [ -O "$0" ] && [ -x "$0/tare" ] && "$0/tare" agent --version; true`)
	if err != nil {
		return fmt.Errorf("reach the host: %w", err)
	}
	if build, _, _, ok := wire.ParseVersionLine(string(out)); ok && build == version.Build {
		return nil
	}
	platform, err := deploy.ParseUname(string(out))
	if err != nil {
		return err
	}
	tare, ok := s.Tare[platform]
	if !ok {
		return fmt.Errorf("%w: the host is %s: name a tare of this build for it with --tare %s=FILE, or leave the "+
			"host out", ErrNoProgram, platform, platform)
	}
	if err := s.put(ctx, n, "plan.yaml", bytes.NewReader(s.Plan)); err != nil {
		return err
	}
	f, err := os.Open(tare)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.put(ctx, n, "tare", f); err != nil {
		return err
	}
	out, err = s.say(ctx, n, nil, `"$0/tare" agent --version`)
	if err != nil {
		return fmt.Errorf("start tare there: %w; is the folder on a file system mounted noexec? choose another "+
			"with the setting dir=", err)
	}
	if build, _, _, ok := wire.ParseVersionLine(string(out)); !ok || build != version.Build {
		return fmt.Errorf("%w: the tare for %s is build %.64q, and this one is build %q: make sure all of a fleet "+
			"are of one build", ErrNoProgram, platform, build, version.Build)
	}
	return nil
}

func (s *SSH) put(ctx context.Context, n int, name string, r io.Reader) error {
	out, err := s.say(ctx, n, r, putScript, name)
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	if word, _, _ := answer(out); word != "put" {
		return fmt.Errorf("put %s: the host did not say that it has it", name)
	}
	return nil
}

// Look implements Engine. A host that does not answer is Working as far as anybody knows: its work goes on without this
// machine. A result is fetched at once, and then nothing is left there.
func (s *SSH) Look(ctx context.Context, parts []Part) (map[int]PartStatus, error) {
	seen := map[int]PartStatus{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	free := make(chan struct{}, atATime)
	due := s.due(parts)
	for i := range parts {
		p := &parts[i]
		if p.Tries == 0 && p.Job == "" {
			continue // nobody has spoken to it yet
		}
		if !due[p.Number] {
			seen[p.Number] = PartStatus{Phase: p.Phase, Detail: p.Detail, Job: p.Job}
			continue
		}
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			got := s.look(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			seen[p.Number] = got
		})
	}
	wg.Wait()
	return seen, context.Cause(ctx)
}

// due are the parts whose hosts are spoken to now: those of which nothing is known, and of the others those that were
// not looked at for the longest time.
func (s *SSH) due(parts []Part) map[int]bool {
	now := time.Now()
	room := max(atATime, int(mostLooks*min(now.Sub(s.last), time.Hour).Seconds()))
	s.last = now
	if s.looked == nil {
		s.looked = map[int]time.Time{}
	}
	due := map[int]bool{}
	var known []int
	for i := range parts {
		switch p := &parts[i]; p.Phase {
		case Waiting, Stuck, Working:
			known = append(known, p.Number)
		default:
			due[p.Number] = true
		}
	}
	slices.SortStableFunc(known, func(a, b int) int { return s.looked[a].Compare(s.looked[b]) })
	for _, n := range known[:min(room, len(known))] {
		due[n] = true
	}
	for n := range due {
		s.looked[n] = now
	}
	return due
}

// behind is the state of a part at work, where the last line of its output says what it waits for: another part on its
// machine.
func (s PartStatus) behind(said []byte) PartStatus {
	lines := strings.Split(strings.TrimSpace(proc.Printable(said)), "\n")
	if text, ok := strings.CutPrefix(lines[len(lines)-1], "waiting "); ok {
		s.Phase, s.Detail, s.News = Waiting, strings.TrimSpace(text), true
	}
	return s
}

func (s *SSH) look(ctx context.Context, p *Part) PartStatus {
	out, err := s.say(ctx, p.Number, nil, lookScript)
	word, rest, ok := answer(out)
	switch {
	case (err != nil || !ok) && p.Job == "":
		return PartStatus{Phase: Ended, Detail: fmt.Sprint(err)} // it was never reached
	case err != nil || !ok:
		return PartStatus{Phase: Stuck, Job: p.Job, Detail: fmt.Sprintf("the host does not answer: %v", err)}
	}
	switch word, size, _ := strings.Cut(word, " "); word {
	case "absent":
		return PartStatus{Phase: Absent}
	case "working":
		return PartStatus{Phase: Working, Job: p.Job}.behind(rest)
	case "done":
		n, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64)
		if err == nil {
			err = s.fetch(ctx, p, n)
		}
		if err != nil {
			return PartStatus{Phase: Stuck, Job: p.Job, Detail: err.Error()} // it is there still
		}
		return PartStatus{Phase: Ended, Job: p.Job}
	}
	return PartStatus{Phase: Ended, Job: p.Job, Detail: proc.Telling(rest)}
}

// fetch brings a result here, whole or not at all, and then removes the part's folder there.
func (s *SSH) fetch(ctx context.Context, p *Part, size int64) error {
	err := receive(s.Dir, p, func(f *os.File) error {
		spec := s.Specs[p.Number]
		cmd, err := ssh.Command(ctx, &spec, "sh", "-c", fetchScript, s.folder(p.Number))
		if err != nil {
			return err
		}
		cmd.Stdout = f
		if err := proc.Wait(cmd); err != nil {
			return err
		}
		return holds(f, size)
	})
	if err != nil {
		return err
	}
	// It is here: what cannot be removed there does no harm.
	_, _ = s.say(ctx, p.Number, nil, removeScript)
	return nil
}

// Tidy removes the folder of a part whose result is here.
func (s *SSH) Tidy(ctx context.Context, p Part) { _, _ = s.say(ctx, p.Number, nil, removeScript) }

// Drop implements Engine. The host does not answer; when it does again, a further call finds the part there.
func (s *SSH) Drop(context.Context, Part) error { return nil }
