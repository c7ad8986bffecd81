package fileops

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxRequest bounds the JSON of a request: its data, its names, both in base64, and the rest.
const maxRequest = 2*MaxData + 16<<10

// Decode reads a request from JSON and checks it. The result is always safe to carry out.
func Decode(b []byte) (r Request, err error) {
	if len(b) > maxRequest {
		return r, fmt.Errorf("read request: %d bytes are above the limit of %d", len(b), maxRequest)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return Request{}, fmt.Errorf("read request: %w", err)
	}
	if err := r.Check(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// Check returns what is wrong with a request: an unknown operation, a name outside of the directory, a number beyond
// the limits.
func (r *Request) Check() error {
	switch {
	case operations[r.Op].do == nil && r.Op != Begin && r.Op != Join && r.Op != End:
		return fmt.Errorf("read request: unknown operation %q", clip(string(r.Op)))
	case len(r.Root) > maxRoot:
		return fmt.Errorf("%s: a root of %d bytes is longer than %d", r.Op, len(r.Root), maxRoot)
	case r.Size < 0 || r.Offset < 0 || r.Offset > MaxOffset || r.Size > MaxOffset:
		return fmt.Errorf("%s: %d bytes at %d are outside 0 to %d", r.Op, r.Size, r.Offset, int64(MaxOffset))
	case len(r.Data) > MaxData:
		return fmt.Errorf("%s: %d bytes of data are above the limit of %d", r.Op, len(r.Data), MaxData)
	case r.Size > MaxData && r.Op != Truncate && r.Op != Wait:
		return fmt.Errorf("%s: %d bytes are above the limit of %d", r.Op, r.Size, MaxData)
	case r.Count < 0 || r.Count > MaxCount || r.Threads < 0 || r.Threads > MaxThreads:
		return fmt.Errorf("%s: %d files or %d threads are outside 0 to %d and %d", r.Op, r.Count, r.Threads, MaxCount,
			MaxThreads)
	case r.TimeoutNS < 0 || r.TimeoutNS > MaxTime:
		return fmt.Errorf("%s: a time of %d ns is outside 0 to %d", r.Op, r.TimeoutNS, int64(MaxTime))
	case r.Flags&^allFlags != 0:
		return fmt.Errorf("%s: unknown flags %#x", r.Op, uint(r.Flags))
	case r.Mode > 0o777:
		return fmt.Errorf("%s: mode %#o is above 0777", r.Op, r.Mode)
	}
	return r.checkNames()
}

func (r *Request) checkNames() error {
	o := operations[r.Op]
	if o.name || r.Op == Join || len(r.Name) > 0 {
		if err := checkName(r.Name); err != nil {
			return fmt.Errorf("%s: %w", r.Op, err)
		}
	}
	if o.to {
		if err := checkName(r.To); err != nil {
			return fmt.Errorf("%s: %w", r.Op, err)
		}
	}
	// The target of a link and the name of an attribute are not paths, and are not looked up here.
	if len(r.To) > maxName || bytes.IndexByte(r.To, 0) >= 0 {
		return fmt.Errorf("%s: %d bytes are not a valid text for a link or an attribute", r.Op, len(r.To))
	}
	return nil
}

// checkName accepts a path of at most maxDepth plain names, or "." for the directory itself.
func checkName(name []byte) error {
	if len(name) == 0 || len(name) > maxName {
		return fmt.Errorf("a name of %d bytes is outside 1 to %d", len(name), maxName)
	}
	if string(name) == "." {
		return nil
	}
	parts := bytes.Split(name, []byte("/"))
	if len(parts) > maxDepth {
		return fmt.Errorf("name %q is more than %d deep", clip(string(name)), maxDepth)
	}
	for _, p := range parts {
		if len(p) == 0 || string(p) == "." || string(p) == ".." || bytes.IndexByte(p, 0) >= 0 {
			return fmt.Errorf("name %q is not a plain path below the directory", clip(string(name)))
		}
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 80)] }
