package agent

import (
	"slices"
	"testing"

	"tare/internal/sys/proc"
)

func TestBothWaysFindTheChildren(t *testing.T) {
	child, err := proc.Start(proc.Command(t.Context(), "sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	for name, list := range map[string]func() []int{"children": children, "childrenByParent": childrenByParent} {
		if pids := list(); !slices.Contains(pids, child.Pid()) || slices.Contains(pids, 1) {
			t.Errorf("%s gives %v, and not %d alone", name, pids, child.Pid())
		}
	}
	if err := child.Kill(); err != nil {
		t.Error(err)
	}
	<-child.Done()
	if pids := children(); slices.Contains(pids, child.Pid()) {
		t.Errorf("a process that was collected is still among %v", pids)
	}
}
