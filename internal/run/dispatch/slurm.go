package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// Slurm runs each part as a job of its own: on one named node, exclusive, requeued if the node goes down. The tasks of
// a job array cannot name their nodes: two could come to one node one after the other, and another would have none.
type Slurm struct {
	ID   string // of the fleet
	Work string // the work folder, by its full path, on a file system that the nodes share
	// Args are the user's arguments for sbatch, such as --partition=main.
	Args []string
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

// job is the name of a part's job.
func (s *Slurm) job(n int) string { return fmt.Sprintf("tare-%s-%d", s.ID, n) }

// script is the jobs' common script. $1 is the part, $2 what the fleet calls the host.
const script = `#!/bin/sh
# Made by tare fleet run: one part of a fleet, on one node.
# What a run left on this node that was killed with it.
[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || %[1]s clean
exec %[1]s fleet shard "$1/%[2]d" plan.yaml --quiet --pack --out "part-$1" --host "$2"
`

// PrepareSlurm writes the script.
func PrepareSlurm(work, tare string, parts int) error {
	return os.WriteFile(filepath.Join(work, "job.sh"), fmt.Appendf(nil, script, shell.Quote(tare), parts), 0o755)
}

// Start implements Engine.
func (s *Slurm) Start(ctx context.Context, p Part) (string, error) {
	argv := []string{"sbatch", "--parsable", "--job-name=" + s.job(p.Number), "--nodes=1", "--ntasks=1", "--exclusive",
		"--requeue", "--nodelist=" + p.Host, "--chdir=" + s.Work, "--open-mode=append",
		fmt.Sprintf("--output=log-%d", p.Number)}
	argv = append(argv, s.Args...)
	out, err := proc.Run(ctx, nil, append(argv, filepath.Join(s.Work, "job.sh"), strconv.Itoa(p.Number), p.Host)...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // a federation adds the cluster's name
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "", fmt.Errorf("sbatch printed %.60q, which is no job", id)
	}
	return id, nil
}

// Drop implements Engine.
func (s *Slurm) Drop(ctx context.Context, p Part) error {
	_, err := proc.Run(ctx, nil, "scancel", "--name="+s.job(p.Number))
	return err
}

// Look implements Engine. squeue's plain output is the same in all versions; its JSON is not.
func (s *Slurm) Look(ctx context.Context, parts []Part) (map[int]Seen, error) {
	out, err := proc.Run(ctx, nil, "squeue", "--noheader", "--states=all", "--user="+strconv.Itoa(os.Getuid()),
		"--format=%A|%j|%T|%r")
	if err != nil {
		return nil, err
	}
	jobs := parseQueue(out, "tare-"+s.ID+"-")
	seen := map[int]Seen{}
	for _, p := range parts {
		j, ok := jobs[p.Number]
		switch {
		case ok:
			seen[p.Number] = j.seen(s.said(p.Number))
		case p.Job != "":
			// The queue forgets jobs some minutes after their end.
			seen[p.Number] = Seen{Phase: Ended, Detail: cmp.Or(s.said(p.Number), "its job is gone"), Job: p.Job}
		}
	}
	return seen, nil
}

// said is the last line of what a part printed.
func (s *Slurm) said(n int) string {
	f, err := os.Open(filepath.Join(s.Work, fmt.Sprintf("log-%d", n)))
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, 2); err != nil {
			return ""
		}
	}
	b := make([]byte, most)
	k, _ := f.Read(b)
	return proc.Telling(b[:k])
}

// queued is a line of squeue's.
type queued struct {
	id            uint64
	state, reason string
}

// parseQueue finds the parts' jobs in what squeue printed, by their names. Of several of one part the newest counts.
func parseQueue(out []byte, prefix string) map[int]queued {
	jobs := map[int]queued{}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 4)
		if len(f) != 4 {
			continue
		}
		id, err := strconv.ParseUint(strings.TrimSpace(f[0]), 10, 64)
		number, ok := strings.CutPrefix(f[1], prefix)
		n, err2 := strconv.Atoi(number)
		if !ok || errors.Join(err, err2) != nil || n < 1 {
			continue
		}
		if j, ok := jobs[n]; !ok || id > j.id {
			jobs[n] = queued{id, f[2], f[3]}
		}
	}
	return jobs
}

// down are parts of the reasons why a job waits that name a node which does not work.
var down = []string{"DOWN", "DRAINED", "Drained", "ReqNodeNotAvail", "NodeDown", "UnavailableNodes"}

// seen says how far a job is. States are those of squeue(1).
func (j *queued) seen(said string) Seen {
	s := Seen{Job: strconv.FormatUint(j.id, 10), Detail: j.reason}
	if s.Detail == "None" {
		s.Detail = ""
	}
	switch j.state {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING":
		s.Phase, s.Detail = Working, ""
	case "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED":
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
