package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/judge/calldiff"
	"tare/internal/lab/nstest"
	"tare/internal/sys/trace"
)

// answers serves HTTP/1.1 with one answer, whose end it holds back until the kernel lets it go, if it is to: a second
// small write without TCP_NODELAY waits for the acknowledgement of the first, which the other end delays by 40 ms.
func answers(listener net.Listener, inTwo bool) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			conn.(*net.TCPConn).SetNoDelay(false)
			for in := bufio.NewReader(conn); ; {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				r.Body.Close()
				head, body := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "hello\n"
				if !inTwo {
					head, body = head+body, ""
				}
				for _, part := range []string{head, body[:len(body)/2], body[len(body)/2:]} {
					if part != "" {
						conn.Write([]byte(part))
					}
				}
			}
		}()
	}
}

// listenIn listens on the loopback of another network, which is that of a process.
func listenIn(pid, address string) (listener net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		fd, failed := unix.Open("/proc/"+pid+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if failed == nil {
			failed = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err = failed; err == nil {
			listener, err = net.Listen("tcp4", address)
		}
	}()
	<-done
	return listener, err
}

// TestWhyNamesWhatIsWaitedFor plants a server whose answers are late, without anybody at work meanwhile, behind a
// program and behind tare's own client.
func TestWhyNamesWhatIsWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	l := newLab(t)
	needRoot(t)
	need(t, "curl", "nsenter", "ip")
	if b, err := trace.OpenBPF(); err != nil {
		missing(t, err.Error())
	} else if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	space, err := nstest.New(":")
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	there, err := listenIn(space.Network()[2], here.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	go answers(here, false)
	go answers(there, true)
	url := "http://" + here.Addr().String() + "/"
	o := l.do("run", "-q", "--baseline", "at-once", "-e", "at-once=local", "-e",
		"in-two=command?argv="+strings.Join(space.Network(), " "),
		"-w", fmt.Sprintf("command:command=curl -s %s %s %s", url, url, url), "-w", "http.load:url="+url+",trial=200ms",
		"--blocks", "8", "-o", "out")
	if o.code != 0 && o.code != 1 {
		t.Fatalf("exit code %d: %s%s", o.code, o.out, o.err)
	}
	for cell, waits := range map[string]string{"in-two,command": "poll", "in-two,http.load": "epoll_"} {
		o := l.do("why", "out", cell, "--by", "bpf", "-q", "--format", "json")
		var e calldiff.Explanation
		if err := json.Unmarshal([]byte(o.out), &e); err != nil {
			t.Fatalf("%s: %v: %s%s", cell, err, o.out, o.err)
		}
		t.Logf("%s: %q", cell, e.Found)
		if len(e.Found) == 0 || !strings.HasPrefix(e.Found[0], "waiting in "+waits) || !e.Divided ||
			!strings.Contains(e.Found[0], ", for a descriptor that is not ready") {
			t.Errorf("%s: %q", cell, e.Found)
		}
		if p := e.Parts[0]; !strings.HasPrefix(p.Name, waits) || p.Share < 0.5 || !p.Shown {
			t.Errorf("%s: the largest part is %+v", cell, p)
		}
		for _, p := range e.Parts {
			if (p.Name == "futex" || p.Name == "nanosleep") && p.Share > 0.1 {
				t.Errorf("%s: tare's own threads count: %+v", cell, p)
			}
		}
	}
}
