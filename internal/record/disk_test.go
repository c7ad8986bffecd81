package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestDiskMap(t *testing.T) {
	const k = 64 << 10
	m := NewDiskMap(2*k+k/2, k, []DiskCell{{Data: k, Breaks: 2, Host: 1 << 20}, {Zero: k / 2, Host: -1},
		{Data: 1, Inherited: 1, Host: 0}})
	want := &DiskMap{Bytes: 2*k + k/2, Cell: k, Data: []int{1000, 0, 1}, Zero: []int{0, 500, 0},
		Inherited: []int{0, 0, 1}, Breaks: []int{2, 0, 0}, Place: []int64{1 << 20, -1, 0}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]*DiskMap{
		"no size":     NewDiskMap(0, k, []DiskCell{{}}),
		"no pieces":   NewDiskMap(k, k, nil),
		"too few":     NewDiskMap(3*k, k, make([]DiskCell, 2)),
		"no piece":    NewDiskMap(k, 0, make([]DiskCell, 1)),
		"one too few": NewDiskMap(2*k+1, k, make([]DiskCell, 2)),
	} {
		if bad != nil {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

func TestLargeDiskMap(t *testing.T) {
	pieces := make([]DiskCell, 2*MostDiskCells+1)
	for i := range pieces {
		pieces[i] = DiskCell{Data: 512, Breaks: 1, Host: int64(i)}
	}
	m := NewDiskMap(int64(len(pieces))*1024, 1024, pieces)
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if m.Cell != 3072 || len(m.Data) != (len(pieces)+2)/3 || m.Data[0] != 500 || m.Breaks[0] != 3 || m.Place[1] != 3 {
		t.Errorf("cell %d, %d cells, %d thousandths, %d breaks, second at %d", m.Cell, len(m.Data), m.Data[0],
			m.Breaks[0], m.Place[1])
	}
	if b, err := json.Marshal(m); err != nil || len(b) > 128<<10 {
		t.Errorf("%d bytes of JSON (%v)", len(b), err)
	}
}

func TestDiskMapFromABundle(t *testing.T) {
	for want, m := range map[string]DiskMap{
		"cells of 0":      {Bytes: 1},
		"do not make 1":   {Bytes: 1 << 40, Cell: 1},
		"2 values of dat": {Bytes: 3, Cell: 1, Data: []int{1, 2}},
		"zero is 1001":    {Bytes: 1, Cell: 1, Zero: []int{1001}},
		"breaks is -1":    {Bytes: 1, Cell: 1, Breaks: []int{-1}},
		"1 places":        {Bytes: 2, Cell: 1, Place: []int64{7}},
	} {
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}
