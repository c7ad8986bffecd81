package semantics

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/fileops"
)

// trials are all that is tried of a mount, in the order of the card: what it is, what it does by itself, what crosses.
func trials() []trial {
	return slices.Concat(nameTrials(), fileTrials(), flushTrials(), parallelTrials(), acrossTrials(), lagTrials())
}

func nameTrials() []trial {
	return []trial{
		{lines: []line{{"case", "names that differ by case are different"}}, run: tryCase},
		{lines: []line{{"names", "odd names are kept"}}, run: tryNames},
		{lines: []line{{"unicode", "names keep their Unicode form"}}, run: tryUnicode},
		{lines: []line{{"name-max", "longest name"}}, run: tryNameMax},
		{lines: []line{{"d-type", "listings tell files from folders (d_type)"}}, run: tryTypes},
		{lines: []line{{"symlink", "symbolic links"}}, run: trySymlink},
		{lines: []line{{"hard-link", "hard links"}}, run: tryLink},
		{lines: []line{{"exec-bit", "the executable bit is kept"}, {"exec", "programs can be run"}}, run: tryExec},
		{lines: []line{{"mtime", "times that programs set are kept to"}}, run: tryMtime},
		{lines: []line{{"xattr", "extended attributes (user.) are kept"}}, run: tryXattr},
	}
}

func tryCase(t *try) {
	t.in.put("Case-of-Names", "upper")
	_, f := t.in.ask(fileops.Request{Op: fileops.Stat, Name: []byte("case-of-names")})
	switch {
	case f == nil:
		t.check("case", false, "a file made as Case-of-Names is found as case-of-names")
	case f.Code == "ENOENT":
		t.check("case", true, "a file made as Case-of-Names is not found as case-of-names")
	default:
		t.refusal("case", neutral, f)
	}
}

// oddNames are names that programs make by accident, and archives contain on purpose.
var oddNames = []struct{ what, name string }{
	{"a newline", "line\nbreak"},
	{"bytes that are no UTF-8", "latin-\xe9\xff"},
	{"a colon, as in times", "12:30"},
	{`any of \*?"<>|`, `q\*?"<>|`},
	{"a space at the end", "space "},
	{"a dot at the end", "dot."},
	{"a character beyond 16 bits", "\U0001F40B"},
	{"the name of a device", "aux"},
}

func tryNames(t *try) {
	t.in.do(fileops.Request{Op: fileops.Mkdir, Name: []byte("odd")})
	var wrong []string
	for _, o := range oddNames {
		if _, f := t.in.ask(fileops.Request{Op: fileops.Put, Name: []byte("odd/" + o.name)}); f != nil {
			wrong = append(wrong, o.what+" is refused")
		} else if !slices.ContainsFunc(t.in.list("odd"),
			func(e fileops.Entry) bool { return string(e.Name) == o.name }) {
			wrong = append(wrong, o.what+" is listed as something else")
		}
		// By the name it was made with: where it is listed under another, nobody who goes by the listing can remove it.
		t.in.ask(fileops.Request{Op: fileops.Remove, Name: []byte("odd/" + o.name)})
	}
	switch len(wrong) {
	case 0:
		t.say("names", yes, good, "with newlines, bytes that are no UTF-8, and characters that other systems forbid")
	case len(oddNames):
		t.say("names", no, bad, "%s", strings.Join(wrong, "; "))
	default:
		t.say("names", partly, neutral, "%s", strings.Join(wrong, "; "))
	}
}

func (a *actor) list(dir string) []fileops.Entry {
	return a.do(fileops.Request{Op: fileops.List, Name: []byte(dir)}).Entries
}

func tryUnicode(t *try) {
	t.in.do(fileops.Request{Op: fileops.Mkdir, Name: []byte("unicode")})
	composed, decomposed := "caf\u00e9", "cafe\u0301"
	for _, name := range []string{composed, decomposed} {
		if _, f := t.in.ask(fileops.Request{Op: fileops.Put, Name: []byte("unicode/" + name)}); f != nil {
			t.refusal("unicode", bad, f)
			return
		}
	}
	var got []string
	for _, e := range t.in.list("unicode") {
		got = append(got, string(e.Name))
	}
	t.check("unicode", slices.Contains(got, composed) && slices.Contains(got, decomposed) && len(got) == 2,
		"of é as one character and as two, %d names are listed: %+q", len(got), got)
}

func tryNameMax(t *try) {
	fits := func(n int) bool {
		name := []byte(strings.Repeat("n", n))
		_, f := t.in.ask(fileops.Request{Op: fileops.Put, Name: name})
		if f == nil {
			t.in.do(fileops.Request{Op: fileops.Remove, Name: name})
		}
		return f == nil
	}
	// Nearly everywhere it is 255.
	longest, tooLong := 0, 1000
	for _, n := range []int{255, 256} {
		if fits(n) {
			longest = n
		} else {
			tooLong = n
			break
		}
	}
	for tooLong-longest > 1 && t.err() == nil {
		if n := (longest + tooLong) / 2; fits(n) {
			longest = n
		} else {
			tooLong = n
		}
	}
	rating := good
	if longest < 255 {
		rating = bad
	}
	t.say("name-max", fmt.Sprintf("%d bytes", longest), rating, "a name of %d letters is taken, one of %d is not",
		longest, tooLong)
}

func tryTypes(t *try) {
	t.in.do(fileops.Request{Op: fileops.Mkdir, Name: []byte("types")})
	t.in.put("types/file", "")
	t.in.do(fileops.Request{Op: fileops.Mkdir, Name: []byte("types/directory")})
	t.in.ask(fileops.Request{Op: fileops.Symlink, Name: []byte("types/link"), To: []byte("file")})
	told, entries := 0, t.in.list("types")
	for _, e := range entries {
		switch e.Type {
		case string(e.Name):
			told++
		case "untold":
			t.say("d-type", untested, neutral, "%v", fileops.ErrUnsupported)
			return
		}
	}
	switch {
	case told == len(entries) && told > 0:
		t.say("d-type", yes, good, "the types of all %d entries came with the listing", told)
	case told == 0:
		t.say("d-type", no, bad, "no type came with the listing of %d entries: programs that walk a tree must "+
			"request the status of every file", len(entries))
	default:
		t.say("d-type", partly, bad, "the types of %d of %d entries came with the listing", told, len(entries))
	}
}

func trySymlink(t *try) {
	t.in.put("target", "of a link")
	if _, f := t.in.ask(fileops.Request{Op: fileops.Symlink, Name: []byte("symbolic"),
		To: []byte("target")}); f != nil {
		t.refusal("symlink", bad, f)
		return
	}
	to := t.in.do(fileops.Request{Op: fileops.Readlink, Name: []byte("symbolic")}).Data
	through := t.in.get("symbolic")
	if string(to) != "target" || through != "of a link" {
		t.say("symlink", no, bad, "a link to %q reads as %q", "target", to)
		return
	}
	if t.out != nil {
		// Servers keep links that they dare not make as plain files.
		if to, f := t.out.ask(fileops.Request{Op: fileops.Readlink, Name: []byte("symbolic")}); t.out.err == nil &&
			(f != nil || string(to.Data) != "target") {
			t.say("symlink", partly, bad, "it is a link inside, but not on the host")
			return
		}
		t.out.err = nil
	}
	t.say("symlink", yes, good, "a link was made, read and followed")
}

func tryLink(t *try) {
	t.in.put("linked", "1")
	if _, f := t.in.ask(fileops.Request{Op: fileops.Link, Name: []byte("linked"), To: []byte("linked-too")}); f != nil {
		t.refusal("hard-link", bad, f)
		return
	}
	a, b := t.in.stat("linked"), t.in.stat("linked-too")
	same := t.in.get("linked-too") == "1"
	switch {
	case !same:
		t.say("hard-link", no, bad, "the second name does not hold what the first does")
	case a.Ino != b.Ino:
		t.say("hard-link", partly, neutral,
			"both names work, with different inode numbers: programs treat them as two files")
	case a.Nlink == 0 && a.Ino == 0:
		t.say("hard-link", yes, good, "both names work; inode numbers are not reported")
	default:
		t.say("hard-link", yes, good, "both names have inode %d and %d links", a.Ino, a.Nlink)
	}
}

func tryExec(t *try) {
	t.in.put("program", "#!/bin/sh\n")
	t.in.do(fileops.Request{Op: fileops.Chmod, Name: []byte("program"), Mode: 0o644})
	plain := t.in.stat("program").Mode
	if _, f := t.in.ask(fileops.Request{Op: fileops.Chmod, Name: []byte("program"), Mode: 0o755}); f != nil {
		t.refusal("exec-bit", bad, f)
	} else {
		set := t.in.stat("program").Mode
		t.check("exec-bit", plain&0o111 == 0 && set&0o111 != 0,
			"after chmod 0644 the mode is %#o, after chmod 0755 it is %#o", plain.Perm(), set.Perm())
	}
	if _, f := t.in.ask(fileops.Request{Op: fileops.Access, Name: []byte("program")}); f != nil {
		t.refusal("exec", bad, f)
	} else {
		t.say("exec", yes, good, "access(2) allows a file of mode 0755 to be executed")
	}
}

func tryMtime(t *try) {
	// An odd second, because FAT counts in twos.
	const set = 1234567891123456789
	t.in.put("time", "")
	written := t.in.stat("time").MtimeNS
	if _, f := t.in.ask(fileops.Request{Op: fileops.Times, Name: []byte("time"), TimeNS: set}); f != nil {
		t.refusal("mtime", bad, f)
		return
	}
	got := t.in.stat("time").MtimeNS
	for _, step := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second,
		2 * time.Second} {
		// Rounded down or to the nearest.
		if s := int64(step); got == set/s*s || got == (set+s/2)/s*s {
			rating := good
			if step >= time.Second {
				rating = bad
			}
			t.sayTime("mtime", step, step.String(), rating,
				"a time set to .%09d s reads as .%09d s; a file just written has .%09d s", int64(set)%1e9, got%1e9,
				written%1e9)
			return
		}
	}
	t.say("mtime", no, bad, "a time set to %d ns reads as %d ns", int64(set), got)
}

func tryXattr(t *try) {
	h := t.in.open("attributes", fileops.ForWriting|fileops.Create)
	attribute := fileops.Request{Op: fileops.SetXattr, Handle: h, To: []byte("user.tare"), Data: []byte("value")}
	if _, f := t.in.ask(attribute); f != nil {
		t.refusal("xattr", neutral, f)
		return
	}
	attribute.Op = fileops.GetXattr
	got := t.in.do(attribute).Data
	t.check("xattr", string(got) == "value", "user.tare was set to %q and reads %q", "value", got)
}
