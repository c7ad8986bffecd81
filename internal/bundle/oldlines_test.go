package bundle

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"tare/internal/record"
)

// TestOldLines holds that the lines that an earlier build wrote are what this one would write of the same trials.
func TestOldLines(t *testing.T) {
	f, err := os.Open("../../testdata/bundles/demo/trials.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var trial record.Trial
		var was, is map[string]any
		if err := json.Unmarshal(s.Bytes(), &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(s.Bytes(), &trial); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(&trial)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &is); err != nil {
			t.Fatal(err)
		}
		delete(was, "chain")
		if !reflect.DeepEqual(is, was) {
			t.Errorf("line %d is now\n%s\nand was\n%s", n+1, again, s.Bytes())
		}
	}
	if n != 66 {
		t.Errorf("read %d lines, want 66", n)
	}
}
