package httplog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"tare/internal/sys/ledger"
)

// har reads HAR 1.2: one object, whose log.entries are the requests of a browser. It takes the file apart by its
// brackets and strings, so that no more than one entry is in memory.
type har struct {
	depth   int
	text    bool // in a string
	escaped bool
	keys    [2]string // of the objects around: "log", "entries"
	key     []byte    // the string that is being read, at a depth that matters
	inList  bool      // among the entries
	entry   []byte    // that is being read
	n       int64     // bytes of it
	begun   bool
	target  []byte
}

// isHAR tells whether a text begins like a HAR: with an object in "log".
func isHAR(b []byte) bool {
	for _, want := range []string{"{", `"log"`, ":", "{"} {
		b = bytes.TrimLeft(b, " \t\r\n")
		var ok bool
		if b, ok = bytes.CutPrefix(b, []byte(want)); !ok {
			return false
		}
	}
	return true
}

func (h *har) next(r *Reader, q *Request) (bool, error) {
	around := int64(0)
	defer func() {
		if around > 0 {
			r.account.Add(ledger.Skipped, whyAround, 0, around)
		}
	}()
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			if h.begun {
				r.account.Add(ledger.Lost, whyCut, 1, h.n)
			}
			*h = har{entry: h.entry[:0]} // for the next part
			return false, err
		}
		inside := h.begun
		ended := h.step(c)
		if !inside && !h.begun {
			around++
			continue
		}
		if h.n++; h.n <= int64(r.o.MaxRecord) {
			h.entry = append(h.entry, c)
		}
		if !ended {
			continue
		}
		n := h.n
		h.begun, h.n = false, 0
		if n > int64(r.o.MaxRecord) {
			h.entry = nil
			r.account.Add(ledger.Lost, whyTooLong, 1, n)
			return false, nil
		}
		q.Length = n
		ok := h.fill(q)
		h.entry = h.entry[:0]
		if !ok {
			r.account.Add(ledger.Lost, whyBadJSON, 1, n)
		}
		return ok, nil
	}
}

// step takes a byte. It tells whether that ends an entry, and sets begun where one begins.
func (h *har) step(c byte) (ended bool) {
	matters := h.depth <= 2 && !h.inList
	if h.text {
		switch {
		case h.escaped:
			h.escaped = false
		case c == '\\':
			h.escaped = true
		case c == '"':
			h.text = false
		case matters && len(h.key) < 16:
			h.key = append(h.key, c)
		}
		return false
	}
	switch c {
	case '"':
		h.text, h.key = true, h.key[:0]
	case ':':
		if matters && h.depth > 0 {
			h.keys[h.depth-1] = string(h.key)
		}
	case '{', '[':
		h.depth++
		switch {
		case c == '[' && h.depth == 3 && h.keys == [2]string{"log", "entries"}:
			h.inList = true
		case c == '{' && h.depth == 4 && h.inList:
			h.begun = true
		}
	case '}', ']':
		h.depth = max(0, h.depth-1)
		if h.inList && h.depth == 2 {
			h.inList = false
		}
		return h.begun && h.depth == 3
	}
	return false
}

// harEntry has the fields of an entry that matter.
type harEntry struct {
	Started    string  `json:"startedDateTime"`
	Time       float64 `json:"time"` // ms
	Connection string  `json:"connection"`
	FromCache  string  `json:"_fromCache"` // Chrome's: memory, disk
	FetchType  string  `json:"_fetchType"` // Safari's: Memory Cache, Disk Cache, Network Load
	Request    struct {
		Method  string    `json:"method"`
		URL     string    `json:"url"`
		Headers []harPair `json:"headers"`
		Post    *struct {
			Type   string    `json:"mimeType"`
			Text   *string   `json:"text"`
			Code   string    `json:"encoding"` // base64, or empty
			Own    string    `json:"_encoding"`
			Params []harPair `json:"params"`
		} `json:"postData"`
	} `json:"request"`
	Response struct {
		Status  *int  `json:"status"`
		Size    int64 `json:"bodySize"`
		Content struct {
			Size int64 `json:"size"`
		} `json:"content"`
	} `json:"response"`
}

type harPair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	File  string `json:"fileName"`
}

// fill makes a request of an entry.
func (h *har) fill(q *Request) bool {
	var e harEntry
	if json.Unmarshal(h.entry, &e) != nil {
		return false
	}
	q.Time, q.Precision = instant(e.Started, time.UTC)
	if e.Response.Status != nil {
		q.Status = max(0, min(*e.Response.Status, 999))
	}
	if q.Bytes = e.Response.Content.Size; e.Response.Size > 0 {
		q.Bytes = e.Response.Size
	}
	if e.Time >= 0 && e.Time < 1e12 {
		q.Duration = int64(e.Time * 1000)
	}
	if e.Connection != "" {
		q.Client = []byte("connection " + e.Connection)
	}
	u, err := url.Parse(e.Request.URL)
	switch {
	case err == nil && (u.Scheme == "ws" || u.Scheme == "wss"):
		q.Bad = whySocket
		return true
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		q.Bad = whyNoServer
		return true
	case e.FromCache != "" || strings.Contains(e.FetchType, "Cache"):
		q.Bad = whyFromCache
	case q.Status == 0 && e.Response.Status != nil:
		q.Bad = whyUnsent
	}
	unsent := q.Bad
	q.Host = hostOf([]byte(u.Hostname()), []byte(u.Port()))
	if strings.Contains(u.Hostname(), ":") {
		q.Host = []byte(u.Host)
	}
	q.Method = []byte(e.Request.Method)
	if !isMethod(q.Method) {
		q.Bad = whyGarbage
		return true
	}
	h.target = append(h.target[:0], u.RequestURI()...)
	if q.aim(h.target); unsent != "" {
		q.Bad = unsent
	}
	for _, p := range e.Request.Headers {
		switch name := strings.ToLower(p.Name); {
		case name == "user-agent":
			q.Agent = []byte(p.Value)
		case name == "referer":
			q.Referer = []byte(p.Value)
		case carried(name):
			q.Headers = append(q.Headers, []byte(p.Name+": "+p.Value))
		}
	}
	if p := e.Request.Post; p != nil {
		q.Body, q.HasBody = body(p.Type, p.Text, p.Params)
		if q.HasBody && (p.Code == "base64" || p.Own == "base64") {
			raw, err := base64.StdEncoding.DecodeString(string(q.Body))
			q.Body, q.HasBody = raw, err == nil
		}
	} else {
		q.HasBody = true // there was none
	}
	return true
}

// carried tells whether a header of a recorded request is one of a replay: none that belongs to a connection or to a
// login, and not that the body may be compressed, since bodies are compared.
func carried(name string) bool {
	switch name {
	case "host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "te", "trailer",
		"keep-alive", "accept-encoding", "cookie", "authorization", "upgrade-insecure-requests":
		return false
	}
	return name != "" && name[0] != ':' && !strings.HasPrefix(name, "proxy-") && !strings.HasPrefix(name, "sec-")
}

// body is the body of a POST, where the file has it.
func body(kind string, text *string, params []harPair) ([]byte, bool) {
	if text != nil && (*text != "" || len(params) == 0) {
		return []byte(*text), true
	}
	if !strings.HasPrefix(kind, "application/x-www-form-urlencoded") {
		return nil, false
	}
	var b strings.Builder
	for i, p := range params {
		if p.File != "" {
			return nil, false
		}
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value))
	}
	return []byte(b.String()), true
}
