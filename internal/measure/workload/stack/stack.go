// Package stack is the agent's side of stacks: a site that lies in an environment's root is a service, which kinds of
// work reach by url=stack:/PATH.
//
// The content of a site and the steps of its start are in the recipe's scripts, in the environment. This package only
// runs them.
package stack

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/promise"
)

// program is the program of every stack, in an environment that has one.
const program = "/srv/tare-stack/stack.sh"

// Room is the space that a copy of a site takes, its code and its database, if it is not larger than usual.
const Room = 256 << 20

// Site is a site that runs, as stack.sh describes it:
//
//	name, key               the recipe, and what was installed
//	host                    the site's own name, which requests have in their Host header: pages contain it
//	apache, nginx, varnish  the addresses of its front ends
//	cookie                  a file with the Cookie header's value of a user who has logged in
//	front, heavy, other     paths of pages
//	pattern                 what each of these pages contains; user is what the first contains for that user only
//	opcache                 on or off
//	home, code              the directory of its database, logs and sockets, and that of the code that PHP reads
//	program                 the program that controls it
//	session                 the Cookie header's value itself, of a site in another environment
type Site map[string]string

// Names says whether a URL names the environment's stack: stack:/PATH or stack-FRONTEND:/PATH.
func Names(url string) bool {
	return strings.HasPrefix(url, "stack:") || strings.HasPrefix(url, "stack-")
}

// cut splits a URL for which Names is true into front end and path.
func cut(url string) (front, path string) {
	front, path, _ = strings.Cut(url[len("stack"):], ":")
	if front == "" {
		return "apache", path
	}
	return front[1:], path
}

// Check returns an error for a wrong URL for which Names is true.
func Check(url string) error {
	front, path := cut(url)
	if front != "apache" && front != "nginx" && front != "varnish" || path == "" || path[0] != '/' && path[0] != '@' ||
		strings.ContainsAny(path, " \r\n\t\x00") {
		return errors.New("url=" + url + ": a page of a stack is stack:/PATH, stack-nginx:/PATH or " +
			"stack-varnish:/PATH, or @front, @heavy or @other in the place of the path")
	}
	return nil
}

// Service returns the service of a URL; nil if it does not name a stack.
func Service(url string) *workload.Service {
	if !Names(url) || Check(url) != nil {
		return nil
	}
	return &workload.Service{Key: "stack", Start: start}
}

// running is a site that runs.
type running struct {
	process *proc.Stream
	said    []byte
}

func start(ctx context.Context, b *workload.Bench) (workload.Running, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, &record.Failure{Kind: "refused", Message: "this environment has no stack; give it one that tare " +
			"stack build has installed: -e 'box=namespace?stack=mediawiki'"}
	}
	home, name := b.Home, "site"
	if home == "" {
		home = b.Dir
	} else if home != b.Dir { // that is shared by the sites on all mounts
		sum := sha256.Sum256([]byte(b.Dir))
		name += hex.EncodeToString(sum[:2])
	}
	// The program outlives ctx, which bounds the start only.
	cmd := proc.Command(context.WithoutCancel(ctx), "/bin/bash", program, "serve", filepath.Join(b.Dir, "code"),
		filepath.Join(home, name))
	cmd.Dir = "/"
	proc.GentleDeath(cmd) // if this process is killed, the program still stops what it has started
	process, err := proc.Start(cmd)
	if err != nil {
		return nil, err
	}
	r := &running{process: process}
	defer context.AfterFunc(ctx, func() { _ = process.Kill() })()
	r.said, _ = bufio.NewReader(process).ReadSlice('\n')
	var s Site
	if json.Unmarshal(r.said, &s) != nil || ctx.Err() != nil {
		f := r.Ended()
		f.Kind = "setup"
		process.Close()
		return nil, f
	}
	for k, v := range s {
		b.Note("stack_"+k, v)
	}
	if text := s.promises(ctx); text != "" {
		b.Note(promise.State, text)
	}
	return r, nil
}

// promises are the settings of the site's database; "" if it does not tell them.
func (s Site) promises(ctx context.Context) string {
	c, err := mysql.Dial(ctx, mysql.Config{Network: "unix", Address: filepath.Join(s["home"], "run", "db.sock"),
		User: "root"})
	if err != nil {
		return ""
	}
	defer c.Quit()
	defer context.AfterFunc(ctx, c.Interrupt)()
	found := promise.Settings{Family: promise.MySQL}
	if c.Query([]byte(promise.Ask(found.Family)), &mysql.Result{Row: found.Row}) != nil {
		return ""
	}
	return found.Text()
}

func (r *running) Endpoint() string      { return string(r.said) }
func (r *running) Done() <-chan struct{} { return r.process.Done() }

// Ended is the failure of a program that has ended, with its own reason.
func (r *running) Ended() *record.Failure {
	log := proc.Printable(r.process.Diagnose())
	_, why, _ := strings.Cut("\n"+log, "\nstack: ")
	why, _, _ = strings.Cut(why, "\n")
	if why == "" {
		why = proc.Telling([]byte(log))
	}
	return &record.Failure{Message: "the stack has ended: " + why, Evidence: log}
}

// Stop ends the site's processes.
func (r *running) Stop(ctx context.Context) error {
	_ = r.process.Signal(os.Interrupt) // fails when it has ended
	select {
	case <-r.process.Done():
	case <-ctx.Done():
	}
	return r.process.Close()
}

// Find returns the site that a trial's service serves.
func Find(b *workload.Bench) (Site, error) { return parse(b.Service.Endpoint) }

func parse(text string) (s Site, err error) {
	err = json.Unmarshal([]byte(text), &s)
	return s, err
}

// Resolve returns where a URL for which Names is true leads: an address, and the path that is asked for there. Requests
// have the site's host as their Host header.
func (s Site) Resolve(url string) (at netip.AddrPort, path string, err error) {
	front, path := cut(url)
	if path[0] == '@' {
		path = s[path[1:]]
	}
	if at, err = netip.ParseAddrPort(s[front]); err != nil || path == "" || path[0] != '/' {
		err = fmt.Errorf("the stack %s has no such page: %s", s["name"], url)
	}
	return at, path, err
}

// Told is the site as clients in other environments are told of it: without its directories, and with the Cookie
// header's value of a user, if they need one.
func (s Site) Told(session string) string {
	told := Site{"session": session}
	for k, v := range s {
		if k != "home" && k != "cookie" && k != "code" && k != "program" {
			told[k] = v
		}
	}
	text, _ := json.Marshal(told) // of texts
	return string(text)
}

// Elsewhere tells whether the site is in another environment, which has told of it.
func (s Site) Elsewhere() bool {
	_, told := s["session"]
	return told
}

// Reached makes what a site has Told the endpoint of a client's service; way says where the client finds a port of the
// site's environment. Of the front ends it has the one that the URL names, for which Names is true.
func Reached(told, url string, way func(port uint16) (netip.AddrPort, error)) (string, error) {
	s, err := parse(told)
	if err != nil {
		return "", fmt.Errorf("what the stack's side offers: %w", err)
	}
	front, _ := cut(url)
	at, err := netip.ParseAddrPort(s[front])
	if err == nil {
		at, err = way(at.Port())
	}
	if err != nil {
		return "", fmt.Errorf("reach the stack's %s: %w", front, err)
	}
	for _, other := range []string{"apache", "nginx", "varnish"} {
		delete(s, other)
	}
	s[front] = at.String()
	text, err := json.Marshal(s)
	return string(text), err
}

// Control has the stack do something: "restart web", "restart php", "restart database", "restart varnish", "restart
// all", "clear", which empties the site's own caches, or "open ADDRESS", by which clients elsewhere reach it from then
// on: then its web servers are started again, once. It returns when that is done: servers that were restarted accept
// connections, and have answered no request.
func (s Site) Control(ctx context.Context, what string) error {
	_, err := proc.Run(ctx, nil, append([]string{"/bin/bash", s["program"], "control", s["home"]},
		strings.Fields(what)...)...)
	return err
}
