package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// Slurm runs each part as a job of its own: on one named node, exclusive, requeued if the node goes down. The tasks of
// a job array cannot name their nodes: two could come to one node one after the other, and another would have none.
type Slurm struct {
	ID string // of the fleet
	// Work is the work folder on this machine, by its full path. The nodes share it, unless Local is set.
	Work string
	// Local is a folder that each node has for itself. Then the program and the plan are brought into a folder below
	// it, by sbcast, and the result is fetched from there, by srun. "" where the nodes share Work.
	Local string
	// Args are the user's arguments for sbatch, such as --partition=main.
	Args []string

	silent  bool                 // there is no accounting to ask
	brought map[string]time.Time // when the files were brought to a job
}

// SlurmHosts lists nodes: those that an expression such as n[1-4,7] means, or without one all of the cluster.
func SlurmHosts(ctx context.Context, expression string) ([]string, error) {
	argv := []string{"sinfo", "--noheader", "--Node", "--format=%N"}
	if expression != "" {
		argv = []string{"scontrol", "show", "hostnames", expression}
	}
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		return nil, err
	}
	hosts := strings.Fields(string(out))
	if expression == "" {
		slices.Sort(hosts) // a node is listed once for each of its partitions
		hosts = slices.Compact(hosts)
	}
	return hosts, nil
}

// script is the jobs' common script where the nodes share the work folder. $1 is the part, $2 the fleet's name of the
// host. Its parts are the choice of the program and the number of parts.
const script = `#!/bin/sh
# Made by tare fleet run: one part of a fleet, on one node.
%[1]s
# What a run left on this node that was killed with it.
[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || "$tare" clean
exec "$tare" fleet shard "$1/%[2]d" plan.yaml --quiet --pack --out "part-$1" --host "$2"
`

// Programs are tare's executables by GOARCH, as paths on the nodes. Under "" is one that is taken whatever a node is.
type Programs map[string]string

// kernelNames are the outputs of uname -m, by GOARCH.
var kernelNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64"}

// choice is the part of a script that sets $tare.
func (p Programs) choice() string {
	if path, ok := p[""]; ok {
		return "tare=" + shell.Quote(path)
	}
	var b strings.Builder
	b.WriteString("case $(uname -m) in\n")
	for _, arch := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s) tare=%s ;;\n", cmp.Or(kernelNames[arch], arch), shell.Quote(p[arch]))
	}
	b.WriteString(`*)
	echo "tare: this node is $(uname -m), and the fleet has no tare for it: call again in another folder with a tare` +
		` of the same build for it, --tare linux/ARCH=FILE" >&2
	exit 1
	;;
esac`)
	return b.String()
}

// Prepare writes the jobs' script. The programs and the plan must be in the work folder already.
func (s *Slurm) Prepare(work string, tare Programs, parts int) error {
	text := fmt.Sprintf(script, tare.choice(), parts)
	if s.Local != "" {
		text = s.localScript(tare, parts)
		if err := os.WriteFile(filepath.Join(work, localReady), []byte("ready\n"), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(work, "job.sh"), []byte(text), 0o755)
}

// job is the name of a part's job.
func (s *Slurm) job(n int) string { return fmt.Sprintf("tare-%s-%d", s.ID, n) }

// Start implements Engine.
func (s *Slurm) Start(ctx context.Context, p Part) (string, error) {
	log, dir := fmt.Sprintf("log-%d", p.Number), s.Work
	if s.Local != "" {
		log, dir = "/dev/null", "/" // the script has a log of its own
	}
	// Of an option that is there twice, the last counts: what tells the parts apart is not the user's.
	argv := append([]string{"sbatch"}, s.Args...)
	argv = append(argv, "--parsable", "--job-name="+s.job(p.Number), "--nodes=1", "--ntasks=1", "--exclusive",
		"--requeue", "--nodelist="+p.Host, "--chdir="+dir, "--open-mode=append", "--output="+log, "--error="+log)
	// Where the queue is full, sbatch tries again for two minutes, in which nothing else would be looked at.
	patient, cancel := context.WithTimeout(ctx, sbatchTime)
	defer cancel()
	out, err := proc.Run(patient, nil, append(argv, filepath.Join(s.Work, "job.sh"), strconv.Itoa(p.Number), p.Host)...)
	if err != nil && ctx.Err() == nil && isFull(err) {
		return "", fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // a federation adds the cluster's name
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "", fmt.Errorf("sbatch printed %.60q, which is no job", id)
	}
	return id, nil
}

// sbatchTime bounds a call of sbatch.
const sbatchTime = 30 * time.Second

// fullWords are in sbatch's message where the queue, or the user's share of it, is full.
var fullWords = []string{"job queue full", "temporarily unable to accept job", "job submit limit",
	"MaxSubmitJob", "MaxJobCount"}

func isFull(err error) bool {
	x, ok := errors.AsType[*proc.ExitError](err)
	return ok && slices.ContainsFunc(fullWords, func(w string) bool { return strings.Contains(x.Stderr, w) })
}

// Drop implements Engine.
func (s *Slurm) Drop(ctx context.Context, p Part) error {
	_, err := proc.Run(ctx, nil, "scancel", "--name="+s.job(p.Number))
	return err
}

// Look implements Engine. squeue's plain output is the same in all versions; its JSON is not.
func (s *Slurm) Look(ctx context.Context, parts []Part) (map[int]PartStatus, error) {
	out, err := proc.Run(ctx, nil, "squeue", "--noheader", "--states=all", "--user="+strconv.Itoa(os.Getuid()),
		"--format=%A|%j|%T|%r|%k")
	if err != nil {
		return nil, err
	}
	jobs := parseQueue(out, "tare-"+s.ID+"-")
	seen := map[int]PartStatus{}
	var gone []string
	for _, p := range parts {
		j, ok := jobs[p.Number]
		switch {
		case ok:
			v := j.seen("")
			switch {
			case v.Phase == Ended:
				v = j.seen(s.said(p.Number))
			case v.Phase == Working && s.Local == "" && !s.began(&p):
				v = v.behind(s.log(p.Number))
			}
			seen[p.Number] = v
		case p.Job != "":
			gone = append(gone, p.Job)
		}
	}
	if len(gone) > 0 {
		// The queue forgets jobs some minutes after their end.
		ended := s.accounts(ctx, gone)
		for _, p := range parts {
			if _, ok := jobs[p.Number]; ok || p.Job == "" {
				continue
			}
			e, ok := ended[p.Job]
			if v := e.seen(s.said(p.Number)); ok && v.Phase == Ended {
				seen[p.Number] = v
				continue
			}
			seen[p.Number] = PartStatus{Phase: Ended, Detail: cmp.Or(s.said(p.Number), "its job is gone"), Job: p.Job}
		}
	}
	if s.Local != "" {
		s.serve(ctx, parts, jobs, seen)
	}
	return seen, context.Cause(ctx)
}

// mostAccounts bounds how many jobs one call of sacct asks for.
const mostAccounts = 500

// accounts asks the accounting for the end of jobs that the queue has forgotten; nothing where there is none.
func (s *Slurm) accounts(ctx context.Context, ids []string) map[string]queueEntry {
	found := map[string]queueEntry{}
	for some := range slices.Chunk(ids, mostAccounts) {
		if s.silent {
			break
		}
		out, err := proc.Run(ctx, nil, "sacct", "--noheader", "--parsable2", "--allocations",
			"--format=JobIDRaw,State", "--jobs="+strings.Join(some, ","))
		if err != nil {
			// Most clusters without a database say so each time; one that does not answer is asked again.
			x, ok := errors.AsType[*proc.ExitError](err)
			s.silent = !ok || strings.Contains(x.Stderr, "disabled")
			break
		}
		maps.Copy(found, parseAccounts(out))
	}
	return found
}

// parseAccounts reads what sacct printed: an id and a state on each line, the state with words behind it.
func parseAccounts(out []byte) map[string]queueEntry {
	found := map[string]queueEntry{}
	for line := range strings.Lines(string(out)) {
		id, state, ok := strings.Cut(strings.TrimSpace(line), "|")
		n, err := strconv.ParseUint(id, 10, 64)
		words := strings.Fields(state)
		if ok && err == nil && len(words) > 0 {
			found[id] = queueEntry{id: n, state: strings.TrimSuffix(words[0], "+")}
		}
	}
	return found
}

// said is the most telling line at the end of a part's output.
func (s *Slurm) said(n int) string { return proc.Telling(s.log(n)) }

// log is the end of a part's output.
func (s *Slurm) log(n int) []byte {
	f, err := os.Open(filepath.Join(s.Work, fmt.Sprintf("log-%d", n)))
	if err != nil {
		return nil
	}
	defer f.Close()
	const most = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, 2); err != nil {
			return nil
		}
	}
	b := make([]byte, most)
	k, _ := f.Read(b)
	return b[:k]
}

// began tells whether a part has a bundle, and so its machine for itself.
func (s *Slurm) began(p *Part) bool {
	_, err := os.Stat(filepath.Join(Folder(filepath.Dir(s.Work), p), bundle.ManifestFile))
	return err == nil
}

// queueEntry is a line of squeue's.
type queueEntry struct {
	id            uint64
	state, reason string
	comment       string // the job's own report
}

// parseQueue finds the parts' jobs in what squeue printed, by their names. Of several of one part the newest counts.
func parseQueue(out []byte, prefix string) map[int]queueEntry {
	jobs := map[int]queueEntry{}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 5)
		if len(f) < 4 {
			continue
		}
		id, err := strconv.ParseUint(strings.TrimSpace(f[0]), 10, 64)
		number, ok := strings.CutPrefix(f[1], prefix)
		n, err2 := strconv.Atoi(number)
		if !ok || errors.Join(err, err2) != nil || n < 1 {
			continue
		}
		if j, ok := jobs[n]; !ok || id > j.id {
			jobs[n] = queueEntry{id: id, state: f[2], reason: f[3], comment: strings.Join(f[4:], "")}
		}
	}
	return jobs
}

// down are parts of the reasons why a job waits that name a node which does not work, or limits that no waiting
// changes.
var down = []string{"DOWN", "DRAINED", "Drained", "ReqNodeNotAvail", "NodeDown", "UnavailableNodes",
	"PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "AccountNotAllowed", "QOSNotAllowed",
	"InvalidAccount", "InvalidQOS", "launch failed"}

// seen says how far a job is. States are those of squeue(1).
func (j *queueEntry) seen(said string) PartStatus {
	s := PartStatus{Job: strconv.FormatUint(j.id, 10), Detail: j.reason}
	if s.Detail == "None" {
		s.Detail = ""
	}
	switch j.state {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING":
		s.Phase, s.Detail = Working, ""
	case "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED":
		if text, ok := strings.CutPrefix(j.comment, localEnded); ok {
			said = cmp.Or(said, text)
		}
		s.Phase, s.Detail = Ended, strings.Trim(j.state+": "+said, ": ")
	case "CANCELLED", "REVOKED":
		s.Phase, s.Detail, s.Final = Ended, "its job was cancelled", true
	default: // PENDING, CONFIGURING, REQUEUED, REQUEUE_HOLD and what later versions add
		s.Phase = Waiting
		if slices.ContainsFunc(down, func(part string) bool { return strings.Contains(j.reason, part) }) {
			s.Phase = Stuck
		}
	}
	return s
}
