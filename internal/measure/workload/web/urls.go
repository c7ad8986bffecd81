package web

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"tare/internal/unit"

	"tare/internal/measure/workload/stack"
)

// Bounds of a list of URLs.
const (
	maxURLs   = 1024
	maxWeight = 1000
	maxList   = 1 << 20 // bytes
)

// listed is a page of a list, and how often it is asked for in proportion to the others.
type listed struct {
	path   string
	weight int
}

// parseList reads a list of pages of one server: words, of which a number is the weight of the page after it. What
// follows # at the beginning of a word is a comment, to the end of its line. Base is the server's address, "" if the
// list is the first to name it.
func parseList(text, base string) (list []listed, server string, err error) {
	refuse := func(format string, args ...any) ([]listed, string, error) {
		return nil, "", fmt.Errorf("urls: "+format, args...)
	}
	if len(text) > maxList {
		return refuse("the list is larger than %d KiB", maxList>>10)
	}
	server, weight := base, 0
	for line := range strings.Lines(text) {
		for word := range strings.FieldsSeq(line) {
			if word[0] == '#' {
				break
			}
			if n, err := strconv.Atoi(word); err == nil {
				if n < 1 || n > maxWeight || weight != 0 {
					return refuse("the weight %d must be between 1 and %d, and before a URL", n, maxWeight)
				}
				weight = n
				continue
			}
			u, err := url.Parse(word)
			if err != nil || u.User != nil || u.Scheme == "" && word[0] != '/' || u.Scheme != "" && u.Host == "" {
				return refuse("%s is neither a URL nor a path that begins with /", hidden(word))
			}
			if at := u.Scheme + "://" + u.Host; u.Scheme != "" {
				if server == "" {
					server = at
				}
				if !strings.EqualFold(at, server) {
					return refuse("%s is not on the server %s: a load has one server; use a workload for each", word,
						server)
				}
			}
			if len(list) == maxURLs {
				return refuse("there are more than %d", maxURLs)
			}
			list, weight = append(list, listed{u.RequestURI(), max(1, weight)}), 0
		}
	}
	switch {
	case weight != 0:
		return refuse("the weight %d has no URL", weight)
	case len(list) == 0:
		return refuse("the list is empty")
	case server == "":
		return refuse("the list has only paths: name the server with url=")
	}
	return list, server, nil
}

// origin is the part of a URL that names its server.
func origin(text string) string {
	if stack.Names(text) {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// shuffled is the order in which pages are asked for, again and again: each as often as its weight says, in an order
// that only depends on the seed.
func shuffled(list []listed, seed uint64) []uint16 {
	if len(list) < 2 {
		return nil
	}
	var order []uint16
	for i, p := range list {
		for range p.weight {
			order = append(order, uint16(i))
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0x75726c73))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// arrivals is the schedule of a lane in the open model: the times at which requests are due, whatever became of those
// before.
type arrivals struct {
	gap  float64 // mean, ns
	at   float64
	rng  *rand.Rand // nil for a constant rate
	lane int
}

// newArrivals makes the schedule of one of some lanes, which together have a rate per second.
func newArrivals(rate float64, poisson bool, lane, lanes int, seed uint64) *arrivals {
	a := &arrivals{gap: 1e9 * float64(lanes) / rate, lane: lane}
	a.at = -a.gap * float64(lanes-lane-1) / float64(lanes)
	if poisson {
		a.at, a.rng = 0, rand.New(rand.NewPCG(seed, 0x617272+uint64(lane)))
	}
	return a
}

// next returns when the next request is due, since the beginning, in ns.
func (a *arrivals) next() int64 {
	if a.rng != nil {
		a.at -= a.gap * math.Log(1-a.rng.Float64())
	} else {
		a.at += a.gap
	}
	return int64(a.at)
}

// Bounds of a rate, in requests per second.
const (
	minRate = 0.001
	maxRate = 1e7
)

// parseRate reads the rate of an open model; 0 for a closed one.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	r, err := strconv.ParseFloat(text, 64)
	if err != nil || !(r >= minRate && r <= maxRate) {
		return 0, fmt.Errorf("rate=%s: must be a number of requests per second between %v and %v", text, minRate,
			int64(maxRate))
	}
	return r, nil
}

// span is a range of lengths in bytes.
type span struct{ least, most int64 }

// wrong says that a body's length is out of the range.
func (s span) wrong(body int64) error {
	if s.most == maxBody {
		return fmt.Errorf("the body has %s, and length= asks for at least %d", unit.Plural(body, "byte"), s.least)
	}
	return fmt.Errorf("the body has %s or more, and length= asks for %d to %d", unit.Plural(body, "byte"), s.least,
		s.most)
}

// parseSpan reads MIN-MAX, MIN- or N.
func parseSpan(text string) (span, error) {
	all := span{0, maxBody}
	if text == "" {
		return all, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	var err, err2 error
	all.least, err = strconv.ParseInt(low, 10, 64)
	switch {
	case !isRange:
		all.most = all.least
	case high != "":
		all.most, err2 = strconv.ParseInt(high, 10, 64)
	}
	if errors.Join(err, err2) != nil || all.least < 0 || all.most < all.least || all.most > maxBody {
		return all, fmt.Errorf("length=%s: must be a number of bytes, MIN-MAX or MIN-", text)
	}
	return all, nil
}
