package durability

import (
	"cmp"
	"fmt"
	"slices"

	"tare/internal/measure/workload/durability"
)

// How an acknowledged record can be missing.
const (
	Lost       = "lost"        // its place is blank, or its file is not there
	Torn       = "torn"        // part of it is there
	RolledBack = "rolled back" // its place has an older record
)

// Loss is an acknowledged record that was not there afterwards.
type Loss struct {
	Class  string `json:"class"`
	Seq    uint64 `json:"seq"`
	File   uint32 `json:"file"`
	Offset uint64 `json:"offset"`
	How    string `json:"how"`
	// Reordered says that a later record of the class was there.
	Reordered bool `json:"reordered,omitempty"`
	// Promised says that POSIX promises the record to be there.
	Promised bool `json:"promised"`
}

func (l *Loss) String() string {
	s := fmt.Sprintf("%s record %d (file %d, offset %d) was acknowledged and is %s", l.Class, l.Seq, l.File, l.Offset,
		l.How)
	if l.Reordered {
		s += ", while a later one is there"
	}
	return s
}

type place struct {
	class  durability.Class
	file   uint32
	offset uint64
}

// Judge holds what was found after a cut against what had been acknowledged before it. It is a pure function. What was
// found and never acknowledged may be there, or not, or in part: nobody was promised anything.
func Judge(acknowledged, found []durability.Record) []Loss {
	at := map[place]durability.Record{}
	latest := map[durability.Class]uint64{} // the last that is there and whole
	for _, r := range found {
		at[place{r.Class, r.File, r.Offset}] = r
		if r.Whole {
			latest[r.Class] = max(latest[r.Class], r.Seq)
		}
	}
	// A file that is replaced answers for the last record that was to be in it.
	last := map[place]uint64{}
	for _, r := range acknowledged {
		p := place{r.Class, r.File, r.Offset}
		last[p] = max(last[p], r.Seq)
	}
	losses := []Loss{}
	for _, r := range acknowledged {
		p := place{r.Class, r.File, r.Offset}
		if r.Seq < last[p] {
			continue
		}
		how := missing(&r, at, p)
		if how == "" {
			continue
		}
		losses = append(losses, Loss{
			Class: r.Class.String(), Seq: r.Seq, File: r.File, Offset: r.Offset, How: how,
			Reordered: latest[r.Class] > r.Seq, Promised: r.Class.Promised(),
		})
	}
	slices.SortStableFunc(losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Seq, b.Seq))
	})
	return losses
}

// missing says how a record is missing, "" when it is there. A newer record in its place was put there by a replacement
// that was not acknowledged any more.
func missing(r *durability.Record, at map[place]durability.Record, p place) string {
	got, there := at[p]
	switch {
	case !there:
		return Lost
	case !got.Whole:
		return Torn
	case got.Seq == r.Seq && got.Hash == r.Hash && got.Length == r.Length:
		return ""
	case got.Seq > r.Seq && r.Class == durability.Rename:
		return ""
	case got.Seq < r.Seq:
		return RolledBack
	}
	return Torn
}
