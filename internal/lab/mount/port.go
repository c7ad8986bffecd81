package mount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"tare/internal/lab/env"
)

// loopback is the only address that servers listen on. A guest reaches it through QEMU as guestabi.HostAddress.
const loopback = "127.0.0.1"

// settingPort declares the port of a server.
func settingPort() env.Setting {
	return env.Setting{Name: "port", Default: "auto",
		Doc: "The server's port on 127.0.0.1, 1024 to 65535; auto is a free one.", Check: func(v string) error {
			if v == "auto" {
				return nil
			}
			return number(1024, 65535, "auto or a port")(v)
		}}
}

// startFunc starts a server on the given ports and returns a function that asks it whether it serves.
type startFunc func(ports []int) (*daemon, func(context.Context) error, error)

// maxTries bounds the attempts with other ports: another program may take a free port before the server does.
const maxTries = 4

// listen starts a server that needs count ports, the first of which may be the user's choice, and waits until it
// serves. The server ends with the mount.
func (j *job) listen(ctx context.Context, count int, start startFunc) (*daemon, []int, error) {
	chosen := 0
	if v := j.get("port"); v != "auto" {
		chosen, _ = strconv.Atoi(v) // checked by Setting.Check
		if !free(chosen) {
			j.remedy = "use port=auto, which finds a free one"
			return nil, nil, fmt.Errorf("port %d of %s is taken", chosen, loopback)
		}
	}
	for try := 1; ; try++ {
		ports, err := freePorts(count, chosen)
		if err != nil {
			return nil, nil, err
		}
		d, answers, err := start(ports)
		if err != nil {
			return nil, nil, err
		}
		if err = d.await(ctx, answers); err == nil {
			j.undo = append(j.undo, func() error { d.close(); return nil })
			return d, ports, nil
		}
		d.close()
		j.evidence = d.diagnose()
		// The server has ended: a port that is still taken belongs to another program.
		taken := 0
		for _, p := range ports {
			if !free(p) {
				taken = p
			}
		}
		switch {
		case taken == 0 || ctx.Err() != nil:
			return nil, nil, err
		case chosen != 0 || try == maxTries:
			j.remedy = "use port=auto, or stop the program that takes the port"
			return nil, nil, fmt.Errorf("port %d of %s was taken while the server started: %w", taken, loopback, err)
		}
		j.Log.Info("a port was taken while a server started, trying another", "mount", j.Name, "port", taken)
	}
}

// freePorts finds ports of the loopback that are free for TCP and UDP. The first one is chosen unless that is 0.
func freePorts(count, chosen int) ([]int, error) {
	var ports []int
	if chosen != 0 {
		ports = append(ports, chosen)
	}
	// Hold each port until all are found, so that they differ.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for tries := 0; len(ports) < count; tries++ {
		l, err := net.Listen("tcp4", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, l)
		if port := l.Addr().(*net.TCPAddr).Port; freeUDP(port) {
			ports = append(ports, port)
		} else if tries > 100 {
			return nil, errors.New("find a port that is free for both TCP and UDP: tried 100 without success")
		}
	}
	return ports, nil
}

// free tells whether a server can listen on a port of the loopback.
func free(port int) bool {
	l, err := net.Listen("tcp4", address(port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	l.Close()
	return freeUDP(port)
}

func freeUDP(port int) bool {
	c, err := net.ListenPacket("udp4", address(port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	c.Close()
	return true
}

// address is a port of the loopback in the form of package net.
func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// dial connects to a server for one request, which must be answered before ctx ends.
func dial(ctx context.Context, port int, ask func(net.Conn) error) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp4", address(port))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return ask(c)
}
