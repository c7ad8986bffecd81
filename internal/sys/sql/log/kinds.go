package log

import "tare/internal/sys/sql/lex"

// statementCache remembers the analysis of statements that are the same but for their literals: logs have few kinds of
// statements, many times each.
type statementCache struct {
	of   map[string]*cachedStatement // by lex.Skeleton
	key  []byte
	once cachedStatement // of a statement that is not remembered
}

type cachedStatement struct {
	verdict lex.Verdict
	group   *Group // of a summary; nil until it is known
}

// The memory for kinds is bounded by their number and the size of a skeleton in bytes.
const (
	maxKinds    = 4096
	maxSkeleton = 1 << 10
)

// get returns the kind of the statement of an event. It is valid until the next call.
func (k *statementCache) get(e *Event, o lex.Options) *cachedStatement {
	key, whole := e.skeleton, e.skeleton != nil && o == (lex.Options{})
	if !whole {
		key, whole = lex.Skeleton(k.key[:0], e.Text, o, maxSkeleton)
		k.key = key
	}
	if !whole {
		k.once = cachedStatement{verdict: lex.Classify(e.Text, o)}
		return &k.once
	}
	found := k.of[string(key)]
	if found == nil {
		if k.of == nil || len(k.of) >= maxKinds {
			k.of = map[string]*cachedStatement{}
		}
		found = &cachedStatement{verdict: lex.Classify(e.Text, o)}
		k.of[string(key)] = found
	}
	return found
}
