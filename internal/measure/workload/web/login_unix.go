//go:build unix

package web

import (
	"errors"
	"fmt"
	"strings"
)

// login fills in a recorded form, and has all requests of the load carry the cookies that it gave. It happens once in
// each trial, outside the timed section.
func (l *load) login(r *recorded, buf []byte, res *response) error {
	v := &visitor{load: *l, buf: buf, res: res}
	v.method, v.follow, v.status = "GET", true, 0
	at, err := v.open(&hop{method: "GET", path: r.page}, nil)
	if err != nil {
		return fmt.Errorf("login: get the page with the form: %w", err)
	}
	action, body, err := r.fill(v.page.body)
	if err != nil {
		return fmt.Errorf("login: %w; the page has %d bytes", err, len(v.page.body))
	}
	to, err := l.toward(at, 303, action)
	switch {
	case action == "":
		to = &hop{path: at.path}
	case err != nil:
		return errors.New("login: the form is sent to another server, or to something that is not a URL: name the " +
			"path with submit")
	}
	before := v.jar.header()
	to.method = "POST"
	if _, err = v.open(to, body); err != nil {
		return fmt.Errorf("login: send the form: %w", err)
	}
	cookies := v.jar.header()
	switch {
	case r.match != nil && !r.match.Match(v.page.body):
		return fmt.Errorf("login: the page after it has nothing that match=%s matches: are the user and the password "+
			"right?", r.match)
	case cookies == before:
		return errors.New("login: the server set no cookie after it: are the user and the password right?")
	case r.match == nil && asks(v.page.body, r.fields[len(r.fields)-1][0]):
		return fmt.Errorf("login: the page after it still asks for %s: are the user and the password right? If it is "+
			"the right page, say so with a line match REGEXP", r.fields[len(r.fields)-1][0])
	}
	if l.maker.cookie = strings.TrimSpace(l.maker.cookie); l.maker.cookie != "" {
		l.maker.cookie += "; "
	}
	l.maker.cookie += cookies
	return nil
}

// asks tells whether a page has an input of that name.
func asks(page []byte, name string) bool {
	all := forms(page)
	for i := range all {
		if all[i].has(name) {
			return true
		}
	}
	return false
}

// visitor is a browser as far as a login needs one: it follows redirects and keeps cookies.
type visitor struct {
	load
	buf  []byte
	res  *response
	jar  jar
	page keeper
}

// open asks for a page and returns which it was after all redirects. Its body is in v.page.
func (v *visitor) open(at *hop, body []byte) (*hop, error) {
	own := v.load.maker.cookie
	v.res.header = func(name, value []byte) {
		if is(name, "set-cookie") {
			v.jar.set(string(value))
		}
	}
	defer func() { v.res.header, v.load.maker.cookie = nil, own }()
	for range maxHops + 1 {
		v.load.maker.cookie = strings.Trim(own+"; "+v.jar.header(), "; \n")
		var err error
		if at.bytes, err = v.maker.request(at.method, at.path, body); err != nil {
			return at, err
		}
		v.page.reset(true)
		v.res.bodiless = false
		x, err := v.fetch(at, v.buf, v.res, v.page.take)
		switch {
		case err != nil:
			return at, err
		case v.page.over:
			return at, errKept
		case !redirects(x.status):
			if x.status >= 400 {
				return at, fmt.Errorf("the server answers %d", x.status)
			}
			return at, nil
		}
		status := 303 // a form is sent once; what it leads to is a page
		if at.method == "POST" && (x.status == 307 || x.status == 308) {
			status = x.status
		} else {
			body = nil
		}
		v.load.body = body
		if at, err = v.toward(at, status, x.location); err != nil {
			return at, err
		}
	}
	return at, errHops
}
