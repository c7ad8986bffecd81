//go:build unix

package web

import (
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
)

// cookieUser is the value of cookie= that means the user of the stack who has logged in.
const cookieUser = "user"

// siteAt is where a page of the environment's stack is reached.
func siteAt(b *workload.Bench, url string) (page, error) {
	s, err := stack.Find(b)
	if err != nil {
		return page{}, err
	}
	at, path, err := s.Resolve(url)
	return page{at, s["host"], path}, err
}

// cookie reads the Cookie header's value.
func (t *loadTrial) cookie(b *workload.Bench) (string, error) {
	source := t.params["cookie"]
	if source == cookieUser && stack.Names(t.params["url"]) {
		s, err := stack.Find(b)
		if err != nil {
			return "", err
		}
		source = "file:" + s["cookie"]
	}
	return secret("cookie", source)
}
