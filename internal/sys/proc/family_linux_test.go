package proc

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// TestFamily starts a shell that starts a program, both of which are of this process's family.
func TestFamily(t *testing.T) {
	cmd := Command(context.Background(), "sh", "-c", "sleep 1000 & wait")
	s, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var names []string
	for end := time.Now().Add(patience); !slices.Contains(names, "sleep"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the family has %v", names)
		}
		names = nil
		for _, pid := range Family(s.Pid()) {
			names = append(names, Name(pid))
		}
	}
	if len(names) != 2 || names[0] != "sh" {
		t.Errorf("the family has %v", names)
	}
	if mine := Family(os.Getpid()); len(mine) < 3 || mine[0] != os.Getpid() {
		t.Errorf("the family of this process is %v", mine)
	}
	if is := Parent(s.Pid()); is != os.Getpid() {
		t.Errorf("the parent of the shell is %d, want %d", is, os.Getpid())
	}
	if is := Parent(1 << 30); is != 0 {
		t.Errorf("a process that there is not has the parent %d", is)
	}
	if is := Name(1 << 30); is != "" {
		t.Errorf("a process that there is not is called %s", is)
	}
}
