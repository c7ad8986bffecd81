package thread

import (
	"runtime"
	"testing"
)

func TestRoom(t *testing.T) {
	have := runtime.GOMAXPROCS(0)
	Room(have - 1)()
	if n := runtime.GOMAXPROCS(0); n != have {
		t.Errorf("there was room, and yet it is made: %d, had %d", n, have)
	}
	undo := Room(have + 2)
	if n := runtime.GOMAXPROCS(0); n != have+3 {
		t.Errorf("%d, want %d", n, have+3)
	}
	undo()
	if n := runtime.GOMAXPROCS(0); n != have {
		t.Errorf("undone it is %d, was %d", n, have)
	}
}
