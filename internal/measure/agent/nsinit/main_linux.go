package nsinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main sets the container up as the configuration in args[0] says, runs the agent in it and returns the agent's exit
// code. It must be process 1 of its namespace: when it returns and the process ends, the kernel ends everything inside.
func Main(args []string, stderr io.Writer) int {
	var c Config
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &c) != nil || c.Dir == "" || c.Root == "" {
		fmt.Fprintln(stderr, "tare: nsinit is for tare's own use and needs its configuration as the only argument")
		return ExitUsage
	}
	if os.Getpid() != 1 {
		// Everything below would change the mounts of whoever runs this.
		fmt.Fprintln(stderr, "tare: nsinit must be the first process of a PID namespace")
		return ExitUsage
	}
	// Affinity belongs to the thread, and the agent inherits it from the thread that forks.
	runtime.LockOSThread()
	layout, err := c.setUp()
	if err != nil {
		fmt.Fprintln(stderr, "tare: set up container:", err)
		return ExitSetup
	}
	if c.Check {
		// The agent's executable has redirected its standard output to its standard error.
		if _, err := io.WriteString(os.NewFile(1, "standard output"), layout+"\n"); err != nil {
			return ExitSetup
		}
		return 0
	}
	code, err := runAgent()
	if err != nil {
		fmt.Fprintln(stderr, "tare:", err)
		return ExitSetup
	}
	return code
}

func (c *Config) setUp() (layout string, err error) {
	if layout, err = c.newRoot(); err != nil {
		return "", err
	}
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return "", fmt.Errorf("set host name: %w", err)
	}
	if c.OwnNet {
		if err := loopbackUp(); err != nil {
			return "", err
		}
	}
	if len(c.CPUs) > 0 {
		var set unix.CPUSet
		for _, n := range c.CPUs {
			set.Set(n)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return "", fmt.Errorf("use processors %v: %w", c.CPUs, err)
		}
	}
	return layout, os.Chdir("/")
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}

// runAgent starts the agent on this process's standard streams and reaps every orphan until the agent ends. Children
// are made and awaited with bare system calls: a wait for any child would steal the status from os/exec's wait.
func runAgent() (int, error) {
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	agent, err := syscall.ForkExec("/proc/self/exe", []string{"tare-agent", "agent", "--dir", WorkDir},
		&syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2},
		})
	if err != nil {
		return 0, fmt.Errorf("start agent: %w", err)
	}
	go func() {
		for s := range asked {
			syscall.Kill(agent, s.(syscall.Signal))
		}
	}()
	if err := letGoOfStreams(); err != nil {
		return 0, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for agent: %w", err)
		case pid == agent && status.Exited():
			return status.ExitStatus(), nil
		case pid == agent && status.Signaled():
			return 0, fmt.Errorf("the agent was killed by signal %v", status.Signal())
		}
	}
}

// letGoOfStreams closes this process's copies of the connection, so that the end of the agent's is seen at once.
func letGoOfStreams() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for fd := range 2 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return fmt.Errorf("close stream %d: %w", fd, err)
		}
	}
	return nil
}
