package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

// reachTables has a kind that needs the run's peer, and drivers that have a way there always, by a setting, and never.
func reachTables() Tables {
	t := tables()
	t.Drivers = env.NewRegistry(
		env.Info{Name: "local", Driver: closed{}, Reach: func(env.Spec) error { return nil }},
		env.Info{Name: "qemu", Driver: closed{}, Settings: []env.Setting{{Name: "nic"}}, Reach: func(s env.Spec) error {
			if s.Get("nic", "") == "" {
				return errors.New(s.Name + " has no card; use nic=virtio")
			}
			return nil
		}},
		env.Info{Name: "ssh", ArgDoc: "HOST", Driver: closed{}},
	)
	t.Kinds = append(t.Kinds, workload.Kind{Name: "net.rr", Needs: workload.Needs{Peer: true}})
	return t
}

func TestWorkOnTheNetworkNeedsAWay(t *testing.T) {
	for src, want := range map[string]string{
		"environments: {host: local, vm: 'qemu?nic=virtio'}\nworkloads: [net.rr]": "",
		"environments: {host: local, vm: qemu}\nworkloads: [net.rr]": "vm has no card; use " +
			"nic=virtio, or leave it out",
		"environments: {host: local, box: 'ssh:a'}\nworkloads: [cpu.prime, net.rr]": "box (ssh) cannot; host, " +
			"namespace?net=host",
		"environments: {host: local, box: 'ssh:a', vm: 'qemu?nic=e1000'}\n" +
			"workloads: [{kind: net.rr, targets: [vm]}]": "",
		"environments: {host: local, vm: qemu}\nworkloads: [cpu.prime]":                           "",
		"environments: {vm: qemu, host: local}\nbaseline: vm\nmissing: skip\nworkloads: [net.rr]": "vm has no card",
		"environments: {host: local, box: 'ssh:a', vm: 'qemu?nic=e1000', bare: qemu}\nmissing: skip\n" +
			"workloads: [net.rr]": "",
		"environments: {host: local, vm: 'qemu?nic=virtio'}\nmissing: skip\n" +
			"workloads: [{kind: net.rr, targets: [host, vm]}]": "",
	} {
		tables := reachTables()
		var left []string
		tables.LeftOut = func(target, why string) { left = append(left, target+": "+why) }
		p, err := Parse("plan.yaml", []byte(src), tables)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "net.rr must reach") {
				t.Errorf("%s\n%v, want %q", src, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s\n%v", src, err)
			continue
		}
		if !strings.Contains(src, "bare") {
			if len(left) > 0 {
				t.Errorf("%s\nleft out %q", src, left)
			}
			continue
		}
		if got := p.Workloads[0].Targets; !slices.Equal(got, []string{"host", "vm"}) || len(left) != 2 ||
			!strings.Contains(left[1], "bare in net.rr: bare has no card; use nic=virtio") {
			t.Errorf("%s\nis weighed in %q, left out %q", src, got, left)
		}
	}
}

func TestOtherEndIsAnEnvironmentOfThePlan(t *testing.T) {
	tables := reachTables()
	i := slices.IndexFunc(tables.Kinds, func(k workload.Kind) bool { return k.Name == "net.rr" })
	tables.Kinds[i].Params = []workload.Param{{Name: workload.ToParam, Type: workload.Text}}
	for src, want := range map[string]string{
		// Neither of them reaches the loopback of this machine, and neither has to.
		"environments: {a: 'ssh:a', b: 'ssh:b'}\nworkloads: [{kind: net.rr, to: b}]": "",
		"environments: {a: 'ssh:a', box: 'ssh:b'}\nworkloads: [{kind: net.rr, to: bok}]": "to: there is no " +
			"environment \"bok\" in the plan; did you mean \"box\"?",
	} {
		_, err := Parse("plan.yaml", []byte(src), tables)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v, want %q", src, err, want)
		}
	}
}
