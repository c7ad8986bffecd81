package cli_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/internal/judge/fleet"
)

// kube is a real control plane on this machine: etcd, API server, scheduler, and the controllers of Jobs and of
// garbage. Its nodes have no kubelet: the test plays it, see kubelet.
type kube struct {
	lab     *lab
	dir     string
	program string
	kubelet *kubelet
}

// kubeconfig has the port and the token filled in.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: tare
contexts: [{name: tare, context: {cluster: tare, user: tare}}]
clusters: [{name: tare, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: tare, user: {token: %s}}]
`

func (l *lab) kubernetes() *kube {
	l.Helper()
	program := os.Getenv("TARE_KUBE")
	if program == "" {
		missing(l, "TARE_KUBE names no control plane of Kubernetes; scripts/deps.sh kube makes one")
	}
	k := &kube{lab: l, dir: filepath.Join(l.dir, "kube"), program: program}
	for _, d := range []string{"", "bin"} {
		if err := os.MkdirAll(filepath.Join(k.dir, d), 0o700); err != nil {
			l.Fatal(err)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		l.Fatal(err)
	}
	l.file("kube/sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	const token = "of-a-test"
	l.file("kube/tokens.csv", token+",tare,tare,system:masters\n")
	etcd, peer, api := freePort(l), freePort(l), freePort(l)
	config := l.file("kube/config", fmt.Sprintf(kubeconfig, api, token))
	l.file("kube/bin/kubectl", "#!/bin/sh\nexec '"+program+"' kubectl \"$@\"\n")
	if err := os.Chmod(k.file("bin/kubectl"), 0o755); err != nil {
		l.Fatal(err)
	}
	for i, v := range l.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			l.env[i] = "PATH=" + k.file("bin") + ":" + path
		}
	}
	l.env = append(l.env, "KUBECONFIG="+config, "HOME="+k.dir)
	at := fmt.Sprintf("http://127.0.0.1:%d", etcd)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	k.run("etcd", "--data-dir="+k.file("etcd"), "--listen-client-urls="+at, "--advertise-client-urls="+at,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
		"--unsafe-no-fsync")
	k.run("apiserver", "--etcd-servers="+at, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", fmt.Sprintf("--secure-port=%d", api), "--cert-dir="+k.file("certs"),
		"--token-auth-file="+k.file("tokens.csv"), "--authorization-mode=AlwaysAllow",
		"--service-account-key-file="+k.file("sa.key"), "--service-account-signing-key-file="+k.file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	k.lab.await("the API server", func() bool { return k.say("get", "--raw=/readyz") == "ok" })
	k.run("controllers", "--kubeconfig="+config, "--leader-elect=false", "--secure-port=0",
		"--controllers=job-controller,garbage-collector-controller")
	k.run("scheduler", "--kubeconfig="+config, "--leader-elect=false", "--secure-port=0")
	k.lab.await("the namespace", func() bool {
		return strings.Contains(k.say("get", "namespace", "default"), "Active")
	})
	k.kubelet = newKubelet(k)
	return k
}

func (k *kube) file(name string) string { return filepath.Join(k.dir, name) }

// run starts a part of the control plane, which ends with the test.
func (k *kube) run(part string, args ...string) {
	k.lab.Helper()
	k.lab.daemon(part, k.dir, append([]string{k.program, part}, args...)...)
}

// say runs kubectl and returns what it printed.
func (k *kube) say(args ...string) string {
	return k.lab.ask(append([]string{k.program, "kubectl"}, args...)...)
}

// apply makes an object.
func (k *kube) apply(object any) {
	k.lab.Helper()
	src, err := json.Marshal(object)
	if err != nil {
		k.lab.Fatal(err)
	}
	cmd := exec.Command(k.program, "kubectl", "create", "-f", "-")
	cmd.Env, cmd.Stdin = k.lab.env, bytes.NewReader(src)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.lab.Fatalf("kubectl create: %v %s", err, out)
	}
}

// node makes a node that is ready for work.
func (k *kube) node(name string, unschedulable bool, labels map[string]string) {
	k.lab.Helper()
	all := map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
	for key, v := range labels {
		all[key] = v
	}
	room := map[string]string{"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
	k.apply(map[string]any{"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": name, "labels": all},
		"spec":     map[string]any{"unschedulable": unschedulable},
		"status": map[string]any{"capacity": room, "allocatable": room,
			"conditions": []any{map[string]string{"type": "Ready", "status": "True", "reason": "KubeletReady"}},
			"addresses":  []any{map[string]string{"type": "InternalIP", "address": "127.0.0.1"}},
			"nodeInfo": map[string]string{"operatingSystem": "linux", "architecture": "amd64", "machineID": "",
				"systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
				"kubeletVersion": "", "kubeProxyVersion": ""},
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]int{"Port": k.kubelet.port}}}})
}

// kubelet plays the kubelets of all nodes: what a Pod's container is to run is run here as a process, with folders in
// the place of its volumes; its state is written into the Pod, and its log is served to the API server. No image is
// pulled and nothing isolates the processes: what is tested is everything up to the container, and what comes back from
// it.
type kubelet struct {
	kube   *kube
	server *httptest.Server
	port   int
	stop   chan struct{}
	ended  sync.WaitGroup

	mu   sync.Mutex
	pods map[string]*playedPod // by uid
}

type playedPod struct {
	name string
	part string
	log  string
	cmd  *exec.Cmd
	code int
	done bool
}

// seenPod has of a Pod what a kubelet needs of it here.
type seenPod struct {
	Metadata struct {
		Name     string            `json:"name"`
		UID      string            `json:"uid"`
		Labels   map[string]string `json:"labels"`
		Notes    map[string]string `json:"annotations"`
		Deleting *time.Time        `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName   string `json:"nodeName"`
		Hostname   string `json:"hostname"`
		Containers []struct {
			Name    string   `json:"name"`
			Command []string `json:"command"`
			Mounts  []struct {
				Name    string `json:"name"`
				SubPath string `json:"subPath"`
			} `json:"volumeMounts"`
		} `json:"containers"`
		Volumes []struct {
			Name string                 `json:"name"`
			Host *struct{ Path string } `json:"hostPath"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func newKubelet(k *kube) *kubelet {
	l := &kubelet{kube: k, stop: make(chan struct{}), pods: map[string]*playedPod{}}
	l.server = httptest.NewTLSServer(http.HandlerFunc(l.logs))
	if _, err := fmt.Sscanf(l.server.URL, "https://127.0.0.1:%d", &l.port); err != nil {
		k.lab.Fatal(err)
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(200 * time.Millisecond):
				l.look()
			}
		}
	})
	k.lab.Cleanup(func() {
		close(l.stop)
		looking.Wait()
		l.mu.Lock()
		for _, p := range l.pods {
			if !p.done {
				syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			}
		}
		l.mu.Unlock()
		l.ended.Wait()
		l.server.Close()
	})
	return l
}

// logs answers /containerLogs/NAMESPACE/POD/CONTAINER.
func (l *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pods {
		if len(parts) == 5 && parts[1] == "containerLogs" && parts[3] == p.name {
			http.ServeFile(w, r, p.log)
			return
		}
	}
	http.NotFound(w, r)
}

// look starts what has come to a node, and ends what is deleted.
func (l *kubelet) look() {
	var list struct {
		Items []seenPod `json:"items"`
	}
	if json.Unmarshal([]byte(l.kube.say("get", "pods", "--output=json")), &list) != nil {
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		l.mu.Lock()
		played := l.pods[p.Metadata.UID]
		works := played != nil && !played.done
		l.mu.Unlock()
		switch {
		case p.Metadata.Deleting != nil:
			if works {
				syscall.Kill(-played.cmd.Process.Pid, syscall.SIGKILL)
			}
			l.kube.say("delete", "pod", p.Metadata.Name, "--force", "--grace-period=0", "--wait=false")
		case p.Spec.NodeName != "" && p.Status.Phase == "Pending" && played == nil:
			l.begin(p)
		}
	}
}

// begin runs a container's command.
func (l *kubelet) begin(p *seenPod) {
	dir := filepath.Join(l.kube.dir, "pods", p.Metadata.UID)
	work, tmp, plan := filepath.Join(dir, "work"), filepath.Join(dir, "tmp"), filepath.Join(dir, "plan")
	c := p.Spec.Containers[0]
	for _, v := range p.Spec.Volumes {
		for _, m := range c.Mounts {
			if v.Host != nil && m.Name == v.Name {
				work = filepath.Join(v.Host.Path, p.Spec.NodeName, m.SubPath) // each node has its own folder
			}
		}
	}
	for _, d := range []string{work, tmp, plan} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			l.kube.lab.Error(err)
			return
		}
	}
	if err := os.WriteFile(filepath.Join(plan, "plan.yaml"), []byte(p.Metadata.Notes["tare.plan"]), 0o644); err != nil {
		l.kube.lab.Error(err)
		return
	}
	var argv []string
	for _, word := range c.Command {
		if rest, ok := strings.CutPrefix(word, "/tare-work"); ok {
			word = work + rest
		} else if rest, ok := strings.CutPrefix(word, "/tare-plan"); ok {
			word = plan + rest
		} else if word == "tare" {
			word = tareBinary
		}
		argv = append(argv, word)
	}
	played := &playedPod{name: p.Metadata.Name, part: p.Metadata.Labels["tare.part"], log: filepath.Join(dir, "log"),
		cmd: exec.Command(argv[0], argv[1:]...)}
	log, err := os.Create(played.log)
	if err != nil {
		l.kube.lab.Error(err)
		return
	}
	defer log.Close()
	played.cmd.Stdout, played.cmd.Stderr, played.cmd.Dir = log, log, dir
	played.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	played.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := played.cmd.Start(); err != nil {
		l.kube.lab.Error(err)
		return
	}
	l.mu.Lock()
	l.pods[p.Metadata.UID] = played
	l.mu.Unlock()
	l.status(played.name, "Running", map[string]any{"running": map[string]any{}})
	l.ended.Go(func() {
		played.cmd.Wait()
		code := played.cmd.ProcessState.ExitCode()
		phase := "Succeeded"
		if code != 0 {
			phase = "Failed"
		}
		l.mu.Lock()
		played.done, played.code = true, code
		l.mu.Unlock()
		l.status(played.name, phase, map[string]any{"terminated": map[string]any{"exitCode": code}})
	})
}

// status writes what a kubelet says of a Pod.
func (l *kubelet) status(name, phase string, state map[string]any) {
	ready := "False"
	if phase == "Running" {
		ready = "True"
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase,
		"conditions": []any{map[string]string{"type": "Ready", "status": ready}},
		"containerStatuses": []any{map[string]any{"name": "tare", "image": "tare", "imageID": "", "restartCount": 0,
			"ready": ready == "True", "state": state}}}})
	if err != nil {
		l.kube.lab.Error(err)
		return
	}
	l.kube.say("patch", "pod", name, "--subresource=status", "--type=strategic", "--patch="+string(patch))
}

// TestFleetOnKubernetes has a real API server, scheduler and Job controller run a plan on nodes whose kubelet the test
// plays: one node is cordoned, one Pod is deleted in mid-run and comes back, the controller is stopped and started, a
// node of another label is left out. One verdict across the hosts comes of it, and nothing stays in the cluster.
func TestFleetOnKubernetes(t *testing.T) {
	l := newLab(t)
	k := l.kubernetes()
	for _, n := range []string{"n1", "n2", "n3"} {
		k.node(n, n == "n3", map[string]string{"pool": "batch"})
	}
	k.node("login", false, nil)
	l.file("plan.yaml", fleetPlan(40))
	store := filepath.Join(l.dir, "store")
	args := []string{"fleet", "run", "plan.yaml", "--on", "kubernetes", "-o", "nodes", "--selector", "pool=batch",
		"--image", "example.invalid/tare:1", "--volume", "host=" + store, "--every", "300ms", "--patience", "30s"}
	// What the API server refuses is said before anything is asked for.
	l.file("bad.yaml", "spec:\n  nosuchfield: 1\n")
	if o := l.do(append(args, "--pod", "bad.yaml")...); o.code == 0 || !strings.Contains(o.err, "nosuchfield") {
		t.Fatalf("a template that no cluster takes: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if o := l.do("fleet", "run", "plan.yaml", "--on", "kubernetes", "-o", "none", "--image", "x", "--hosts",
		"n1,n2x"); o.code != 2 || !strings.Contains(o.err, `no node "n2x"`) {
		t.Fatalf("a node that is not there: exit code %d:\n%s", o.code, o.err)
	}
	p := l.start(args...)
	var victim string
	p.until("the first trials of a part", func() bool {
		found, _ := filepath.Glob(filepath.Join(store, "n*", "tare-*", "part-*", "part"))
		for _, f := range found {
			name, err := filepath.Rel(l.dir, f)
			if n := l.lines(name); err == nil && n >= 8 && n < 40 {
				victim = name
			}
		}
		return victim != ""
	})
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 || !strings.Contains(o.err, "the same command goes on watching") {
		t.Fatalf("a controller that is stopped: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	// A Pod that is evicted is replaced by its Job, without anybody's doing, and goes on where it was.
	number := strings.TrimPrefix(filepath.Base(filepath.Dir(victim)), "part-")
	k.evict(number)
	o := l.do(args...)
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if said := strings.Join(strings.Fields(o.err), " "); !strings.Contains(said, "failed n3") ||
		!strings.Contains(said, "given up after 30s") {
		t.Errorf("no word of the node that is cordoned:\n%s", o.err)
	}
	for _, want := range []string{"counted: 2 of 3 hosts", "missing: n3"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in:\n%s", want, o.out)
		}
	}
	o = l.do("fleet", "report", "nodes", "--format", "json")
	var r fleet.Report
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	for _, h := range r.Hosts {
		if !h.Finished {
			t.Errorf("%s has not finished", h.Name)
		}
	}
	if log := k.kubelet.said(number); !strings.Contains(log, "resuming after") {
		t.Errorf("part %s began anew:\n%s", number, log)
	}
	k.lab.await("the end of all Jobs", func() bool {
		return strings.Contains(k.say("get", "jobs,pods"), "No resources found")
	})
}

// evict ends the Pod of a part as a drain of its node does.
func (k *kube) evict(part string) {
	k.lab.Helper()
	name := k.say("get", "pods", "--selector=tare.part="+part, "--output=name")
	if name == "" || strings.Contains(name, "\n") {
		k.lab.Fatalf("the Pods of part %s are %q", part, name)
	}
	k.say("patch", name, "--subresource=status", "--type=strategic", `--patch={"status":{"conditions":[`+
		`{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}]}}`)
	k.say("delete", name, "--wait=false")
}

// said is what the containers of a part printed, one after the other.
func (l *kubelet) said(part string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all strings.Builder
	for _, p := range l.pods {
		if p.part == part {
			text, _ := os.ReadFile(p.log)
			all.Write(text)
		}
	}
	return all.String()
}
