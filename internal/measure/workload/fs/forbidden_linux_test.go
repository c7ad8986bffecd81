package fs

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/sys/proc"
)

// forbid makes a system call fail with e on all threads of this process, as a container's seccomp profile does. It
// cannot be undone.
func forbid(t *testing.T, call uint32, e syscall.Errno) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x0005_0000 | uint32(e)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff_0000},             // SECCOMP_RET_ALLOW
	}
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const setFilter, allThreads = 1, 1
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := syscall.Syscall(unix.SYS_SECCOMP, setFilter, allThreads, uintptr(unsafe.Pointer(&p))); e != 0 {
		t.Fatal(e)
	}
}

// TestForbiddenRing runs itself again as a process that the kernel refuses io_uring to.
func TestForbiddenRing(t *testing.T) {
	const name = "TARE_FS_FORBID"
	how := os.Getenv(name)
	if how == "" {
		for _, how := range []string{"EPERM", "ENOSYS"} {
			cmd := proc.Command(t.Context(), os.Args[0], "-test.run=^TestForbiddenRing$", "-test.v")
			cmd.Env = append(os.Environ(), name+"="+how)
			out, err := proc.RunCmd(cmd, nil)
			if err != nil || !strings.Contains(string(out), "--- PASS: TestForbiddenRing") {
				t.Errorf("%s: %v\n%s", how, err, out)
			}
		}
		return
	}
	e, want := unix.EPERM, "seccomp"
	if how == "ENOSYS" {
		e, want = unix.ENOSYS, "this kernel does not have it"
	}
	forbid(t, 425, e)
	given := map[string]string{"size": "1MiB", "engine": "io_uring", "qd": "8"}
	f := failure(t, t.TempDir(), "fs.randread", given)
	if f.Kind != "refused" || !strings.Contains(f.Message, want) || !strings.Contains(f.Message, "engine=auto") {
		t.Errorf("engine=io_uring: %+v", f)
	}
	for _, kindName := range []string{"fs.randread", "fs.mixed"} {
		dir := t.TempDir()
		b := &workload.Bench{Dir: dir, Work: 500, Seed: 7}
		w := trial(t, kindName, with(given, "engine", "auto")).(*rw)
		if err := drive(w, b); err != nil {
			t.Fatal(err)
		}
		if len(w.lanes) != 8 || b.State["engine"] != "psync" || b.State["qd"] != "8" || len(b.Warnings) != 1 ||
			b.Warnings[0].Code != "no-io-uring" {
			t.Errorf("%s: engine=auto has %d threads, %v, %v", kindName, len(w.lanes), b.State, b.Warnings)
		}
	}
}
