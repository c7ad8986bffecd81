package leftover

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// noteFolder is where notes are kept below the user's cache folder. There is one file for each place outside the
// temporary directories in which a run makes something. Without it, `tare clean` would not search there after a run was
// killed.
const noteFolder = "tare/places"

// Note records that this run is about to make something in place. rooms says that agents make their own directories
// there, tare-RUNID-RANDOM, which have no owner file. forget removes the note. If no note can be written, the run goes
// on without one.
func Note(place, runID string, rooms bool) (forget func()) {
	nothing := func() {}
	folder, err := notes()
	if err != nil || CheckRunID(runID) != nil || os.MkdirAll(folder, 0o700) != nil {
		return nothing
	}
	if place, err = filepath.Abs(place); err != nil {
		return nothing
	}
	self, err := Self()
	if err != nil {
		return nothing
	}
	f, err := os.CreateTemp(folder, runID+"-*")
	if err != nil {
		return nothing
	}
	what := "directories"
	if rooms {
		what = "rooms"
	}
	_, err = f.WriteString(self.String() + "\n" + runID + "\n" + what + "\n" + strconv.Quote(place) + "\n" +
		self.Where + "\n") // tare up to 0.2.0 leaves a note with a fifth line alone
	forget = func() { os.Remove(f.Name()) }
	if err = errors.Join(err, f.Close()); err != nil {
		forget()
		return nothing
	}
	return forget
}

func notes() (string, error) {
	base, err := os.UserCacheDir()
	return filepath.Join(base, filepath.FromSlash(noteFolder)), err
}

// Noted returns the places that are noted as those of runs that were killed.
func Noted() []string {
	folder, err := notes()
	if err != nil {
		return nil // without a cache folder there are no notes
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var places []string
	for _, e := range entries {
		if place, _, _, ok := readNote(filepath.Join(folder, e.Name())); ok {
			places = append(places, place)
		}
	}
	return places
}

// CleanNoted removes what killed runs left in the noted places, and then the notes; if dry, it only lists it. It
// returns a line for each directory and goes on after an error.
func CleanNoted(dry bool) (lines []string, err error) {
	folder, err := notes()
	if err != nil {
		return nil, nil // without a cache folder there are no notes
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil
	}
	var errs []error
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		place, runID, rooms, ok := readNote(name)
		if !ok {
			continue
		}
		found := Find(place)
		if rooms {
			found = append(found, roomsOf(place, runID)...)
		}
		failed := false
		for _, dir := range found {
			line := "directory " + dir
			if slices.Contains(lines, line) {
				continue
			}
			if !dry {
				if err := remove(dir); err != nil {
					errs, failed = append(errs, err), true
					continue
				}
			}
			lines = append(lines, line)
		}
		if !dry && !failed {
			errs = append(errs, os.Remove(name))
		}
	}
	return lines, errors.Join(errs...)
}

// readNote reads the note of a run whose process has ended; ok is false for all other notes.
func readNote(name string) (place, runID string, rooms, ok bool) {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || !mine(info) {
		return "", "", false, false
	}
	f, err := os.Open(name)
	if err != nil {
		return "", "", false, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) != 5 && len(lines) != 6 { // the last is empty
		return "", "", false, false
	}
	owner, err := ParseOwner(lines[0])
	if len(lines) == 6 {
		owner.Where = lines[4]
	}
	if err != nil || owner.Alive() || CheckRunID(lines[1]) != nil {
		return "", "", false, false
	}
	place, err = strconv.Unquote(lines[3])
	return place, lines[1], lines[2] == "rooms", err == nil && filepath.IsAbs(place)
}

// roomsOf returns the directories that a run's agents made in a place.
func roomsOf(place, runID string) (found []string) {
	entries, err := os.ReadDir(place)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.IsDir() && mine(info) && strings.HasPrefix(e.Name(), "tare-"+runID+"-") {
			found = append(found, filepath.Join(place, e.Name()))
		}
	}
	return found
}
