package http2

import (
	"bytes"

	"golang.org/x/net/http2/hpack"
)

// tableSize is that of the tables of fields on both sides, which is what a connection begins with.
const tableSize = 4096

// NewRequest encodes a request. What all requests of a load have in common is put into the server's table by the first
// one of a connection, and referred to by those after it. What differs is always spelled out, so that it never pushes
// anything out of the table. The requests of one session must have the same authority, and the same header but for
// those fields.
func NewRequest(method, scheme, authority, path string, header []Field, body []byte) *Request {
	all := []hpack.HeaderField{
		{Name: ":method", Value: method, Sensitive: method != "GET" && method != "POST"},
		{Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: authority},
		{Name: ":path", Value: path, Sensitive: true},
	}
	common := []int{2}
	for _, f := range header {
		differs := f.Name == "content-length" || f.Name == "content-type"
		if !differs {
			common = append(common, len(all))
		}
		all = append(all, hpack.HeaderField{Name: f.Name, Value: f.Value, Sensitive: differs})
	}
	size := uint32(0)
	for _, i := range common {
		size += all[i].Size()
	}
	if size > tableSize {
		for _, i := range common {
			all[i].Sensitive = true
		}
	}
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	encode := func() []byte {
		b.Reset()
		for _, f := range all {
			_ = e.WriteField(f) // to memory
		}
		return bytes.Clone(b.Bytes())
	}
	r := &Request{Body: body, Bodiless: method == "HEAD"}
	r.First, r.Later = encode(), encode()
	for _, i := range common {
		all[i].Sensitive = true
	}
	e = hpack.NewEncoder(&b) // it knows nothing of the table
	r.Plain = encode()
	return r
}
