package dispatch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// decoded is a manifest as kubectl gets it.
func decoded(t *testing.T, k *Kubernetes, p *Part) object {
	t.Helper()
	src, err := k.manifest(p)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(src, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// at follows a path of keys and indices.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch key := step.(type) {
		case string:
			o, _ := v.(object)
			v = o[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				t.Fatalf("there is nothing at %v", path[:i+1])
			}
			v = list[key]
		}
	}
	return v
}

// TestManifest holds what the API server cannot tell: that a part goes to its node and no other, and that the user's
// template is what runs. The API itself holds the rest, in TestFleetOnKubernetes.
func TestManifest(t *testing.T) {
	template, err := ParseTemplate([]byte(`kind: Pod
metadata: {name: any, labels: {team: bench, tare.part: "99"}}
spec:
  tolerations: [{key: gpu, operator: Exists}]
  nodeSelector: {pool: batch}
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: tare
    image: of.template/tare:1
    resources: {requests: {cpu: 4}}
    env: [{name: A, value: b}]
  - {name: other, image: sidecar}
`))
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubernetes{ID: "f", Plan: []byte("name: p\n"), Parts: 3, Tare: "/tare", Template: template,
		Volume: Volume{Claim: "c"}}
	one, two := decoded(t, k, &Part{Number: 1, Host: "n1"}), decoded(t, k, &Part{Number: 2, Host: "N2.example.org"})
	pod := []any{"spec", "template"}
	for _, c := range []struct {
		of   object
		path []any
		want any
	}{
		{one, []any{"metadata", "name"}, "tare-f-1"},
		{one, append(pod, "metadata", "labels", "tare.part"), "1"},
		{one, append(pod, "metadata", "labels", "team"), "bench"},
		{one, append(pod, "metadata", "annotations", "tare.plan"), "name: p\n"},
		{one, append(pod, "metadata", "name"), nil},
		{one, append(pod, "spec", "nodeSelector", "pool"), "batch"},
		{one, append(pod, "spec", "tolerations", 0, "key"), "gpu"},
		{one, append(pod, "spec", "containers", 0, "image"), "of.template/tare:1"},
		{one, append(pod, "spec", "containers", 0, "resources", "requests", "cpu"), 4.0},
		{one, append(pod, "spec", "containers", 0, "env", 0, "name"), "A"},
		{one, append(pod, "spec", "containers", 0, "env", 1, "name"), "TMPDIR"},
		{one, append(pod, "spec", "containers", 1, "command"), nil},
		{one, append(pod, "spec", "containers", 0, "volumeMounts", 0, "subPath"), "tare-f/part-1"},
		{two, append(pod, "spec", "containers", 0, "volumeMounts", 0, "subPath"), "tare-f/part-2"},
		{two, append(pod, "spec", "hostname"), "n2-example-org"},
		{two, append(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
			"nodeSelectorTerms", 0, "matchFields", 0, "values", 0), "N2.example.org"},
	} {
		if got := at(t, c.of, c.path...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v is %v, want %v", c.path, got, c.want)
		}
	}
	if n := len(at(t, two, append(pod, "spec", "containers", 0, "env")...).([]any)); n != 3 {
		t.Errorf("%d variables, want 3: those of one part are in the other", n)
	}
	words := at(t, one, append(pod, "spec", "containers", 0, "command")...)
	if got := fmt.Sprint(words); !strings.HasPrefix(got, "[/tare fleet shard 1/3 /tare-plan/plan.yaml") ||
		!strings.Contains(got, "--print") {
		t.Errorf("it runs %s", got)
	}
	k.Volume.At = "/mnt"
	if got := fmt.Sprint(at(t, decoded(t, k, &Part{Number: 1, Host: "n"}), append(pod, "spec", "containers", 0,
		"command")...)); strings.Contains(got, "--print") {
		t.Errorf("a result that is seen in the volume is printed as well: %s", got)
	}
	k.Template = nil
	if err := k.Check(); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Errorf("without an image: %v", err)
	}
	k.Image = "i"
	if err := k.Check(); err != nil {
		t.Error(err)
	}
}

func TestTemplateIsRefused(t *testing.T) {
	for src, part := range map[string]string{
		"spec: {nodeName: n}":                                 "--hosts",
		"spec: {affinity: {}}":                                "--selector",
		"spec: {restartPolicy: Always}":                       "restartPolicy",
		"spec: {containers: [{name: tare, command: [sh]}]}":   "command",
		"spec: {containers: [{name: a}, {name: b}]}":          `called "tare"`,
		"spec: {containers: {name: a}}":                       "containers is a list",
		"spec: {containers: [a]}":                             "list of mappings",
		"spec: []":                                            "spec is a mapping",
		"metadata: {labels: 1}":                               "labels is a mapping",
		"kind: Deployment":                                    "not a Pod",
		"containers: []":                                      `has "containers"`,
		"a: &a [x]\nspec: {volumes: *a}":                      "alias",
		"kind: Pod\n---\nkind: Pod\n":                         "one Pod",
		"":                                                    "one Pod",
		"spec: {":                                             "",
		strings.Repeat("#", MaxTemplate+1):                    "longer than",
		"spec: {containers: [{name: tare, env: {A: b}}]}":     "env is a list",
		"spec: {volumes: {a: b}, containers: [{name: tare}]}": "volumes is a list",
		"spec: {nodeSelector: [a], containers: [{name: something}]}": "nodeSelector is a mapping",
	} {
		if _, err := ParseTemplate([]byte(src)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.60q: %v, want %q", src, err, part)
		}
	}
}

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]Volume{"claim=c": {Claim: "c"}, "claim=c,at=/mnt": {Claim: "c", At: "/mnt"},
		"host=/var/tare": {Host: "/var/tare"}} {
		if got, err := ParseVolume(text); err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "c", "claim=", "claim=a,claim=b", "claim=a,host=/b", "host=/a,at=/b", "host=a",
		"claim=a,at=b", "other=c", "at=/a"} {
		if got, err := ParseVolume(text); err == nil {
			t.Errorf("%q passes as %+v", text, got)
		}
	}
}

// TestKubernetesSeen holds what is made of the states that a cluster's objects can have.
func TestKubernetesSeen(t *testing.T) {
	const job = `{"kind":"Job","metadata":{"name":"tare-f-1","labels":{"tare.fleet":"f","tare.part":"1"},` +
		`"creationTimestamp":"2000-01-01T00:00:00Z"},"status":{%s}}`
	const pod = `{"kind":"Pod","metadata":{"name":"p","labels":{"tare.fleet":"f","tare.part":"1"}%s},"status":{%s}}`
	for name, c := range map[string]struct {
		job, meta, pod string
		want           PartStatus
	}{
		"no pod": {"", "", "none",
			PartStatus{Phase: Stuck, Detail: "it has no Pod: kubectl describe job tare-f-1 says why"}},
		"pending": {"", "", `"phase":"Pending"`, PartStatus{Phase: Waiting}},
		"no room": {"", "", `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",` +
			`"message":"1 node(s) were unschedulable"}]`, PartStatus{Phase: Stuck,
			Detail: "1 node(s) were unschedulable"}},
		"neighbour": {"", "", `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",` +
			`"message":"1 node(s) didn't match pod anti-affinity rules"}]`,
			PartStatus{Phase: Waiting, Detail: "another part of a fleet works on its node"}},
		"image": {"", "", `"phase":"Pending","containerStatuses":[{"name":"tare","state":{"waiting":` +
			`{"reason":"ImagePullBackOff","message":"no such image"}}}]`,
			PartStatus{Phase: Stuck, Detail: "ImagePullBackOff: no such image"}},
		"pulling": {"", "", `"phase":"Pending","containerStatuses":[{"name":"tare","state":{"waiting":` +
			`{"reason":"ContainerCreating"}}}]`, PartStatus{Phase: Waiting}},
		"running": {"", "", `"phase":"Running","conditions":[{"type":"Ready","status":"True"}]`,
			PartStatus{Phase: Working}},
		"node away": {"", "", `"phase":"Running","conditions":[{"type":"Ready","status":"False"}],` +
			`"containerStatuses":[{"name":"tare","state":{"running":{}}}]`, PartStatus{Phase: Stuck,
			Detail: "its node does not answer"}},
		"evicted": {"", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `"phase":"Running"`,
			PartStatus{Phase: Stuck, Detail: "its Pod is taken off the node"}},
		"complete": {`"conditions":[{"type":"Complete","status":"True"}]`, "", `"phase":"Succeeded"`,
			PartStatus{Phase: Done}},
		"failed": {`"conditions":[{"type":"Failed","status":"True","message":"backoff limit"}]`, "",
			`"phase":"Failed","containerStatuses":[{"name":"tare","state":{"terminated":{"exitCode":137,` +
				`"reason":"OOMKilled"}}}]`, PartStatus{Phase: Ended, Detail: "OOMKilled, exit code 137"}},
		"deadline": {`"conditions":[{"type":"Failed","status":"True","message":"too long"}]`, "", "none",
			PartStatus{Phase: Ended, Detail: "too long"}},
	} {
		items := []string{fmt.Sprintf(job, c.job)}
		if c.pod != "none" {
			items = append(items, fmt.Sprintf(pod, c.meta, c.pod))
		}
		found, err := parseObjects([]byte(`{"items":[`+strings.Join(items, ",")+`]}`), "f")
		if err != nil || found[1] == nil {
			t.Errorf("%s: %v %v", name, found, err)
			continue
		}
		if got := found[1].seen(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestKubernetesVolume takes results from a volume that this machine has, and refuses what was cut on the way.
func TestKubernetesVolume(t *testing.T) {
	dir := t.TempDir()
	k := &Kubernetes{ID: "f", Dir: dir, Volume: Volume{Claim: "c", At: t.TempDir()}}
	p := &Part{Number: 1, Host: "n"}
	if err := os.MkdirAll(filepath.Join(dir, WorkDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := k.bring(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), "does at=DIR name") {
		t.Errorf("without a result: %v", err)
	}
	place := filepath.Join(k.Volume.At, "tare-f", "part-1")
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(place, "part.tare"), []byte("no bundle"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := k.bring(t.Context(), p, nil); err == nil {
		t.Error("a damaged result passes")
	}
	if left, err := os.ReadDir(filepath.Join(dir, WorkDir)); err != nil || len(left) > 0 {
		t.Errorf("left of it: %v %v", left, err)
	}
}

func TestHostLabel(t *testing.T) {
	for name, want := range map[string]string{"n1": "n1", "N1.example.org": "n1-example-org", "...": "node",
		strings.Repeat("a", 62) + ".b": strings.Repeat("a", 62)} {
		if got := hostLabel(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func FuzzParseObjects(f *testing.F) {
	f.Add([]byte(`{"items":[{"kind":"Job","metadata":{"name":"j","labels":{"tare.fleet":"f","tare.part":"1"}}},` +
		`{"kind":"Pod","metadata":{"labels":{"tare.fleet":"f","tare.part":"1"}},"status":{"phase":"Running"}},null]}`))
	phases := []Phase{Waiting, Stuck, Working, Ended, Done}
	f.Fuzz(func(t *testing.T, src []byte) {
		found, err := parseObjects(src, "f")
		if err != nil {
			return
		}
		for n, s := range found {
			if n < 1 || s.job != nil && !slices.Contains(phases, s.seen().Phase) {
				t.Errorf("part %d: %+v", n, s)
			}
		}
	})
}

func FuzzParseTemplate(f *testing.F) {
	f.Add([]byte("spec: {containers: [{name: tare, image: i, env: [{name: a}]}]}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		template, err := ParseTemplate(src)
		if err != nil {
			return
		}
		k := &Kubernetes{ID: "f", Image: "i", Template: template}
		began := time.Now()
		if err := k.Check(); err != nil && !strings.Contains(err.Error(), "json") {
			t.Errorf("%q passes, and then: %v", src, err)
		}
		if time.Since(began) > time.Minute {
			t.Errorf("%q takes too long", src)
		}
	})
}
