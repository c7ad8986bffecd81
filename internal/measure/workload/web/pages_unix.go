//go:build unix

package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// samples is the number of responses at least that are fetched and hashed after the timed section.
const samples = 4

// wanted is the expected digest of the page; "" for a page of the user's.
func (t *loadTrial) wanted(b *workload.Bench) string {
	switch {
	case t.load.method == "HEAD":
		return ""
	case t.nginx != nil:
		return t.nginx.digest
	case t.remote != nil:
		n := nginx{size: t.remote.size, seed: b.Seed}
		sum := sha256.Sum256(n.content())
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// look fetches a page once and records what all other responses must have.
func (t *loadTrial) look(b *workload.Bench, a *ask) error {
	x, digest, err := t.fetch(a)
	if err != nil {
		return err
	}
	if want := t.wanted(b); want != "" && t.params["verify"] != verifyHash && digest != want {
		return fmt.Errorf("the response is not the generated page: %s with the SHA-256 %.16s instead of %s with %.16s",
			unit.Plural(x.body, "byte"), digest, unit.Plural(t.params.Int("size"), "byte"), want)
	}
	switch t.params["verify"] {
	case verifyBody:
		a.digest, a.length = digest, x.body
	case verifyHash:
		a.digest = digest
	}
	return nil
}

// compare records the pages, so that trials can only be compared if the pages were the same.
func (t *loadTrial) compare(b *workload.Bench) {
	first := t.load.asks[0]
	switch {
	case t.params["verify"] == verifyStatus:
	case t.params["verify"] == verifyHash:
		b.Check("page", fmt.Sprintf("%s, masked %s", unit.Plural(int64(len(t.load.asks)), "page"), t.together()))
	case len(t.load.asks) == 1:
		b.Check("page", fmt.Sprintf("%s %s", unit.Plural(first.length, "byte"), first.digest[:32]))
	default:
		sum := int64(0)
		for _, a := range t.load.asks {
			sum += a.length
		}
		b.Check("page", fmt.Sprintf("%s, %s %s", unit.Plural(int64(len(t.load.asks)), "page"), unit.Plural(sum, "byte"),
			t.together()))
	}
}

// together is the digest of the digests of all pages.
func (t *loadTrial) together() string {
	if len(t.load.asks) == 1 {
		return t.load.asks[0].digest[:32]
	}
	h := sha256.New()
	for _, a := range t.load.asks {
		h.Write([]byte(a.digest))
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// fetch fetches a page outside the timed section, checks it as far as that needs no other, and hashes its body.
func (t *loadTrial) fetch(a *ask) (exchange, string, error) {
	l := &t.load
	var kept keeper
	h := sha256.New()
	x, err := l.visit(&a.hop, t.buf, &t.res, func(p []byte) {
		if p == nil {
			h.Reset()
			kept.reset(l.check.looks())
		}
		h.Write(p)
		kept.take(p)
	})
	digest := hex.EncodeToString(h.Sum(nil))
	switch {
	case err != nil:
	case x.status != l.status:
		err = wrong(x.status, l.status, x.body, x.body, x.location)
	case x.body < l.within.least || x.body > l.within.most:
		err = l.within.wrong(x.body)
	case kept.over:
		err = errKept
	case l.check.looks():
		if err = l.check.body(kept.body, ""); l.check.equal {
			digest = l.check.digest(kept.body)
		}
	}
	return x, digest, err
}

// at adds which page failed, if there are several.
func (t *loadTrial) at(a *ask, err error) error {
	if len(t.load.asks) < 2 {
		return err
	}
	return fmt.Errorf("%s: %w", a.path, err)
}

// sample checks that the server still serves the same pages.
func (t *loadTrial) sample() error {
	for i := range min(max(samples, len(t.load.asks)), 16*samples) {
		a := t.load.asks[i%len(t.load.asks)]
		x, digest, err := t.fetch(a)
		switch {
		case err != nil:
		case a.length >= 0 && x.body != a.length:
			err = wrong(x.status, t.load.status, x.body, a.length, x.location)
		case a.digest != "" && digest != a.digest:
			err = fmt.Errorf("the page changed during the trial: its SHA-256 was %.16s and is now %.16s; use "+
				"verify=status for a page that differs each time", a.digest, digest)
		}
		if err != nil {
			return t.failed("measure", t.at(a, err))
		}
	}
	return nil
}
