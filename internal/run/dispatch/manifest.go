package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// object is a part of a manifest, as the API of Kubernetes writes it. The types of that API would make tare a sixth
// larger; a real API server, which refuses fields that it does not know, checks the manifests in a test.
type object = map[string]any

// Labels of a fleet's Jobs and Pods.
const (
	kubeName  = "app.kubernetes.io/name"
	kubeApp   = "tare-fleet" // of all fleets: two of their parts never share a node
	kubeFleet = "tare.fleet" // the fleet's id
	kubePart  = "tare.part"  // the part's number
	kubePlan  = "tare.plan"  // annotation: the plan's text
)

// kubeContainer is the container that works.
const kubeContainer = "tare"

// Bounds of the files that are read for a manifest, in bytes. All annotations of an object together may have 256 KiB.
const (
	MaxKubePlan = 128 << 10
	MaxTemplate = 256 << 10
)

// forgetAfter is how long a cluster keeps a Job that has ended, in seconds: a week.
const forgetAfter = 7 * 24 * 60 * 60

// Volume is where parts keep their bundles while they work.
type Volume struct {
	Claim string // a PersistentVolumeClaim; "" for none
	Host  string // a folder of the node's; "" for none
	At    string // where this machine has the claim's files; "" where it has not
}

// ParseVolume reads claim=NAME, claim=NAME,at=DIR or host=DIR.
func ParseVolume(text string) (Volume, error) {
	v := Volume{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		to := map[string]*string{"claim": &v.Claim, "host": &v.Host, "at": &v.At}[key]
		if !ok || to == nil || value == "" || *to != "" {
			return v, fmt.Errorf("%q is not valid: expected claim=NAME, claim=NAME,at=DIR or host=DIR", part)
		}
		*to = value
	}
	switch {
	case (v.Claim == "") == (v.Host == ""):
		return v, errors.New("expected exactly one of claim=NAME and host=DIR")
	case v.At != "" && v.Claim == "":
		return v, errors.New("at=DIR belongs to claim=NAME: the folder of another machine cannot be seen here")
	case v.Host != "" && v.Host[0] != '/', v.At != "" && v.At[0] != '/':
		return v, errors.New("DIR must be an absolute path, beginning with /")
	}
	return v, nil
}

// ParseTemplate reads the Pod that the user wants parts to run as: YAML, in which tare fills in its own fields.
func ParseTemplate(src []byte) (object, error) {
	if len(src) > MaxTemplate {
		return nil, fmt.Errorf("it is longer than %d KiB", MaxTemplate>>10)
	}
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, errors.New(strings.Split(yaml.FormatError(err, false, false), "\n")[0])
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("it is one Pod, and no more than one document")
	}
	// They could make a small file a huge one.
	alias := false
	ast.Walk(visitor(func(n ast.Node) { alias = alias || n.Type() == ast.AliasType }), file.Docs[0].Body)
	if alias {
		return nil, errors.New("it has an alias (*name), which is not followed; write the value")
	}
	pod := object{}
	if err := yaml.NodeToValue(file.Docs[0].Body, &pod); err != nil {
		return nil, errors.New(strings.Split(yaml.FormatError(err, false, false), "\n")[0])
	}
	if kind, ok := pod["kind"]; ok && kind != "Pod" {
		return nil, fmt.Errorf("it is a %v, and not a Pod", kind)
	}
	for _, key := range slices.Sorted(maps.Keys(pod)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, key) {
			return nil, fmt.Errorf("it has %.40q; a Pod has metadata and spec", key)
		}
	}
	if err := checkTemplate(pod); err != nil {
		return nil, err
	}
	return pod, nil
}

type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

// ours are the fields of a Pod that say which node a part runs on and how it is started.
var ours = map[string]string{
	"nodeName":      "the fleet names the nodes: --hosts",
	"affinity":      "the fleet names the nodes: --hosts or --selector",
	"hostname":      "it is made of the node's name",
	"restartPolicy": "a part that failed is begun again by tare",
}

func checkTemplate(pod object) error {
	spec, err := inner(pod, "spec")
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if _, ok := spec[key]; ok {
			return fmt.Errorf("spec.%s is not for a template: %s", key, ours[key])
		}
	}
	meta, err := inner(pod, "metadata")
	if err == nil {
		_, err = inner(meta, "labels")
	}
	if err == nil {
		_, err = inner(meta, "annotations")
	}
	if err == nil {
		_, err = inner(spec, "nodeSelector")
	}
	if err == nil {
		_, err = items(spec, "volumes")
	}
	if err != nil {
		return err
	}
	containers, err := items(spec, "containers")
	if err != nil {
		return err
	}
	at := worker(containers)
	if at < 0 && len(containers) > 0 {
		return fmt.Errorf("none of its containers is called %q; give tare's container this name", kubeContainer)
	}
	if at >= 0 {
		for _, key := range []string{"command", "args"} {
			if _, ok := containers[at].(object)[key]; ok {
				return fmt.Errorf("the container's %s is not for a template: tare starts itself in it", key)
			}
		}
		for _, key := range []string{"env", "volumeMounts"} {
			if _, err := items(containers[at].(object), key); err != nil {
				return err
			}
		}
	}
	return nil
}

// worker is the container that is to work: the one of that name, or the only one; -1 where there is neither.
func worker(containers []any) int {
	at := slices.IndexFunc(containers, func(c any) bool { return c.(object)["name"] == kubeContainer })
	if at < 0 && len(containers) == 1 {
		return 0
	}
	return at
}

// inner is a mapping in another; an empty one where it is not there.
func inner(o object, key string) (object, error) {
	switch v := o[key].(type) {
	case nil:
		return object{}, nil
	case object:
		return v, nil
	}
	return nil, fmt.Errorf("%s is a mapping", key)
}

// items is a list of mappings in a mapping.
func items(o object, key string) ([]any, error) {
	list, ok := o[key].([]any)
	if !ok && o[key] != nil {
		return nil, fmt.Errorf("%s is a list", key)
	}
	for _, v := range list {
		if _, ok := v.(object); !ok {
			return nil, fmt.Errorf("%s is a list of mappings", key)
		}
	}
	return list, nil
}

// manifest is the Job of a part: a Pod on one named node, where no other part of any fleet works meanwhile.
func (k *Kubernetes) manifest(p *Part) ([]byte, error) {
	labels := object{kubeName: kubeApp, kubeFleet: k.ID, kubePart: strconv.Itoa(p.Number)}
	pod, err := k.pod(p, labels)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{"name": k.job(p.Number), "labels": labels},
		"spec": object{
			// A part that failed is begun again by tare. A Pod that lost its node, or had to leave it, is replaced.
			"backoffLimit": 0,
			"podFailurePolicy": object{"rules": []any{object{"action": "Ignore",
				"onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}}}},
			"ttlSecondsAfterFinished": forgetAfter,
			"template":                pod,
		},
	})
}

// pod is the Pod of a part: the user's template, or an empty one, with the fleet's fields.
func (k *Kubernetes) pod(p *Part, labels object) (object, error) {
	// A copy: lists and mappings of the template are those of all parts.
	pod, err := copied(k.Template)
	if err != nil {
		return nil, err
	}
	delete(pod, "apiVersion")
	delete(pod, "kind")
	meta, _ := inner(pod, "metadata")
	for _, key := range []string{"name", "generateName", "namespace"} {
		delete(meta, key) // a Job names its Pods, in its own namespace
	}
	had, _ := inner(meta, "labels")
	maps.Copy(had, labels)
	notes, _ := inner(meta, "annotations")
	notes[kubePlan] = string(k.Plan)
	meta["labels"], meta["annotations"] = had, notes
	spec, _ := inner(pod, "spec")
	pod["metadata"], pod["spec"] = meta, spec

	selector, _ := inner(spec, "nodeSelector")
	selector["kubernetes.io/os"] = "linux"
	spec["nodeSelector"], spec["restartPolicy"], spec["hostname"] = selector, "Never", hostLabel(p.Host)
	spec["affinity"] = object{
		"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{
			"nodeSelectorTerms": []any{object{"matchFields": []any{
				object{"key": "metadata.name", "operator": "In", "values": []any{p.Host}}}}}}},
		"podAntiAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []any{object{
			"labelSelector":     object{"matchLabels": object{kubeName: kubeApp}},
			"namespaceSelector": object{}, // of all namespaces
			"topologyKey":       "kubernetes.io/hostname"}}},
	}
	for key, value := range map[string]any{"automountServiceAccountToken": false, "enableServiceLinks": false} {
		if _, ok := spec[key]; !ok {
			spec[key] = value
		}
	}
	volumes, _ := items(spec, "volumes")
	spec["volumes"] = append(volumes,
		object{"name": "tare-plan", "downwardAPI": object{"items": []any{object{"path": "plan.yaml",
			"fieldRef": object{"fieldPath": "metadata.annotations['" + kubePlan + "']"}}}}},
		object{"name": "tare-tmp", "emptyDir": object{}}, k.work())

	containers, _ := items(spec, "containers")
	at := worker(containers)
	if at < 0 {
		containers, at = append(containers, object{"name": kubeContainer}), len(containers)
	}
	c := containers[at].(object)
	spec["containers"] = containers
	c["name"] = kubeContainer
	if k.Image != "" {
		c["image"] = k.Image
	}
	if image, _ := c["image"].(string); image == "" {
		return nil, errors.New("no image is named: give --image, or name one in the template")
	}
	c["command"] = k.command(p)
	env, _ := items(c, "env")
	c["env"] = append(env, object{"name": "TMPDIR", "value": "/tmp"}, object{"name": "HOME", "value": "/tmp"})
	mount := object{"name": "tare-work", "mountPath": kubeWork}
	if k.Volume != (Volume{}) {
		mount["subPath"] = k.place(p)
	}
	mounts, _ := items(c, "volumeMounts")
	c["volumeMounts"] = append(mounts, mount, object{"name": "tare-tmp", "mountPath": "/tmp"},
		object{"name": "tare-plan", "mountPath": "/tare-plan"})
	return pod, nil
}

// kubeWork is where a part keeps its bundle, in its container.
const kubeWork = "/tare-work"

// command is the command of a part's container. Nothing else of the image is needed, no shell either.
func (k *Kubernetes) command(p *Part) []any {
	words := []any{k.Tare, "fleet", "shard", fmt.Sprintf("%d/%d", p.Number, k.Parts), "/tare-plan/plan.yaml", "--quiet",
		"--pack", "--out", kubeWork + "/part", "--host", p.Host, "--lock", "none"}
	if k.Volume.At == "" {
		words = append(words, "--print")
	}
	return words
}

// place is a part's folder in the volume that all share.
func (k *Kubernetes) place(p *Part) string { return fmt.Sprintf("tare-%s/part-%d", k.ID, p.Number) }

// work is the volume that a part's bundle lies in.
func (k *Kubernetes) work() object {
	v := object{"name": "tare-work"}
	switch {
	case k.Volume.Claim != "":
		v["persistentVolumeClaim"] = object{"claimName": k.Volume.Claim}
	case k.Volume.Host != "":
		v["hostPath"] = object{"path": k.Volume.Host, "type": "DirectoryOrCreate"}
	default:
		v["emptyDir"] = object{}
	}
	return v
}

// copied is a mapping with nothing in common with the one it is made of.
func copied(o object) (object, error) {
	out := object{}
	src, err := json.Marshal(o)
	if err == nil && o != nil {
		err = json.Unmarshal(src, &out)
	}
	return out, err
}

// hostLabel makes a node's name one that a container can have: at most 63 letters, digits and hyphens. It is the same
// for each Pod of a part, so that a part knows its own bundle where the machine has no other identity.
func hostLabel(node string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(node))
	label = strings.Trim(label[:min(len(label), 63)], "-")
	if label == "" {
		return "node"
	}
	return label
}
