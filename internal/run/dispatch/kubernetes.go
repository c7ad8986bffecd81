package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/sys/proc"
)

// Kubernetes runs each part as a Job with one Pod that names its node. The Jobs are applied and watched by kubectl. A
// result comes by the Pod's log, or lies in a volume that this machine has as well.
type Kubernetes struct {
	ID    string // of the fleet
	Dir   string // the fleet's folder on this machine
	Plan  []byte // the plan's text, at most MaxKubePlan bytes
	Parts int
	// Image has tare in it; "" where Template names one.
	Image string
	// Tare is the program's name or path in the image.
	Tare string
	// Template is the Pod that parts run as, of ParseTemplate; nil for none.
	Template object
	Volume   Volume
	// Args are the user's arguments for kubectl, such as --namespace=bench.
	Args []string
}

// kubeAnswer bounds one call of kubectl.
const kubeAnswer = 2 * time.Minute

// maxObjects bounds what kubectl may print of a fleet's objects, in bytes.
const maxObjects = 512 << 20

// job is the name of a part's Job.
func (k *Kubernetes) job(n int) string { return fmt.Sprintf("tare-%s-%d", k.ID, n) }

func kubectl(args []string, words ...string) []string {
	return append(append([]string{"kubectl"}, args...), words...)
}

// call runs kubectl and returns its output.
func (k *Kubernetes) call(ctx context.Context, stdin io.Reader, words ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeAnswer)
	defer cancel()
	return proc.Run(ctx, stdin, kubectl(k.Args, words...)...)
}

// Check returns an error that names the missing parts of a Job, before anything is asked for.
func (k *Kubernetes) Check() error {
	_, err := k.manifest(&Part{Number: 1, Host: "node"})
	return err
}

// Try has the API server look at the Job of the first part, and makes nothing. Faults of image names, of the template
// or of the user's rights are the same for all parts.
func (k *Kubernetes) Try(ctx context.Context, p *Part) error {
	src, err := k.manifest(p)
	if err == nil {
		_, err = k.call(ctx, bytes.NewReader(src), "create", "--dry-run=server", "-f", "-")
	}
	if err != nil {
		return fmt.Errorf("try a Job: %w", err)
	}
	return nil
}

// Start implements Engine.
func (k *Kubernetes) Start(ctx context.Context, p Part) (string, error) {
	name := k.job(p.Number)
	if p.Job != "" {
		// The Job of an earlier try goes first, so that two Pods of a part never work at once.
		if _, err := k.call(ctx, nil, "delete", "job", name, "--ignore-not-found", "--cascade=foreground",
			"--timeout=90s"); err != nil {
			return "", fmt.Errorf("remove the Job of the try before: %w", err)
		}
	}
	src, err := k.manifest(&p)
	if err != nil {
		return "", err
	}
	_, err = k.call(ctx, bytes.NewReader(src), "create", "-f", "-")
	if x, ok := errors.AsType[*proc.ExitError](err); ok && strings.Contains(x.Stderr, "AlreadyExists") {
		err = nil // a controller that was killed has asked for it
	}
	return name, err
}

// Drop implements Engine.
func (k *Kubernetes) Drop(ctx context.Context, p Part) error {
	// A Job that has ended well has a result that could not be fetched yet: a further call of the command may.
	_, err := k.call(ctx, nil, "delete", "jobs", "--wait=false",
		"--field-selector=status.successful=0,metadata.name="+k.job(p.Number))
	return err
}

// Look implements Engine. A result is fetched at once, and then its Job is removed.
func (k *Kubernetes) Look(ctx context.Context, parts []Part) (map[int]PartStatus, error) {
	out, err := k.objects(ctx)
	if err != nil {
		return nil, err
	}
	found, err := parseObjects(out, k.ID)
	if err != nil {
		return nil, err
	}
	seen := map[int]PartStatus{}
	for i := range parts {
		p := &parts[i]
		j := found[p.Number]
		if j == nil || j.job == nil {
			switch p.Phase {
			case Waiting, Stuck, Working: // it was there
				seen[p.Number] = PartStatus{Phase: Ended, Job: p.Job, Detail: "its Job was deleted", Final: true}
			}
			continue
		}
		s := j.seen()
		s.Job = j.job.Metadata.Name
		switch {
		case s.Phase == Done:
			s = k.fetch(ctx, p, j)
		case s.Phase == Ended && j.pod != nil:
			if said := k.said(ctx, p, j); said != "" {
				s.Detail = strings.TrimPrefix(s.Detail+": "+said, ": ")
			}
		}
		seen[p.Number] = s
	}
	return seen, context.Cause(ctx)
}

// objects returns kubectl's list of the fleet's Jobs and Pods.
func (k *Kubernetes) objects(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeAnswer)
	defer cancel()
	cmd := proc.Command(ctx, kubectl(k.Args, "get", "jobs,pods", "--selector="+kubeFleet+"="+k.ID, "--output=json")...)
	out, said := &limitedBuffer{most: maxObjects}, proc.NewTail(4<<10)
	cmd.Stdout, cmd.Stderr = out, said
	if err := proc.Wait(cmd); err != nil {
		return nil, fmt.Errorf("ask Kubernetes for the fleet's Jobs: %w: %s", err, proc.Line(string(said.Bytes())))
	}
	return out.Bytes(), nil
}

// limitedBuffer is memory that refuses more than it has room for.
type limitedBuffer struct {
	bytes.Buffer
	most int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fmt.Errorf("it is longer than %d MiB", b.most>>20)
	}
	return b.Buffer.Write(p)
}

// fetch brings the result of a part that has ended here, whole or not at all, and then removes its Job.
func (k *Kubernetes) fetch(ctx context.Context, p *Part, j *kubeStatus) PartStatus {
	name := j.job.Metadata.Name
	err := k.bring(ctx, p, j)
	switch {
	case err == nil:
		// It is here: what cannot be removed there, the cluster removes a week after its end.
		_, _ = k.call(ctx, nil, "delete", "job", k.job(p.Number), "--ignore-not-found", "--wait=false")
		return PartStatus{Phase: Ended, Job: name}
	case errors.Is(err, ErrNotLogged):
		// Measuring it again would end in the same way.
		return PartStatus{Phase: Ended, Job: name, Final: true, Detail: err.Error() +
			"; runtimes keep only the end of a long one: give the parts a volume with --volume claim=NAME,at=DIR"}
	}
	return PartStatus{Phase: Stuck, Job: name, Detail: err.Error()} // it is there still
}

func (k *Kubernetes) bring(ctx context.Context, p *Part, j *kubeStatus) error {
	return receive(k.Dir, p, func(f *os.File) error {
		if k.Volume.At != "" {
			return k.copyResult(f, p)
		}
		return k.readLog(ctx, j, f)
	})
}

// copyResult takes the result from the volume. Where the node is another machine than the one that began, it has a name
// of its own, which is the last.
func (k *Kubernetes) copyResult(to io.Writer, p *Part) error {
	dir := filepath.Join(k.Volume.At, filepath.FromSlash(k.place(p)))
	all, err := os.ReadDir(dir)
	var found []string
	for _, e := range all {
		if name := e.Name(); strings.HasPrefix(name, "part") && strings.HasSuffix(name, bundle.Ext) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	if (err == nil || errors.Is(err, fs.ErrNotExist)) && len(found) == 0 {
		err = fmt.Errorf("it is not in %s: does at=DIR name the claim's folder on this machine?", dir)
	}
	if err != nil {
		return err
	}
	in, err := os.Open(slices.Max(found))
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(to, in)
	return err
}

// readLog takes the result from the log of the Pod that has it.
func (k *Kubernetes) readLog(ctx context.Context, j *kubeStatus, f *os.File) error {
	if j.pod == nil {
		return fmt.Errorf("%w: its Pod is gone", ErrNotLogged)
	}
	ctx, cancel := context.WithTimeout(ctx, kubeAnswer)
	defer cancel()
	cmd := proc.Command(ctx, kubectl(k.Args, "logs", j.pod.Metadata.Name, "--container="+kubeContainer)...)
	r, w := io.Pipe()
	said := proc.NewTail(4 << 10)
	cmd.Stdout, cmd.Stderr = w, said
	ended := make(chan error, 1)
	go func() {
		err := proc.Wait(cmd)
		w.Close()
		ended <- err
	}()
	err := ReadLogged(r, f, func() error {
		_, err := f.Seek(0, io.SeekStart)
		return errors.Join(err, f.Truncate(0))
	})
	r.CloseWithError(errors.New("no more is read"))
	if e := <-ended; e != nil && (err == nil || errors.Is(err, ErrNotLogged)) {
		return fmt.Errorf("read the log: %w: %s", e, proc.Line(string(said.Bytes())))
	}
	return err
}

// said is the last line of a part's output; "" where nobody knows.
func (k *Kubernetes) said(ctx context.Context, p *Part, j *kubeStatus) string {
	out, err := k.call(ctx, nil, "logs", j.pod.Metadata.Name, "--container="+kubeContainer, "--tail=40",
		"--limit-bytes=65536")
	if err != nil {
		return ""
	}
	// The Job is removed when the part is begun again.
	_ = os.WriteFile(filepath.Join(k.Dir, WorkDir, fmt.Sprintf("log-%d", p.Number)), out, 0o644)
	return proc.Telling(out)
}

// KubeNode is a node of a cluster.
type KubeNode struct{ Name, OS string }

// noControlPlane selects the nodes that are for work.
const noControlPlane = "!node-role.kubernetes.io/control-plane"

// KubeNodes lists the nodes that a label selector means, or without one all that are for work. args are the user's
// arguments for kubectl.
func KubeNodes(ctx context.Context, args []string, selector string) ([]KubeNode, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeAnswer)
	defer cancel()
	out, err := proc.Run(ctx, nil, kubectl(args, "get", "nodes", "--selector="+cmp.Or(selector, noControlPlane),
		`--output=jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.operatingSystem}{"\n"}{end}`)...)
	if err != nil {
		return nil, err
	}
	var nodes []KubeNode
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 {
			nodes = append(nodes, KubeNode{f[0], strings.Join(f[1:], " ")})
		}
	}
	return nodes, nil
}

// kubeObject has of a Job or a Pod what tells how far a part is.
type kubeObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name     string            `json:"name"`
		Labels   map[string]string `json:"labels"`
		Created  time.Time         `json:"creationTimestamp"`
		Deleting *time.Time        `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase      string          `json:"phase"`
		Reason     string          `json:"reason"`
		Message    string          `json:"message"`
		Conditions []kubeCondition `json:"conditions"`
		Containers []struct {
			Name  string `json:"name"`
			State struct {
				Waiting    *kubeWaiting    `json:"waiting"`
				Terminated *kubeTerminated `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

type kubeCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type kubeWaiting struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type kubeTerminated struct {
	Code   int    `json:"exitCode"`
	Reason string `json:"reason"`
}

// kubeStatus is the state of a part in the cluster: its Job, and the newest of its Pods.
type kubeStatus struct{ job, pod *kubeObject }

// parseObjects sorts a list of Jobs and Pods by the parts that they belong to.
func parseObjects(src []byte, id string) (map[int]*kubeStatus, error) {
	var list struct {
		Items []*kubeObject `json:"items"`
	}
	if err := json.Unmarshal(src, &list); err != nil {
		return nil, fmt.Errorf("what kubectl printed is no list: %w", err)
	}
	found := map[int]*kubeStatus{}
	for _, o := range list.Items {
		if o == nil || o.Metadata.Labels[kubeFleet] != id {
			continue
		}
		n, err := strconv.Atoi(o.Metadata.Labels[kubePart])
		if err != nil || n < 1 {
			continue
		}
		s := found[n]
		if s == nil {
			s = &kubeStatus{}
			found[n] = s
		}
		switch {
		case o.Kind == "Job":
			s.job = o
		case o.Kind == "Pod" && (s.pod == nil || o.Metadata.Created.After(s.pod.Metadata.Created)):
			s.pod = o
		}
	}
	return found, nil
}

func (o *kubeObject) condition(name string) *kubeCondition {
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == name {
			return c
		}
	}
	return &kubeCondition{}
}

// seen says how far a part is: Done where its container has ended well and its result is to be fetched.
func (s *kubeStatus) seen() PartStatus {
	if s.job.condition("Complete").Status == "True" || s.job.condition("SuccessCriteriaMet").Status == "True" {
		return PartStatus{Phase: Done}
	}
	if c := s.job.condition("Failed"); c.Status == "True" {
		// The Pod says more than "Job has reached the specified backoff limit".
		return PartStatus{Phase: Ended, Detail: cmp.Or(s.why(), c.Message, c.Reason, "it failed")}
	}
	if s.job.Metadata.Deleting != nil {
		return PartStatus{Phase: Stuck, Detail: "its Job is being deleted"}
	}
	if s.pod == nil && time.Since(s.job.Metadata.Created) < podPatience {
		return PartStatus{Phase: Waiting}
	}
	if s.pod == nil {
		// A quota, or an admission that refuses the Pod: the Job tries on.
		return PartStatus{Phase: Stuck,
			Detail: "it has no Pod: kubectl describe job " + s.job.Metadata.Name + " says why"}
	}
	return s.pod.podSeen()
}

// why is the reason for which the container ended.
func (s *kubeStatus) why() string {
	if s.pod == nil {
		return ""
	}
	for _, c := range s.pod.Status.Containers {
		if t := c.State.Terminated; c.Name == kubeContainer && t != nil {
			if t.Reason == "" || t.Reason == "Error" {
				return fmt.Sprintf("it ended with exit code %d", t.Code)
			}
			return fmt.Sprintf("%s, exit code %d", t.Reason, t.Code)
		}
	}
	return strings.Trim(s.pod.Status.Reason+": "+s.pod.Status.Message, ": ")
}

// podPatience is how long a Job has to make its Pod.
const podPatience = time.Minute

// passing are the reasons of a container that waits as each does at first.
var passing = []string{"", "ContainerCreating", "PodInitializing"}

func (o *kubeObject) podSeen() PartStatus {
	switch {
	case o.Metadata.Deleting != nil:
		return PartStatus{Phase: Stuck, Detail: "its Pod is taken off the node"}
	case o.Status.Phase == "Running":
		// Without probes, a Pod that runs and is not ready is one whose node does not answer.
		if c := o.condition("Ready"); c.Status == "False" && len(o.Status.Containers) > 0 && c.Reason == "" {
			return PartStatus{Phase: Stuck, Detail: "its node does not answer"}
		}
		return PartStatus{Phase: Working}
	case o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed":
		return PartStatus{Phase: Working} // its Job has not seen it yet
	case o.Status.Phase == "Unknown":
		return PartStatus{Phase: Stuck, Detail: "its node does not answer"}
	}
	for _, c := range o.Status.Containers {
		if w := c.State.Waiting; w != nil && !slices.Contains(passing, w.Reason) {
			return PartStatus{Phase: Stuck, Detail: strings.Trim(w.Reason+": "+w.Message, ": ")}
		}
	}
	c := o.condition("PodScheduled")
	if c.Status != "False" {
		return PartStatus{Phase: Waiting}
	}
	// The node has another part, of this user or another: it ends.
	if strings.Contains(c.Message, "anti-affinity") {
		return PartStatus{Phase: Waiting, Detail: "another part of a fleet works on its node"}
	}
	return PartStatus{Phase: Stuck, Detail: cmp.Or(c.Message, c.Reason)}
}
