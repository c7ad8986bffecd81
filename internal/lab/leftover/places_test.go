package leftover

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// The owner in the note distinguishes a killed run from a living one.
func TestPlacesThatWereNotedAreCleaned(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	place := t.TempDir()
	dir, release, err := New(place, "r1")
	if err != nil {
		t.Fatal(err)
	}
	forget := Note(place, "r1", true)
	room, alien := filepath.Join(place, "tare-r1-123"), filepath.Join(place, "tare-r2-123")
	for _, d := range []string{room, alien} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := notes()
	if err != nil {
		t.Fatal(err)
	}
	written := func() []string {
		list, _ := filepath.Glob(filepath.Join(folder, "*"))
		return list
	}
	if lines, err := CleanNoted(false); err != nil || len(lines) != 0 || len(written()) != 2 {
		t.Fatalf("of a living run: %q, %v, notes %q", lines, err, written())
	}
	if places := Noted(); len(places) > 0 {
		t.Errorf("of a living run: %q", places)
	}
	// The run dies: another boot, or another process with that id.
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if self.Start == "" && runtime.GOOS == "linux" {
		t.Fatal("it is not known when this process began")
	} else if self.Start == "" {
		t.Skip("this platform does not tell when a process began")
	}
	dead := Owner{PID: self.PID, Start: "0" + self.Start}.String() + "\n"
	for _, n := range written() {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n, append([]byte(dead), b[len(self.String())+1:]...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(dead), 0o600); err != nil {
		t.Fatal(err)
	}
	if places := Noted(); !slices.Equal(places, []string{place, place}) {
		t.Errorf("noted are %q, want %s twice", places, place)
	}
	want := []string{"directory " + dir, "directory " + room}
	for _, dry := range []bool{true, false} {
		lines, err := CleanNoted(dry)
		slices.Sort(want)
		if slices.Sort(lines); err != nil || !slices.Equal(lines, want) {
			t.Errorf("dry %v: %q, %v, want %q", dry, lines, err, want)
		}
	}
	for name, there := range map[string]bool{dir: false, room: false, alien: true} {
		if _, err := os.Lstat(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := written(); len(n) != 0 {
		t.Errorf("notes are left: %q", n)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	forget()
}
