package folder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/env"
)

func TestDirectoriesThatAreNotThereAreTold(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := Given([]env.Spec{{Name: "a", Driver: Dir, Arg: dir}, {Name: "b", Driver: Dir, Arg: file},
		{Name: "c", Driver: Dir, Arg: "x"}, {Name: "d", Driver: Dir, Arg: dir + "/no"}}, "host", true)
	if m := got[0]; m.Err != nil || m.Mount.Dir != dir || m.Mount.HostDir != dir {
		t.Errorf("%+v", m)
	}
	for i, want := range map[int]string{1: "not a directory", 2: "not an absolute path", 3: "no such file"} {
		if x, ok := errors.AsType[*env.OpenError](got[i].Err); !ok || x.Env != "host:"+got[i].Name ||
			!strings.Contains(x.Error(), want) || x.Remedy == "" {
			t.Errorf("%s: %v, want %q", got[i].Mount.Dir, got[i].Err, want)
		}
	}
	there := Given([]env.Spec{{Name: "a", Driver: Dir, Arg: "/srv/only there"},
		{Name: "w", Driver: Dir, Arg: `D:\data`}, {Name: "r", Driver: Dir, Arg: "data"}}, "lab", false)
	if there[0].Err != nil || there[1].Err != nil || there[0].Mount.HostDir != "" || there[2].Err == nil {
		t.Errorf("%+v", there)
	}
}
