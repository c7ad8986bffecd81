package semantics

import (
	"fmt"
	"time"

	"tare/internal/measure/fileops"
)

func acrossTrials() []trial {
	return []trial{
		{lines: []line{{"close-to-open", "opening inside reads what the host had closed"},
			{"close-to-open-host", "opening on the host reads what inside had closed"}}, across: true,
			run: tryCloseToOpen},
		{lines: []line{{"flock-across", "flock excludes between host and inside"},
			{"fcntl-across", "fcntl locks exclude between host and inside"}}, across: true, run: tryLocksAcross},
		{lines: []line{{"o-excl-across", "O_EXCL lets one of host and inside win"}}, across: true, run: tryClaims},
		{lines: []line{{"rename-across", "a file open inside outlives its replacement by the host"}}, across: true,
			run: tryReplaced},
		{lines: []line{{"mmap-to-host", "writes into a map inside reach the host"},
			{"mmap-from-host", "a map inside shows what the host writes"}}, across: true, run: tryMapAcross},
		{lines: []line{{"inotify-from-host", "change events inside for changes on the host"},
			{"inotify-to-host", "change events on the host for changes inside"}}, across: true, run: tryEventsAcross},
	}
}

// reopenings is how often each side overwrites what the other has just read.
const reopenings = 5

func tryCloseToOpen(t *try) {
	for _, d := range []struct {
		line           string
		writer, reader *actor
	}{{"close-to-open", t.out, t.in}, {"close-to-open-host", t.in, t.out}} {
		fresh := 0
		name := d.line
		d.writer.put(name, "version 0")
		t.settle(d.reader, name)
		for i := range reopenings {
			d.reader.get(name) // so that it has something old to offer
			t.pause(tick)
			want := fmt.Sprintf("version %d", i+1) // of the same length, so that only the time tells
			d.writer.put(name, want)
			if d.reader.get(name) == want {
				fresh++
			}
		}
		const what = "%d of %d opens right after the other side's close read the new content, of the same size as " +
			"the old"
		switch fresh {
		case reopenings:
			t.say(d.line, yes, good, what, fresh, reopenings)
		case 0:
			t.say(d.line, no, bad, what, fresh, reopenings)
		default:
			t.say(d.line, partly, bad, what, fresh, reopenings)
		}
	}
}

// settle waits until a side sees a file that the other made.
func (t *try) settle(a *actor, name string) {
	a.do(fileops.Request{Op: fileops.Wait, Name: []byte(name), Until: fileops.UntilThere,
		TimeoutNS: int64(2 * time.Second)})
}

func tryLocksAcross(t *try) {
	for _, l := range locks {
		name := "across-" + l.kind
		t.in.put(name, "x")
		t.settle(t.out, name)
		in, out := t.in.open(name, fileops.ForWriting), t.out.open(name, fileops.ForWriting)
		excluded, detail := 0, ""
		for _, d := range []struct {
			what          string
			first, second *actor
			has, wants    int
		}{{"inside holds it, the host", t.in, t.out, in, out}, {"the host holds it, inside", t.out, t.in, out, in}} {
			if _, f := d.first.ask(fileops.Request{Op: fileops.Lock, Handle: d.has, Kind: l.kind}); f != nil {
				t.refusal(l.across, bad, f)
				break
			}
			_, f := d.second.ask(fileops.Request{Op: fileops.Lock, Handle: d.wants, Kind: l.kind})
			if held(f) {
				excluded++
			} else if f == nil {
				d.second.do(fileops.Request{Op: fileops.Unlock, Handle: d.wants, Kind: l.kind})
			}
			detail += "while " + d.what + " " + granted(f) + "; "
			d.first.do(fileops.Request{Op: fileops.Unlock, Handle: d.has, Kind: l.kind})
		}
		if t.said[l.across] {
			continue
		}
		switch excluded {
		case 2:
			t.say(l.across, yes, good, "%s", detail[:max(0, len(detail)-2)])
		case 1:
			t.say(l.across, partly, bad, "%s", detail[:max(0, len(detail)-2)])
		default:
			t.say(l.across, no, bad, "%s", detail[:max(0, len(detail)-2)])
		}
	}
}

// claims is how many names both sides try to make at the same time.
const claims = 100

func tryClaims(t *try) {
	r := fileops.Request{Op: fileops.Claim, Name: []byte("claim"), Count: claims}
	p := t.in.start(r)
	t.settle(t.out, "claim-0") // inside is at it: the host's calls are quick, and overtake it
	host := t.out.do(r)
	inside, _ := t.in.await(p)
	won := host.Count + inside.Count
	t.check("o-excl-across", won == claims,
		"of %d names that both sides made at the same time, the host was first with %d and inside with %d", claims,
		host.Count, inside.Count)
}

func tryReplaced(t *try) {
	t.in.put("across-old", "old")
	t.settle(t.out, "across-old")
	h := t.in.open("across-old", 0)
	t.out.put("across-new", "new")
	t.out.do(fileops.Request{Op: fileops.Rename, Name: []byte("across-new"), To: []byte("across-old")})
	if t.err() != nil {
		return
	}
	got, f := t.in.ask(fileops.Request{Op: fileops.Read, Handle: h, Size: 16})
	if f != nil {
		t.say("rename-across", no, bad, "reading it on fails: %s", f.Message)
		return
	}
	t.check("rename-across", string(got.Data) == "old", "it reads %q on", got.Data)
}

// mapTime is how long a change by way of memory has to show. Coherent maps show it at once, so longer is a no.
const mapTime = time.Second

func tryMapAcross(t *try) {
	handle, m, f := t.in.mapped("across-map")
	if f != nil {
		t.refusal("mmap-to-host", bad, f)
		t.refusal("mmap-from-host", bad, f)
		return
	}
	t.in.do(fileops.Request{Op: fileops.Poke, Handle: m, Data: []byte("from inside"), Sync: true})
	t.settle(t.out, "across-map")
	there := t.out.do(fileops.Request{Op: fileops.Wait, Name: []byte("across-map"), Until: fileops.UntilData,
		Data: []byte("from inside"), TimeoutNS: int64(mapTime)})
	t.check("mmap-to-host", there.Seen, "after msync the host %s", saw(there.Seen))
	// In place: a file that is replaced is another one.
	h := t.out.open("across-map", fileops.ForWriting)
	t.out.do(fileops.Request{Op: fileops.Write, Handle: h, Data: []byte("from the host")})
	here := t.in.do(fileops.Request{Op: fileops.Wait, Handle: m, Until: fileops.UntilMapData,
		Data: []byte("from the host"), TimeoutNS: int64(mapTime)})
	if here.Seen || t.err() != nil {
		t.check("mmap-from-host", here.Seen, "the host wrote into the file, and the map %s", saw(true))
		return
	}
	reread := t.in.read(handle)
	if head(reread, 13) == "from the host" {
		t.say("mmap-from-host", partly, neutral, "the map showed the old content for %v, until somebody read the file",
			mapTime)
		return
	}
	t.check("mmap-from-host", false, "the host wrote into the file, and the map %s", saw(false))
}

func saw(seen bool) string {
	if seen {
		return "shows it"
	}
	return "does not show it within " + duration(mapTime)
}

func tryEventsAcross(t *try) {
	for _, d := range []struct {
		line           string
		writer, watchr *actor
		where          string
	}{{"inotify-from-host", t.out, t.in, "the host"}, {"inotify-to-host", t.in, t.out, "inside"}} {
		w, f := d.watchr.ask(fileops.Request{Op: fileops.Watch})
		if f != nil {
			t.refusal(d.line, bad, f)
			continue
		}
		d.writer.put(d.line, "")
		got := d.watchr.do(fileops.Request{Op: fileops.Events, Handle: w.Handle, Name: []byte(d.line),
			TimeoutNS: int64(otherEvents)})
		t.check(d.line, got.Seen, "%s made a file in a folder that the other side watches: %s", d.where,
			told(got.Seen, otherEvents))
	}
}
