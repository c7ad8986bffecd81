package durability

import (
	"strings"
	"testing"

	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/driver/virtualbox"
	"tare/internal/lab/env"
	"tare/internal/measure/workload/durability"
	"tare/internal/sys/nbd"
)

// vbox is the driver of VirtualBox.
const vbox = "virtualbox"

func TestCheckSaysWhatCanBeCut(t *testing.T) {
	vm := qemu.Infos()[0]
	mine := env.Spec{Driver: vbox, Arg: "mine", Settings: map[string]string{"engine": "interpreter"}}
	for _, c := range []struct {
		info env.Info
		spec env.Spec
		by   By
		says string
	}{
		{vm, env.Spec{Driver: "qemu"}, ByDisk, ""},
		{vm, env.Spec{Driver: "qemu"}, ByKill, ""},
		{vm, env.Spec{Driver: "qemu"}, ByPowerOff, "use disk or kill"},
		{vm, env.Spec{Driver: "qemu", Settings: map[string]string{"aio": "native"}}, ByDisk, "several writes"},
		{vm, env.Spec{Driver: "qemu"}, "fire", "is not one of [disk kill poweroff]"},
		{env.Info{}, env.Spec{Driver: "docker"}, ByDisk, "possible with qemu, virtualbox"},
		{virtualbox.Infos()[0], mine, ByDisk, "leave out its name"},
	} {
		o := Options{Info: c.info, Spec: c.spec, Able: []string{"qemu", "virtualbox"}, Cuts: 1, Control: 1,
			Classes: durability.Classes(), Faults: nbd.Faults(), By: c.by}
		if err := o.Check(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s by %s: %v, want %q", c.spec.Driver, c.by, err, c.says)
		}
	}
}
