package vmware

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/envtest"
	"tare/internal/sys/proc"
)

// stateVar makes the test binary a stand-in for vmrun. Its value is the folder with the stand-in's state.
//
// The stand-in is not VMware. It says the words of testdata/vmrun-documented-not-recorded.txt, and boots the generated
// .vmx in QEMU with the same virtual hardware: the chipset, VMware's firmware interface (vmport), PVSCSI, NVMe or AHCI,
// VMXNET3, the VMDK, the serial port as a socket. So the driver, the medium, the disk and the guest's drivers are real,
// and the product is not.
const stateVar = "TARE_VMRUN_STANDIN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(stateVar); dir != "" {
		os.Exit(standIn(dir, os.Args[1:]))
	}
	envtest.Main(m, Infos())
}

// standInVmrun makes a program vmrun and returns its path.
func standInVmrun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	transcript, err := filepath.Abs("testdata/vmrun-documented-not-recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(transcript, filepath.Join(dir, "transcript")); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec env " + stateVar + "=" + dir + " " + self + " \"$@\"\n"
	path := filepath.Join(dir, "vmrun")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// say prints an answer of the transcript and returns its exit status.
func say(dir, name string, fill ...string) int {
	text, err := os.ReadFile(filepath.Join(dir, "transcript"))
	if err != nil {
		panic(err)
	}
	_, answer, ok := strings.Cut(string(text), "\n== "+name+"\n")
	if !ok {
		panic("the transcript has no " + name)
	}
	_, answer, _ = strings.Cut(answer, "\n") // the command line
	answer, status, _ := strings.Cut("\n"+answer, "\n[exit ")
	status, _, _ = strings.Cut(status, "]")
	code, err := strconv.Atoi(status)
	if err != nil {
		panic(err)
	}
	if answer = strings.TrimPrefix(answer, "\n"); answer != "" {
		fmt.Println(strings.TrimSuffix(strings.NewReplacer(fill...).Replace(answer), "\n"))
	}
	return code
}

// standIn is vmrun as it is documented.
func standIn(dir string, args []string) int {
	if len(args) < 3 || args[0] != "-T" {
		return say(dir, "version")
	}
	switch args[2] {
	case "list":
		all := running(dir)
		return say(dir, "list", "{COUNT}", strconv.Itoa(len(all)), "{RUNNING}", strings.Join(all, "\n"))
	case "start":
		return standInStart(dir, args[3])
	case "stop":
		vmx := args[3]
		if !slices.Contains(running(dir), vmx) {
			return say(dir, "stop, not running", "{VMX}", vmx)
		}
		pid := pidOf(vmx)
		syscall.Kill(pid, syscall.SIGKILL)
		for syscall.Kill(pid, 0) == nil {
			time.Sleep(5 * time.Millisecond)
		}
		os.RemoveAll(vmx + ".lck")
		return say(dir, "stop")
	}
	return say(dir, "unknown command")
}

// pidOf is the process of a machine; 0 if it has none.
func pidOf(vmx string) int {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(vmx), "standin.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// running lists the machines that run: those started whose process lives.
func running(dir string) (all []string) {
	b, _ := os.ReadFile(filepath.Join(dir, "started"))
	for vmx := range strings.Lines(string(b)) {
		vmx = strings.TrimSpace(vmx)
		if pid := pidOf(vmx); pid > 0 && syscall.Kill(pid, 0) == nil && !slices.Contains(all, vmx) {
			all = append(all, vmx)
		}
	}
	return all
}

// parseVMX reads a .vmx as the product does: a key, an equals sign, a value in quotes, with |XX for some characters.
func parseVMX(text string) (map[string]string, error) {
	line := regexp.MustCompile(`^([A-Za-z0-9_.:]+) = "([^"]*)"$`)
	escape := regexp.MustCompile(`\|[0-9A-F]{2}`)
	all := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		m := line.FindStringSubmatch(s.Text())
		if m == nil {
			return nil, fmt.Errorf("line %q is none of a .vmx", s.Text())
		}
		if _, twice := all[m[1]]; twice {
			return nil, fmt.Errorf("key %s is there twice", m[1])
		}
		all[m[1]] = escape.ReplaceAllStringFunc(m[2], func(e string) string {
			n, _ := strconv.ParseUint(e[1:], 16, 8)
			return string(rune(n))
		})
	}
	return all, nil
}

// standInStart boots a .vmx.
func standInStart(dir, vmx string) int {
	text, err := os.ReadFile(vmx)
	if err != nil {
		return say(dir, "start, no such machine", "{VMX}", vmx)
	}
	if _, err := os.Stat(vmx + ".lck"); err == nil {
		return say(dir, "start, the files are locked")
	}
	keys, err := parseVMX(string(text))
	home := filepath.Dir(vmx)
	log := "2026-01-01T00:00:00.000Z In(05) vmx Log for VMware Workstation pid=1 version=0.0.0 build=build-0 " +
		"option=stand-in\n"
	var out []byte
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if out, err = proc.Run(ctx, nil, machineOf(keys, home)...); err != nil {
			log += fmt.Sprintf("stand-in: %v\n%s", err, out)
		}
	} else {
		log += err.Error() + "\n"
	}
	os.WriteFile(filepath.Join(home, "vmware.log"), []byte(log), 0o600)
	if err != nil {
		return say(dir, "start, the machine does not power on")
	}
	os.Mkdir(vmx+".lck", 0o700)
	os.WriteFile(filepath.Join(vmx+".lck", "M1.lck"), nil, 0o600)
	f, err := os.OpenFile(filepath.Join(dir, "started"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, vmx)
	return say(dir, "start")
}

// machineOf is QEMU's command line for the hardware of a .vmx.
func machineOf(k map[string]string, dir string) []string {
	at := func(key string) string { return filepath.Join(dir, k[key]) }
	a := []string{"qemu-system-x86_64", "-daemonize", "-pidfile", filepath.Join(dir, "standin.pid"), "-display", "none",
		"-nodefaults", "-no-user-config", "-machine", "pc,vmport=on", "-accel", "tcg", "-cpu", "max", "-name",
		k["displayName"],
		"-smp", k["numvcpus"], "-m", k["memsize"] + "M",
		"-chardev", "socket,id=serial0,server=on,wait=off,path=" + k["serial0.fileName"], "-serial", "chardev:serial0"}
	if k["firmware"] == "efi" {
		a = append(a, "-drive", "if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE.fd")
	}
	if k["ide1:0.deviceType"] == "cdrom-image" {
		a = append(a, "-drive", "if=ide,bus=1,unit=0,media=cdrom,format=raw,readonly=on,file="+at("ide1:0.fileName"))
	} else {
		a = append(a, "-drive", "if=ide,bus=1,unit=0,format=vmdk,file="+at("ide1:0.fileName"))
	}
	disk := func(key string, devices ...string) {
		a = append(a, "-drive", "if=none,id=disk,format=vmdk,file="+at(key))
		for _, d := range devices {
			a = append(a, "-device", d)
		}
	}
	switch {
	case k["scsi0.virtualDev"] == "pvscsi":
		disk("scsi0:0.fileName", "pvscsi,id=scsi0", "scsi-hd,bus=scsi0.0,drive=disk")
	case k["nvme0.present"] == "TRUE":
		disk("nvme0:0.fileName", "nvme,serial=nvme0,drive=disk")
	case k["sata0.present"] == "TRUE":
		disk("sata0:1.fileName", "ich9-ahci,id=sata0", "ide-hd,bus=sata0.1,drive=disk")
	}
	if k["ethernet0.present"] == "TRUE" {
		a = append(a, "-netdev", "user,id=net,restrict=on", "-device", k["ethernet0.virtualDev"]+",netdev=net,romfile=")
	}
	return a
}
