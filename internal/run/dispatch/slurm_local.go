package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// The reports of a job in its comment, where the nodes share no folder. Nothing else of a job that runs can be seen
// without starting something on its node, and that would disturb what it measures.
const (
	localWants   = "tare wants its files"
	localWorking = "tare works"
	localDone    = "tare is done"
	localEnded   = "tare ended: "
)

// localTimeout is how long a job waits for the controller, in seconds: for the program, and for its result to be
// fetched. A controller that comes later asks for the part again, and the result is still there.
const localTimeout = 600

// localReady is a file that tells a job that all others are there.
const localReady = "ready"

// bringAgain is how long a job may take to see that its files are there. A program that runs is not replaced.
const bringAgain = time.Minute

// localScript is the jobs' common script where the nodes share no folder. The program and the plan come from the
// controller, and ready is the last of them.
const localScript = `#!/bin/sh
# Made by tare fleet run: one part of a fleet, on one node, in a folder that is the node's own.
umask 077
dir=%[1]s/.tare-fleet-%[2]s-$1
say() { scontrol update jobid="$SLURM_JOB_ID" comment="$1" >/dev/null 2>&1 || :; }
await() {
	n=0
	while [ ! -e "$1" ]; do
		n=$((n + 1))
		[ "$n" -le %[3]d ] || return 1
		sleep 1
	done
}
mkdir -p -- "$dir" && [ -O "$dir" ] && cd -- "$dir" || { say "%[4]sno folder can be made: $dir"; exit 1; }
exec >>log 2>&1
if [ ! -e ready ]; then
	say "%[5]s"
	await ready || { say "%[4]sno controller brought the program"; exit 1; }
fi
%[6]s
# What a run left on this node that was killed with it.
[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || "$tare" clean
say "%[7]s"
"$tare" fleet shard "$1/%[8]d" plan.yaml --quiet --pack --out part --host "$2"
code=$?
if [ ! -e part.tare ]; then
	say "%[4]s$(tail -n 1 log | tr -cd '[:print:]' | cut -c -150)"
	exit "$code"
fi
say "%[9]s"
await fetched && cd / && rm -rf -- "$dir"
exit 0
`

func (s *Slurm) localScript(tare Programs, parts int) string {
	return fmt.Sprintf(localScript, shell.Quote(s.Local), s.ID, localTimeout, localEnded, localWants, tare.choice(),
		localWorking, parts, localDone)
}

// folder is a part's folder on its node.
func (s *Slurm) folder(n int) string {
	return strings.TrimRight(s.Local, "/") + fmt.Sprintf("/.tare-fleet-%s-%d", s.ID, n)
}

// serve brings files to the jobs that wait for them, and fetches results, several at a time.
func (s *Slurm) serve(ctx context.Context, parts []Part, jobs map[int]queueEntry, seen map[int]PartStatus) {
	if s.brought == nil {
		s.brought = map[string]time.Time{}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	free := make(chan struct{}, atATime)
	for i := range parts {
		p := &parts[i]
		j := jobs[p.Number]
		if j.state != "RUNNING" || j.comment != localWants && j.comment != localDone {
			continue
		}
		id := strconv.FormatUint(j.id, 10)
		mu.Lock()
		since := time.Since(s.brought[id])
		mu.Unlock()
		if j.comment == localWants && since < bringAgain {
			continue
		}
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			got := PartStatus{Phase: Working, Job: id}
			var err error
			if j.comment == localWants {
				err = s.equip(ctx, id, p)
			} else if err = s.fetch(ctx, id, p); err == nil {
				got.Phase = Ended // which its result makes Done
			}
			if err != nil {
				got = PartStatus{Phase: Stuck, Job: id, Detail: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[p.Number] = got; err == nil && j.comment == localWants {
				s.brought[id] = time.Now()
			}
		})
	}
	wg.Wait()
}

// localFiles are brought to each node, the last of them when the others are there.
func (s *Slurm) localFiles() (names []string, err error) {
	entries, err := os.ReadDir(s.Work)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "tare") {
			names = append(names, e.Name())
		}
	}
	return append(names, "plan.yaml", localReady), err
}

func (s *Slurm) equip(ctx context.Context, id string, p *Part) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	names, err := s.localFiles()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := proc.Run(ctx, nil, "sbcast", "--jobid="+id, "--force", filepath.Join(s.Work, name),
			s.folder(p.Number)+"/"+name); err != nil {
			return fmt.Errorf("bring %s to the node: %w", name, err)
		}
	}
	return nil
}

// step prepares a command on the node of a job that runs, beside its script.
func step(ctx context.Context, id, script string) *proc.Cmd {
	return proc.Command(ctx, "srun", "--jobid="+id, "--overlap", "--nodes=1", "--ntasks=1", "--input=none", "--quiet",
		"--chdir=/", "sh", "-c", script)
}

// fetch brings a result here, whole or not at all, and lets the job go.
func (s *Slurm) fetch(ctx context.Context, id string, p *Part) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	dir := shell.Quote(s.folder(p.Number))
	out, err := proc.RunCmd(step(ctx, id, "wc -c <"+dir+"/part.tare"), nil)
	size, e := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
	if err = errors.Join(err, e); err != nil {
		return fmt.Errorf("fetch the result: %w", err)
	}
	err = receive(filepath.Dir(s.Work), p, func(f *os.File) error {
		cmd := step(ctx, id, "cat "+dir+"/part.tare")
		cmd.Stdout = f
		if err := proc.Wait(cmd); err != nil {
			return err
		}
		return holds(f, size)
	})
	if err != nil {
		return err
	}
	// It is here: a job that does not hear of it ends by itself.
	_, _ = proc.RunCmd(step(ctx, id, ": >"+dir+"/fetched"), nil)
	return nil
}
