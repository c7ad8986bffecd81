package deploy_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/agent"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// startPeer returns a running peer, and how an agent on this machine reaches it.
func startPeer(t *testing.T) (*deploy.Peer, *wire.Peer) {
	t.Helper()
	p := deploy.NewPeer(agenttest.Store(t))
	t.Cleanup(func() { p.Close() })
	port, token, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p, &wire.Peer{Address: fmt.Sprintf("127.0.0.1:%d", port), Token: token}
}

func TestPeerKilledInMidTrial(t *testing.T) {
	for kind, params := range map[string]map[string]string{
		"net.stream": {"direction": "up", "streams": "2", "block": "128KiB"},
		"net.rr":     {"size": "1B", "connections": "1"}, "net.connect": {},
	} {
		t.Run(kind, func(t *testing.T) {
			p, at := startPeer(t)
			s, err := deploy.Connect(within(t, patience),
				launch(t, agenttest.Build(t, runtime.GOOS, runtime.GOARCH), "agent", "--dir", t.TempDir()), "test")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			pid := p.Pid()
			go func() {
				// By now the peer works for the trial, or is idle before it. In either case the trial must report its
				// end.
				for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					if cpu, _, err := proc.Usage(pid); err != nil || cpu >= 100*time.Millisecond {
						break
					}
				}
				syscall.Kill(pid, syscall.SIGKILL)
			}()
			o, err := s.Run(within(t, patience),
				wire.Run{Job: wire.Job{Kind: kind, Params: params, Cell: "c", Peer: at}, Work: 1 << 30})
			if err == nil || !strings.Contains(err.Error(), "the peer") || !strings.Contains(err.Error(), "has ended") {
				t.Errorf("the trial ended with %v, %+v", err, o.Result)
			}
			if how := p.Ended(patience); how == nil || !strings.Contains(how.Error(), "killed") {
				t.Errorf("the peer ended with %v", how)
			}
			if _, err := s.Ping(within(t, patience), 1); err != nil {
				t.Errorf("the agent is gone with the peer: %v", err)
			}
		})
	}
}

// Neither the list of processes nor the environment of the peer shows the token, and no trial reports it.
func TestTokenIsNotShown(t *testing.T) {
	p, at := startPeer(t)
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid(), file))
		if err != nil || strings.Contains(string(text), at.Token) {
			t.Errorf("%s of the peer: %q, %v", file, text, err)
		}
	}
	s, err := deploy.Connect(within(t, patience),
		launch(t, agenttest.Build(t, runtime.GOOS, runtime.GOARCH), "agent", "--dir", t.TempDir()), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, address := range []string{at.Address, "127.0.0.1:1", "nowhere"} {
		o, err := s.Run(within(t, patience), wire.Run{Job: wire.Job{Kind: "net.connect", Params: map[string]string{},
			Cell: "c", Peer: &wire.Peer{Address: address, Token: at.Token}}, Work: 1})
		if strings.Contains(fmt.Sprintf("%v %+v", err, o), at.Token) {
			t.Errorf("peer at %s: the token is in %v, %+v", address, err, o)
		}
	}
	o, err := s.Run(within(t, patience), wire.Run{Job: wire.Job{Kind: "net.connect", Params: map[string]string{},
		Cell: "c", Peer: &wire.Peer{Missing: "no way; use net=host"}}, Work: 1})
	if err == nil || o.Result.Error == nil || o.Result.Error.Kind != "refused" ||
		!strings.Contains(err.Error(), "use net=host") {
		t.Errorf("without a way to the peer: %v, %+v", err, o.Result)
	}
}

// controllerEnv makes this test binary a controller that starts a peer and waits.
const controllerEnv = "TARE_TEST_CONTROLLER"

func TestPeerEndsWithAKilledController(t *testing.T) {
	if os.Getenv(controllerEnv) != "" {
		p := deploy.NewPeer(fixedAgents(os.Getenv(controllerEnv)))
		_, _, err := p.Start(t.Context())
		fmt.Printf("pid %d %v\n", p.Pid(), err)
		time.Sleep(patience)
		return
	}
	cmd := proc.Command(t.Context(), os.Args[0], "-test.run=^TestPeerEndsWithAKilledController$")
	cmd.Env = append(os.Environ(), controllerEnv+"="+agenttest.Build(t, runtime.GOOS, runtime.GOARCH))
	controller, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Close()
	line, err := bufio.NewReader(controller).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if n, err := fmt.Sscanf(line, "pid %d <nil>", &pid); n != 1 || err != nil {
		t.Fatalf("the controller said %q", line)
	}
	if err := syscall.Kill(controller.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
			return
		}
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the peer lives on")
		}
	}
}

// fixedAgents returns one agent for every platform.
type fixedAgents string

func (f fixedAgents) Path(string, string) (string, error) { return string(f), nil }

func TestPeerThatCannotStart(t *testing.T) {
	for agentPath, want := range map[string]string{"/nowhere/agent": "no such file", "/bin/false": "it"} {
		p := deploy.NewPeer(fixedAgents(agentPath))
		if _, _, err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "start the peer") {
			t.Errorf("%s: %v, want %s", agentPath, err, want)
		}
		p.Close()
	}
	if !agent.IsRole([]string{"tare", "peer"}) {
		t.Error("the full program does not step aside for the peer")
	}
}
