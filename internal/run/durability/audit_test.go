package durability

import (
	"strings"
	"testing"
)

func TestAudit(t *testing.T) {
	for name, c := range map[string]struct{ path, text, kind, want string }{
		"cmdline": {"/proc/7/cmdline", "/usr/bin/qemu-system-x86_64\x00-drive\x00file=/a b,cache=unsafe\x00",
			"qemu", "qemu-cache-unsafe"},
		"ps": {"ps", "qemu-system-aarch64 -m 1G -drive file=/a,cache=none\n", "qemu", ""},
		"domain": {"vm.xml", "<?xml version='1.0'?>\n<domain type='kvm'><devices><disk><driver " +
			"cache='unsafe'/></disk></devices></domain>", "libvirt", "libvirt-cache-unsafe"},
		"log": {"VBox.log", logOf(true, false, "AHCI"), "vbox-log", ""},
		"extra data": {"-",
			"Key: VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlushAsync, Value: 1\nKey: GUI/x, Value: 1\n",
			"vbox-extradata", "vbox-flush-ignored"},
		"the default": {"-", "Key: VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlush, Value: 1\n", "vbox-extradata",
			""},
		"told on IDE": {"-", "Key: VBoxInternal/Devices/piix3ide/0/LUN#1/Config/IgnoreFlush, Value: 1\n",
			"vbox-extradata", "vbox-flush-ignored"},
		"kept": {"-", "Key: VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlush, Value: 0\n", "vbox-extradata",
			""},
		"IDE": {"a.vbox",
			`<VirtualBox><Machine><StorageController type="PIIX4"><AttachedDevice type="HardDisk"/></StorageController></Machine></VirtualBox>`, "vbox", "vbox-sync-flush-ignored"},
		"IDE, kept": {"a.vbox",
			`<VirtualBox><Machine><ExtraDataItem name="VBoxInternal/Devices/piix3ide/0/LUN#0/Config/IgnoreFlush" value="0"/><StorageController type="PIIX4"><AttachedDevice type="HardDisk"/></StorageController></Machine></VirtualBox>`, "vbox", ""},
		"SATA": {"a.vbox",
			`<VirtualBox><Machine><StorageController type="AHCI"><AttachedDevice type="HardDisk"/></StorageController><StorageController type="PIIX4"><AttachedDevice type="DVD"/></StorageController></Machine></VirtualBox>`, "vbox", ""},
		"two on IDE": {"a.vbox",
			`<VirtualBox><Machine><ExtraData><ExtraDataItem name="VBoxInternal/Devices/piix3ide/0/LUN#0/Config/IgnoreFlush" value="0"/></ExtraData><StorageController type="PIIX4"><AttachedDevice type="HardDisk" port="0" device="0"/><AttachedDevice type="HardDisk" port="0" device="1"/></StorageController></Machine></VirtualBox>`, "vbox", "vbox-sync-flush-ignored"},
		"was on IDE": {"a.vbox",
			`<VirtualBox><Machine><Snapshot name="old"><Hardware><StorageController type="PIIX4"><AttachedDevice type="HardDisk"/></StorageController></Hardware></Snapshot><StorageController type="AHCI"><AttachedDevice type="HardDisk"/></StorageController></Machine></VirtualBox>`, "vbox", ""},
		"SATA, told": {"a.vbox",
			`<VirtualBox><Machine><ExtraDataItem name="VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlushAsync" value="1"/><StorageController type="AHCI"><AttachedDevice type="HardDisk"/></StorageController></Machine></VirtualBox>`, "vbox", "vbox-flush-ignored"},
		"blanks": {"ps", "qemu-system-x86_64 -drive file=/vm/my disk.img,cache=unsafe -m 1G\n", "qemu",
			"qemu-cache-unsafe"},
		"quotes": {"start.sh", "qemu-system-x86_64 -m 1 \\\n -drive \"file=a b,cache=unsafe\"\n", "qemu",
			"qemu-cache-unsafe"},
		"apostrophe": {"ps", "qemu-system-x86_64 -name Bob's -drive file=/a,cache=unsafe -m 1G\n", "qemu",
			"qemu-cache-unsafe"},
		"arg": {"vm.xml",
			`<domain xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><qemu:commandline><qemu:arg value="-drive"/><qemu:arg value="file=/x,cache=unsafe"/></qemu:commandline></domain>`, "libvirt", "qemu-cache-unsafe"},
		"cdrom": {"vm.xml",
			`<domain><disk device="cdrom"><driver cache="unsafe"/></disk><disk device="disk"><driver cache="unsafe"/><readonly/></disk></domain>`, "libvirt", ""},
		"by default": {"/etc/exports", "/b -async,rw h1 h2\n/c -async h1(sync)\n/d h1(async,sync)\n", "exports",
			"nfs-async"},
		"write cache": {"/sys/block/vda/queue/write_cache", "write through\n", "write-cache", "write-cache-through"},
		"mountinfo": {"/proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,nobarrier\n",
			"mountinfo", "mount-nobarrier"},
		"mounts": {"/proc/mounts", "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw,data=writeback 0 0\n", "fstab",
			"mount-data-writeback"},
		"fstab": {"/etc/fstab", "# <file system> <mount point>\nUUID=1 / ext4 errors=remount-ro,barrier=0 0 1\n",
			"fstab", "mount-nobarrier"},
		"smb.conf": {"smb.conf", "[global]\n\tworkgroup = W\n[share]\n\tstrict sync = no\n", "samba",
			"smb-strict-sync"},
		"exports": {"/etc/exports", "# none\n/srv *(rw,async,no_subtree_check)\n", "exports", "nfs-async"},
		"exportfs": {"-", "/srv          \t<world>(async,wdelay,hide,no_subtree_check,sec=sys,rw,secure)\n",
			"exports", "nfs-async"},
	} {
		kind, found, err := Audit(c.path, "", []byte(c.text))
		if err != nil || kind != c.kind || codes(found) != c.want {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, kind, codes(found), err, c.kind, c.want)
		}
	}
	for name, c := range map[string]struct{ kind, text, says string }{
		"unknown text": {"", "hello", "--as"},
		"unknown kind": {"vmware", "hello", "unknown kind"},
		"no domain":    {"libvirt", "hello", "no line of it"},
		"other XML":    {"vbox", "<domain/>", "no line of it"},
		"no drive":     {"qemu", "hello", "no line of it"},
		"no mount":     {"mountinfo", "hello", "no line of it"},
		"no section":   {"samba", "hello", "no line of it"},
		"no log":       {"vbox-log", "hello", "no line of it"},
		"no exports":   {"exports", "[share]\n", "no line of it"},
		"broken":       {"libvirt", "<domain><disk", "XML"},
		"too long":     {"qemu", strings.Repeat("x", MaxConfig+1), "limit"},
	} {
		if _, _, err := Audit("file", c.kind, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, found, _ := Audit("/sys/block/vda/queue/write_cache", "", []byte("write through")); len(found) != 1 ||
		!strings.Contains(found[0].Text, "vda") {
		t.Errorf("%+v", found)
	}
}

func FuzzAudit(f *testing.F) {
	f.Add("", "<VirtualBox><ExtraDataItem name='a/Config/IgnoreFlush' value='1'/>")
	f.Add("qemu", "-drive 'file=a b,cache=unsafe' -snapshot")
	f.Add("samba", "[a]\nstrict sync = no")
	f.Add("mountinfo", "22 1 8:1 / / rw - ext4 a rw,nobarrier")
	f.Fuzz(func(t *testing.T, kind, text string) {
		_, found, err := Audit("file", kind, []byte(text))
		for _, x := range found {
			if x.Code == "" || x.Layer == "" || x.Text == "" || x.Remedy == "" {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}
