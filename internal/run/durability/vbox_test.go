package durability

import (
	"strings"
	"testing"

	"tare/internal/record"
)

// logOf is what VirtualBox 6 logs of a disk, by which of the two kinds of flush are ignored.
func logOf(sync, async bool, controller string) string {
	word := map[bool]string{true: "ignored", false: "passed to the disk"}
	return "00:00:00.000712 VirtualBox VM 6.1.38 r153438 linux.amd64 (Sep  1 2022 17:00:00) release log\n" +
		"00:00:03.949555 VGA: Using the 386+ BIOS image.\n" +
		"00:00:03.951211 DrvVD: Flushes will be " + word[sync] + "\n" +
		"00:00:03.951235 DrvVD: Async flushes will be " + word[async] + "\n" +
		"00:00:03.952359 VD: VDInit finished with VINF_SUCCESS\n" +
		"00:00:03.956032 AIOMgr: Endpoint for file 'C:\\Users\\x\\Ubuntu.vdi' (flags 000c0723) created successfully\n" +
		"00:00:03.957826 VD: Opening the disk took 5768911 ns\n" +
		"00:00:03.957909 " + controller + ": LUN#0: disk, PCHS=16383/16/63, total number of sectors 42038336\n" +
		"00:00:03.958174 AHCI#0: Reset the HBA\n"
}

// dvd follows in the log of nearly every machine.
const dvd = `00:00:03.960767 DrvVD: Flushes will be ignored
00:00:03.960783 DrvVD: Async flushes will be passed to the disk
00:00:03.961287 VD: Opening the disk took 489104 ns
00:00:03.961335 PIIX3 ATA: LUN#2: CD/DVD, total number of sectors 29779, passthrough disabled
00:00:03.961384 PIIX3 ATA: LUN#1: no unit
`

func TestVirtualBoxLog(t *testing.T) {
	scsi := strings.ReplaceAll(logOf(false, true, "AHCI"), "AHCI: LUN#0: disk", "LsiLogic#0: reset")
	old := strings.ReplaceAll(logOf(true, false, "AHCI"), "DrvVD", "DrvBlock") +
		"00:00:03.957910 AHCI: LUN#0: using normal I/O\n"
	for name, c := range map[string]struct{ log, want, says string }{
		"SATA":         {logOf(true, false, "AHCI") + dvd, "", ""},
		"SATA, passed": {logOf(false, false, "AHCI#0") + dvd, "", ""},
		"SATA, ignored": {logOf(false, true, "AHCI") + dvd, "vbox-flush-ignored",
			"ahci/0/LUN#0/Config/IgnoreFlushAsync 0"},
		"IDE": {logOf(true, false, "PIIX3 ATA") + dvd, "vbox-sync-flush-ignored",
			"piix3ide/0/LUN#0/Config/IgnoreFlush 0"},
		"IDE, passed":    {logOf(false, false, "PIIX3 ATA") + dvd, "", ""},
		"IDE, the other": {logOf(false, true, "PIIX3 ATA") + dvd, "", ""},
		"SCSI, ignored":  {scsi + dvd, "vbox-flush-ignored", "does not name"},
		"SATA and IDE": {logOf(true, false, "AHCI") + logOf(true, false, "PIIX3 ATA"),
			"vbox-sync-flush-ignored", "IDE"},
		"SATA, host's cache, 4": {old, "vbox-sync-flush-ignored", "host's cache"},
		"cut off":               {"DrvVD: Async flushes will be ignored\n", "vbox-flush-ignored", ""},
		"only disks of a floppy": {"DrvBlock: Flushes will be ignored\nDrvBlock: Async flushes will be passed to " +
			"the disk\n" + logOf(true, false, "AHCI"), "", ""},
	} {
		found, err := VirtualBoxLog(c.log)
		if err != nil || codes(found) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, codes(found), err, c.want)
			continue
		}
		for _, f := range found {
			if !f.Ignores || !strings.Contains(f.Text+" "+f.Remedy, c.says) {
				t.Errorf("%s: %+v does not say %q", name, f, c.says)
			}
		}
	}
}

// TestVirtualBoxDisk holds what was seen of the product's disks; TestVirtualBox asks it again.
func TestVirtualBoxDisk(t *testing.T) {
	for settings, want := range map[string]string{
		"virtio-scsi off default": "",
		"virtio-scsi on default":  "vbox-sync-flush-ignored",
		"virtio-scsi on off":      "",
		"virtio-scsi off on":      "vbox-flush-ignored",
		"ide off default":         "vbox-sync-flush-ignored",
		"ide off off":             "",
	} {
		f := strings.Fields(settings)
		e := record.Environment{Target: record.Target{Outside: record.Facts{
			Extra:    map[string]string{"disk.image": "disk.vdi"},
			Settings: map[string]string{"controller": f[0], "hostiocache": f[1], "ignore_flush": f[2]}}}}
		code := ""
		if found := virtualBoxDisk(&e); len(found) > 0 {
			code = found[0].Code
		}
		if code != want {
			t.Errorf("%s: %q, want %q", settings, code, want)
		}
	}
}
