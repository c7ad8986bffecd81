package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"regexp"

	"tare/internal/unit"
)

// maxKept bounds a body that is looked into.
const maxKept = 8 << 20

// maxMasked bounds the parts of a body that are masked; what comes after them is not.
const maxMasked = 1 << 16

// masked stands in the place of a part that differs each time.
const masked = "\x00masked\x00"

// check has the patterns that are looked for in bodies. It is not safe for concurrent use: each lane has its own.
type check struct {
	match *regexp.Regexp // must be found; nil for nothing
	mask  *regexp.Regexp // is left out of the hash; nil for nothing
	equal bool           // the hash must be the first one's
	every int64          // of so many responses, one is looked into
	sum   hash.Hash
}

// newCheck reads the parameters.
func newCheck(match, mask string, equal bool, every int64) (*check, error) {
	k := &check{equal: equal, every: max(1, every), sum: sha256.New()}
	for _, c := range []struct {
		name, text string
		to         **regexp.Regexp
	}{{"match", match, &k.match}, {"mask", mask, &k.mask}} {
		if c.text == "" {
			continue
		}
		re, err := regexp.Compile(c.text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", c.name, c.text, err)
		}
		*c.to = re
	}
	if k.mask != nil && !equal {
		return nil, errors.New("mask= hides what differs from the hash of a body: use it with verify=hash")
	}
	return k, nil
}

// looks tells whether there is anything to look for.
func (k *check) looks() bool { return k != nil && (k.match != nil || k.equal) }

// own is a copy for another lane.
func (k *check) own() *check {
	c := *k
	c.sum = sha256.New()
	return &c
}

// digest is the SHA-256 of a body without its masked parts.
func (k *check) digest(body []byte) string {
	k.sum.Reset()
	if k.mask != nil {
		from := 0
		for _, at := range k.mask.FindAllIndex(body, maxMasked) {
			k.sum.Write(body[from:at[0]])
			k.sum.Write([]byte(masked))
			from = at[1]
		}
		body = body[from:]
	}
	k.sum.Write(body)
	return hex.EncodeToString(k.sum.Sum(nil))
}

// body looks into a body, whose hash should be want.
func (k *check) body(body []byte, want string) error {
	if k.match != nil && !k.match.Match(body) {
		return fmt.Errorf("the body of %s has nothing that match=%s matches: is it another page, such as a login form "+
			"or an error?", unit.Plural(int64(len(body)), "byte"), k.match)
	}
	if !k.equal || want == "" {
		return nil
	}
	if sum := k.digest(body); sum != want {
		return fmt.Errorf("the body differs from the first one: its SHA-256 is %.16s and was %.16s; hide what differs "+
			"each time with mask=, or use verify=status", sum, want)
	}
	return nil
}

// keeper keeps a body until it is looked into.
type keeper struct {
	on   bool
	body []byte
	over bool // it is too large
}

func (k *keeper) take(p []byte) {
	switch {
	case !k.on || k.over:
	case len(k.body)+len(p) > maxKept:
		k.over = true
	default:
		k.body = append(k.body, p...)
	}
}

func (k *keeper) reset(on bool) { k.on, k.over, k.body = on, false, k.body[:0] }

// errKept is a body that is too large to be looked into.
var errKept = fmt.Errorf("the body is larger than %d MiB, and match= and verify=hash look into whole bodies: use "+
	"verify=body", maxKept>>20)
