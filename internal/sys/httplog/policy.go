package httplog

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strings"

	"tare/internal/sys/ledger"
)

// Policy says which requests of a log may be replayed.
type Policy struct {
	Writes bool // also requests that may change something, where the log has all of their content
	// Hosts are those whose requests count, as a log names them; all if there are none. A request without a host
	// counts.
	Hosts []string
}

// AllHosts is the user's name for the requests of all hosts.
const AllHosts = "all"

// For is the policy for a log by a choice of hosts as a user writes it, A+B, or AllHosts. Without a choice it is the
// first host of a browser's recording, which asks many sites for a page, and all of any other log.
func (p Policy) For(r *Reader, hosts string) Policy {
	switch {
	case hosts == AllHosts:
	case hosts != "":
		p.Hosts = strings.Split(hosts, "+")
	case r.format == HAR:
		r.onlyFirst = true
	}
	return p
}

// Decide returns the treatment of a request, and the reason if it is not replayed.
func (p Policy) Decide(q *Request) (part ledger.Part, reason string) {
	switch method := string(q.Method); {
	case q.Ambiguous != "":
		return ledger.Ambiguous, q.Ambiguous
	case q.Bad != "":
		return ledger.Skipped, q.Bad
	case len(p.Hosts) > 0 && len(q.Host) > 0 && !slices.ContainsFunc(p.Hosts, func(h string) bool {
		return strings.EqualFold(h, string(q.Host))
	}):
		return ledger.Skipped, whyOthers + " than " + strings.Join(p.Hosts, ", ") + " (hosts)"
	case q.other:
		return ledger.Skipped, whyOthers + " than the first request (hosts=all, or hosts=NAME+NAME)"
	case method == "CONNECT":
		return ledger.Skipped, "CONNECT: a tunnel through a proxy"
	case q.Status == 101:
		return ledger.Skipped, "it switched to another protocol, such as WebSocket"
	case method == "GET" || method == "HEAD":
		if q.Target[0] != '/' {
			return ledger.Skipped, whyTarget
		}
	case method != "POST" && method != "PUT" && method != "PATCH" && method != "DELETE":
		return ledger.Skipped, "other methods than GET, HEAD, POST, PUT, PATCH and DELETE"
	case !p.Writes:
		return ledger.Skipped, method + ": it may change something"
	case q.HasBody:
	default:
		return ledger.Skipped, method + ": the log does not have its body"
	}
	return ledger.Replayed, ""
}

// Comparable returns the status that a replay should get, 0 if it cannot be told. A log does not have the headers of a
// conditional request or of one for a part, so that a replay gets the whole page.
func Comparable(q *Request) int {
	switch s := q.Status; {
	case (s == 304 || s == 206) && !q.HasBody:
		return 200
	case s < 200, s == 408, s == 444, s == 499, s > 599: // the client had left, or there was no response
		return 0
	default:
		return s
	}
}

// Fingerprint appends the common part of requests of one kind: the method and the path, with digits and long numbers in
// hexadecimal folded, and the names in the query.
func Fingerprint(dst []byte, q *Request) []byte {
	if q.Bad != "" {
		return append(append(append(dst, '('), q.Bad...), ')')
	}
	dst = append(append(dst, q.Method...), ' ')
	path, query, has := bytes.Cut(q.Target, []byte("?"))
	for len(path) > 0 {
		n := 0
		for n < len(path) && letter(path[n]) {
			n++
		}
		dst = fold(dst, path[:n])
		if n < len(path) {
			dst = append(dst, path[n])
			n++
		}
		path = path[n:]
	}
	for i := 0; has; i++ {
		var pair []byte
		pair, query, has = bytes.Cut(query, []byte("&"))
		sep := byte('&')
		if i == 0 {
			sep = '?'
		}
		name, _, valued := bytes.Cut(pair, []byte("="))
		dst = fold(append(dst, sep), name)
		if valued {
			dst = append(dst, '=')
		}
	}
	return dst[:min(len(dst), maxText)]
}

// maxText bounds a fingerprint.
const maxText = 1 << 10

func letter(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// fold appends a word: with N for digits, or as H if it is a long number in hexadecimal.
func fold(dst, word []byte) []byte {
	digits, all := 0, len(word) >= 8
	for i := range word {
		if word[i] >= '0' && word[i] <= '9' {
			digits++
		}
		_, ok := hex(word, i)
		all = all && ok
	}
	if all && digits > 1 && digits < len(word) {
		return append(dst, 'H')
	}
	number := false
	for _, c := range word {
		is := c >= '0' && c <= '9'
		if !is {
			dst = append(dst, c)
		} else if !number {
			dst = append(dst, 'N')
		}
		number = is
	}
	return dst
}

// ID identifies a fingerprint.
func ID(fingerprint []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(fingerprint)
	return max(1, h.Sum64())
}
